"""Linear machines of the paper on FedDPDR-DPML: as printed, mended, and their experiments."""

from sfumato.papers.feddpdr.objective import PrivateObjectiveClassifier
from sfumato.papers.feddpdr.printed import PrintedDPML
