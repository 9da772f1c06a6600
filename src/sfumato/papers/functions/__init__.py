"""Private functions of kernel spaces: the noise as printed, the figures, their verdicts."""

from sfumato.papers.functions.printed import (
    PrintedDensity,
    PrintedKernelClassifier,
)
