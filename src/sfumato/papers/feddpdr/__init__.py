"""FedDPDR-DPML and its linear machines: as printed, mended, and their experiments.

`PrintedFedDPDR` is Algorithm 1, `PrintedDPML` DPML and DPDR-DPML; `fit_federation` is mended.
"""

from sfumato.papers.feddpdr.methods import fit_federation
from sfumato.papers.feddpdr.printed import PrintedDPML, PrintedFedDPDR
