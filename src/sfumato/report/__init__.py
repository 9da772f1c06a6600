"""The report: what was promised and what was achieved, as JSON, Markdown and one HTML page."""

from sfumato.report.officer import Office
from sfumato.report.parts import Audit, LedgerExtract, Marginal
from sfumato.report.report import Report, Result

__all__ = ["Audit", "LedgerExtract", "Marginal", "Office", "Report", "Result"]
