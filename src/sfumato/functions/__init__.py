"""Private functions: released at points, or as one finite vector."""

from sfumato.functions.classifier import PrivateKernelClassifier
from sfumato.functions.density import PrivateDensity
from sfumato.functions.features import FeatureMap, KnotFeatures, TaylorFeatures
from sfumato.functions.fourier import FourierFeatures
from sfumato.functions.maps import features_from_dict
from sfumato.functions.mean_curve import PrivateMeanCurve
from sfumato.functions.periodic import PeriodicFeatures
from sfumato.functions.regressor import PrivateKernelRegressor
from sfumato.functions.release import ReleasedFunction, release_function

__all__ = [
    "FeatureMap",
    "FourierFeatures",
    "KnotFeatures",
    "PeriodicFeatures",
    "PrivateDensity",
    "PrivateKernelClassifier",
    "PrivateKernelRegressor",
    "PrivateMeanCurve",
    "ReleasedFunction",
    "TaylorFeatures",
    "features_from_dict",
    "release_function",
]
