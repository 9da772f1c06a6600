"""Linear classifiers by private objectives and noisy gradients, regression by moments."""

from sfumato.linear.classifier import LinearClassifier
from sfumato.linear.images import PrivateImageClassifier
from sfumato.linear.private import PrivateLinearClassifier
from sfumato.linear.regressor import PrivateLinearRegressor

__all__ = [
    "LinearClassifier",
    "PrivateImageClassifier",
    "PrivateLinearClassifier",
    "PrivateLinearRegressor",
]
