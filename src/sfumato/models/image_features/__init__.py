"""Public features of images: no data are needed to make them."""

from sfumato.models.image_features.hog import HOGFeatures
from sfumato.models.image_features.patches import RandomPatchFeatures
from sfumato.models.image_features.random_process import (
    RandomProcessFeatures,
)
from sfumato.models.image_features.scattering import ScatteringFeatures
