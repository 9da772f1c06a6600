"""Large-margin ellipsoids: one per class, fitted by one objective."""

from sfumato.ellipsoids.classifier import LargeMarginGaussianClassifier
from sfumato.ellipsoids.private import PrivateLargeMarginGaussianClassifier

__all__ = ["LargeMarginGaussianClassifier", "PrivateLargeMarginGaussianClassifier"]
