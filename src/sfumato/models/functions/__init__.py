"""Private functions: released at points, or as one finite vector."""

from sfumato.models.functions.classifier import PrivateKernelClassifier
from sfumato.models.functions.density import PrivateDensity
from sfumato.models.functions.features import (
    FeatureMap,
    KnotFeatures,
    TaylorFeatures,
)
from sfumato.models.functions.fourier import FourierFeatures
from sfumato.models.functions.maps import features_from_dict
from sfumato.models.functions.mean_curve import PrivateMeanCurve
from sfumato.models.functions.periodic import PeriodicFeatures
from sfumato.models.functions.regressor import PrivateKernelRegressor
from sfumato.models.functions.release import (
    ReleasedFunction,
    release_function,
)
