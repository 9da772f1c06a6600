"""Private moments: the record-level engine of the other rooms.

One noisy sum of outer products, and everything after it is post-processing.
"""

from sfumato.moments.classifier import PrivateGaussianClassifier
from sfumato.moments.moments import PrivateMoments
from sfumato.moments.pca import PrivatePCA

__all__ = ["PrivateGaussianClassifier", "PrivateMoments", "PrivatePCA"]
