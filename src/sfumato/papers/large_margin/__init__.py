"""Large-margin ellipsoids: without privacy, as printed (refuted) and mended; experiments."""

from sfumato.papers.large_margin.classifier import (
    LargeMarginGaussianClassifier,
)
from sfumato.papers.large_margin.printed import (
    PrintedLargeMarginClassifier,
)
from sfumato.papers.large_margin.private import (
    PrivateLargeMarginGaussianClassifier,
)
