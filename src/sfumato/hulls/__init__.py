"""Kernel affine hulls: the shape of a set of rows as the image of a bounded map."""

from sfumato.hulls.affine import KernelAffineHull
from sfumato.hulls.classifier import AffineHullClassifier
from sfumato.hulls.deep import DeepAffineHull
from sfumato.hulls.fabrication import Fabricator
from sfumato.hulls.private import PrivateAffineHullClassifier
from sfumato.hulls.wide import WideAffineHull

__all__ = [
    "AffineHullClassifier",
    "DeepAffineHull",
    "Fabricator",
    "KernelAffineHull",
    "PrivateAffineHullClassifier",
    "WideAffineHull",
]
