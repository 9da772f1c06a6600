"""The report: what was promised and what was achieved, for a person to read."""

from sfumato.report.report import Report, Result

__all__ = ["Report", "Result"]
