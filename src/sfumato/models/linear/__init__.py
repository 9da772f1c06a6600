"""Linear classifiers by private objectives and noisy gradients, regression by moments."""

from sfumato.models.linear.classifier import LinearClassifier
from sfumato.models.linear.images import PrivateImageClassifier
from sfumato.models.linear.private import PrivateLinearClassifier
from sfumato.models.linear.regressor import PrivateLinearRegressor
