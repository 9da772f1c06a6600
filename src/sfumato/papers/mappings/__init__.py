"""Membership mappings: the printed transfer, the tables, their verdicts."""

from sfumato.papers.mappings.printed import PrintedTransfer

__all__ = ["PrintedTransfer"]
