"""FedDPDR-DPML and its linear machines: as printed, mended, and their experiments.

`PrintedFedDPDR` is FedDPDR-DPML (Algorithm 1), `PrintedDPML` is DPML and, with components,
DPDR-DPML; `fit_federation` is mended. ``sfumato reproduce feddpdr --figure 3 --quick`` runs a
figure.
"""

from sfumato.papers.feddpdr.methods import fit_federation
from sfumato.papers.feddpdr.printed import PrintedDPML, PrintedFedDPDR
