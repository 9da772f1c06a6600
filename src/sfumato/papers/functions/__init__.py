"""Private functions: releases of your own function, the noise as printed, the figures."""

from sfumato.papers.functions.online import OnlineFunction, neighbour_weights
from sfumato.papers.functions.printed import PrintedDensity, PrintedKernelClassifier, ProcessDensity
from sfumato.papers.functions.release import (
    choose_function,
    density_sensitivity,
    expansion_norm,
    machine_sensitivity,
    release_vector,
    rule_of_thumb,
    sobolev_density_sensitivity,
    sobolev_norm,
)
