"""Sfumato: private learning with kernels."""

from sfumato.bounds import Bounds
from sfumato.guarantee import Guarantee

__all__ = ["Bounds", "Guarantee"]
__version__ = "0.1.0"
