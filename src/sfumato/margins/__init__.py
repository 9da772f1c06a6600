"""Margins: linear classifiers and large-margin ellipsoids, private and not, and image features."""

from sfumato.margins.features_hog import HOGFeatures
from sfumato.margins.large_margin import LargeMarginGaussianClassifier
from sfumato.margins.linear import LinearClassifier
from sfumato.margins.private_large_margin import PrivateLargeMarginGaussianClassifier
from sfumato.margins.private_linear import PrivateLinearClassifier
from sfumato.margins.scattering import ScatteringFeatures

__all__ = [
    "HOGFeatures",
    "LargeMarginGaussianClassifier",
    "LinearClassifier",
    "PrivateLargeMarginGaussianClassifier",
    "PrivateLinearClassifier",
    "ScatteringFeatures",
]
