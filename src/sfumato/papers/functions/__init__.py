"""Private functions: releases of your own function, the noise as printed, the figures."""

from sfumato.papers.functions.online import OnlineFunction, neighbour_weights
from sfumato.papers.functions.printed import (
    PrintedDensity,
    PrintedKernelClassifier,
    ProcessDensity,
)
from sfumato.papers.functions.release import (
    choose_function,
    expansion_norm,
    release_vector,
    sobolev_norm,
)
