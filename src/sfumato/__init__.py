"""Sfumato: private learning with kernels."""

from sfumato.accounting.ledger import Ledger
from sfumato.bounds import Bounds
from sfumato.functions import (
    PrivateDensity,
    PrivateKernelClassifier,
    PrivateKernelRegressor,
    PrivateMeanCurve,
)
from sfumato.guarantee import Guarantee
from sfumato.hulls import (
    AffineHullClassifier,
    DeepAffineHull,
    Fabricator,
    KernelAffineHull,
    PrivateAffineHullClassifier,
    WideAffineHull,
)
from sfumato.mappings import (
    MembershipAutoencoder,
    MembershipClassifier,
    MembershipMapping,
    PrivateTransferClassifier,
    WideMembershipAutoencoder,
)
from sfumato.margins import (
    HOGFeatures,
    LargeMarginGaussianClassifier,
    LinearClassifier,
    PrivateLargeMarginGaussianClassifier,
    PrivateLinearClassifier,
    ScatteringFeatures,
)
from sfumato.moments import PrivateGaussianClassifier, PrivateMoments, PrivatePCA
from sfumato.persistence import load, save

__all__ = [
    "AffineHullClassifier",
    "Bounds",
    "DeepAffineHull",
    "Fabricator",
    "Guarantee",
    "HOGFeatures",
    "KernelAffineHull",
    "LargeMarginGaussianClassifier",
    "Ledger",
    "LinearClassifier",
    "MembershipAutoencoder",
    "MembershipClassifier",
    "MembershipMapping",
    "PrivateAffineHullClassifier",
    "PrivateDensity",
    "PrivateGaussianClassifier",
    "PrivateKernelClassifier",
    "PrivateKernelRegressor",
    "PrivateLargeMarginGaussianClassifier",
    "PrivateLinearClassifier",
    "PrivateMeanCurve",
    "PrivateMoments",
    "PrivatePCA",
    "PrivateTransferClassifier",
    "ScatteringFeatures",
    "WideAffineHull",
    "WideMembershipAutoencoder",
    "load",
    "save",
]
__version__ = "0.1.0"
