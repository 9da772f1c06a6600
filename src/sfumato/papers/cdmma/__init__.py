"""Membership mappings and transfer: the printed system, the mended one, tables and verdicts."""

from sfumato.papers.cdmma.systems import EntryTransfer, PrintedTransfer
