"""Federated support vector machines: DPML as printed, the figures, their verdicts."""

from sfumato.papers.feddpdr.printed import PrintedDPML
