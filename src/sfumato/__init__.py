"""Sfumato: private learning with kernels."""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sfumato.ledger.ledger import Ledger
    from sfumato.models.additive import (
        PrivateAdditiveClassifier,
        PrivateAdditiveRegressor,
    )
    from sfumato.models.curves import PrivateMeanCurve
    from sfumato.models.density import PrivateDensity
    from sfumato.models.generated_features import RandomPatchFeatures, RandomProcessFeatures
    from sfumato.models.hulls import (
        AffineHullClassifier,
        DeepAffineHull,
        KernelAffineHull,
        WideAffineHull,
    )
    from sfumato.models.image_features import HOGFeatures, ScatteringFeatures
    from sfumato.models.images import PrivateImageClassifier
    from sfumato.models.kernel import PrivateKernelClassifier, PrivateKernelRegressor
    from sfumato.models.linear import (
        PrivateLinearClassifier,
        PrivateLinearRegressor,
    )
    from sfumato.models.mappings import (
        MembershipAutoencoder,
        MembershipClassifier,
        MembershipMapping,
    )
    from sfumato.models.moments import (
        PrivateGaussianClassifier,
        PrivateMoments,
        PrivatePCA,
    )
    from sfumato.models.pipelines import check_pipeline
    from sfumato.models.saving import load, save
    from sfumato.models.scores import release_score
    from sfumato.models.search import PrivateSearchCV
    from sfumato.models.statistics import (
        ReleasedStatistic,
        release_correlation,
        release_counts,
        release_histogram,
        release_mean,
        release_quantiles,
        release_sum,
        release_variance,
    )
    from sfumato.models.transfer import PrivateTransferClassifier
    from sfumato.papers.kahm import EntryHullClassifier
    from sfumato.papers.large_margin import (
        LargeMarginGaussianClassifier,
        PrivateLargeMarginGaussianClassifier,
    )
    from sfumato.privacy.guarantee import Guarantee
    from sfumato.synthetic.fabricator import Fabricator
    from sfumato.synthetic.gaussian_fabricator import GaussianFabricator
    from sfumato.synthetic.hull_classifier import PrivateAffineHullClassifier
    from sfumato.synthetic.linked import LinkedTables
    from sfumato.tables import TableBounds, TableEncoder, check_table
    from sfumato.tables.bounds import Bounds

__version__ = "0.2.0"

if find_spec("fcntl") is None:  # said at once, not by whichever package is imported first
    raise ImportError(
        "Sfumato needs Linux or macOS: a ledger that two processes write at once is only safe with "
        "the file locks of POSIX, which Windows lacks. WSL is Linux."
    )

# A module is imported when one of its names is first used, so that a script waits only for those.
_MODULES = {
    "sfumato.ledger.ledger": ("Ledger",),
    "sfumato.models.additive": ("PrivateAdditiveClassifier", "PrivateAdditiveRegressor"),
    "sfumato.tables.bounds": ("Bounds",),
    "sfumato.models.curves": ("PrivateMeanCurve",),
    "sfumato.models.density": ("PrivateDensity",),
    "sfumato.models.kernel": ("PrivateKernelClassifier", "PrivateKernelRegressor"),
    "sfumato.privacy.guarantee": ("Guarantee",),
    "sfumato.models.hulls": (
        "AffineHullClassifier",
        "DeepAffineHull",
        "KernelAffineHull",
        "WideAffineHull",
    ),
    "sfumato.models.mappings": (
        "MembershipAutoencoder",
        "MembershipClassifier",
        "MembershipMapping",
    ),
    "sfumato.models.generated_features": ("RandomPatchFeatures", "RandomProcessFeatures"),
    "sfumato.models.image_features": ("HOGFeatures", "ScatteringFeatures"),
    "sfumato.models.images": ("PrivateImageClassifier",),
    "sfumato.models.linear": (
        "PrivateLinearClassifier",
        "PrivateLinearRegressor",
    ),
    "sfumato.models.transfer": ("PrivateTransferClassifier",),
    "sfumato.papers.large_margin": (
        "LargeMarginGaussianClassifier",
        "PrivateLargeMarginGaussianClassifier",
    ),
    "sfumato.synthetic.fabricator": ("Fabricator",),
    "sfumato.synthetic.gaussian_fabricator": ("GaussianFabricator",),
    "sfumato.synthetic.hull_classifier": ("PrivateAffineHullClassifier",),
    "sfumato.synthetic.linked": ("LinkedTables",),
    "sfumato.models.moments": ("PrivateGaussianClassifier", "PrivateMoments", "PrivatePCA"),
    "sfumato.papers.kahm": ("EntryHullClassifier",),
    "sfumato.models.pipelines": ("check_pipeline",),
    "sfumato.models.scores": ("release_score",),
    "sfumato.models.search": ("PrivateSearchCV",),
    "sfumato.models.saving": ("load", "save"),
    "sfumato.models.statistics": (
        "ReleasedStatistic",
        "release_correlation",
        "release_counts",
        "release_histogram",
        "release_mean",
        "release_quantiles",
        "release_sum",
        "release_variance",
    ),
    "sfumato.tables": ("TableBounds", "TableEncoder", "check_table"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name == "papers":  # so that `help(sfumato.papers)` needs no other import
        return import_module("sfumato.papers")
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'sfumato' has no attribute {name!r}")
    value = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULE_OF})
