"""Membership mappings: the printed transfer, the tables, their verdicts."""

from sfumato.papers.cdmma.printed import PrintedTransfer

__all__ = ["PrintedTransfer"]
