"""Membership mappings: the transfer as printed and mended, the tables, their verdicts."""

from sfumato.papers.cdmma.entries import EntryTransfer
from sfumato.papers.cdmma.printed import PrintedTransfer
