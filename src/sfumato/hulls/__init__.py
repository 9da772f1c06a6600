"""Kernel affine hulls: the shape of a set of rows as the image of a bounded map."""

from sfumato.hulls.classifier import AffineHullClassifier
from sfumato.hulls.deep import DeepAffineHull, KernelAffineHull
from sfumato.hulls.wide import WideAffineHull

__all__ = [
    "AffineHullClassifier",
    "DeepAffineHull",
    "KernelAffineHull",
    "WideAffineHull",
]
