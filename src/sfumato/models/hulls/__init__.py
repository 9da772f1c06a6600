"""Kernel affine hulls: the shape of a set of rows as the image of a bounded map."""

from sfumato.models.hulls.classifier import AffineHullClassifier
from sfumato.models.hulls.deep import (
    DeepAffineHull,
    KernelAffineHull,
)
from sfumato.models.hulls.wide import WideAffineHull
