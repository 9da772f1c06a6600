"""Public features of images: no data are needed to make them."""

from sfumato.image_features.hog import HOGFeatures
from sfumato.image_features.patches import RandomPatchFeatures
from sfumato.image_features.random_process import RandomProcessFeatures
from sfumato.image_features.scattering import ScatteringFeatures

__all__ = ["HOGFeatures", "RandomPatchFeatures", "RandomProcessFeatures", "ScatteringFeatures"]
