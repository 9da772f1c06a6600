"""Sfumato: private learning with kernels."""

from sfumato.accounting.ledger import Ledger
from sfumato.bounds import Bounds
from sfumato.guarantee import Guarantee
from sfumato.hulls import (
    AffineHullClassifier,
    DeepAffineHull,
    Fabricator,
    KernelAffineHull,
    PrivateAffineHullClassifier,
    WideAffineHull,
)
from sfumato.moments import PrivateGaussianClassifier, PrivateMoments, PrivatePCA
from sfumato.persistence import load, save

__all__ = [
    "AffineHullClassifier",
    "Bounds",
    "DeepAffineHull",
    "Fabricator",
    "Guarantee",
    "KernelAffineHull",
    "Ledger",
    "PrivateAffineHullClassifier",
    "PrivateGaussianClassifier",
    "PrivateMoments",
    "PrivatePCA",
    "WideAffineHull",
    "load",
    "save",
]
__version__ = "0.1.0"
