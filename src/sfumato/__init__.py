"""Sfumato: private learning with kernels."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

# A room is imported when one of its names is first asked for, so that a script waits only for what
# it uses.
_ROOMS = {
    "sfumato.accounting.ledger": ("Ledger",),
    "sfumato.bounds": ("Bounds",),
    "sfumato.functions": (
        "PrivateDensity",
        "PrivateKernelClassifier",
        "PrivateKernelRegressor",
        "PrivateMeanCurve",
    ),
    "sfumato.guarantee": ("Guarantee",),
    "sfumato.hulls": (
        "AffineHullClassifier",
        "DeepAffineHull",
        "Fabricator",
        "KernelAffineHull",
        "PrivateAffineHullClassifier",
        "WideAffineHull",
    ),
    "sfumato.mappings": (
        "MembershipAutoencoder",
        "MembershipClassifier",
        "MembershipMapping",
        "PrivateTransferClassifier",
        "WideMembershipAutoencoder",
    ),
    "sfumato.margins": (
        "HOGFeatures",
        "LargeMarginGaussianClassifier",
        "LinearClassifier",
        "PrivateLargeMarginGaussianClassifier",
        "PrivateLinearClassifier",
        "ScatteringFeatures",
    ),
    "sfumato.moments": ("PrivateGaussianClassifier", "PrivateMoments", "PrivatePCA"),
    "sfumato.persistence": ("load", "save"),
}
_ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _ROOM_OF:
        raise AttributeError(f"module 'sfumato' has no attribute {name!r}")
    value = getattr(import_module(_ROOM_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
