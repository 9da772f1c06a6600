"""Sfumato: private learning with kernels."""

from sfumato.bounds import Bounds
from sfumato.guarantee import Guarantee
from sfumato.moments import PrivateGaussianClassifier, PrivateMoments, PrivatePCA

__all__ = ["Bounds", "Guarantee", "PrivateGaussianClassifier", "PrivateMoments", "PrivatePCA"]
__version__ = "0.1.0"
