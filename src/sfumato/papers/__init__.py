"""Tables and figures of the five papers, run again: printed figures, ours, and a verdict."""

from sfumato.papers.catalogue import PAPERS, Unrun, entries_of, entry_of, unrun_of
from sfumato.papers.entry import Comparison, Entry, Outcome, Setting, Verdict, verdict_of
from sfumato.papers.running import Reproduction, keep, reproduce

__all__ = [
    "PAPERS",
    "Comparison",
    "Entry",
    "Outcome",
    "Reproduction",
    "Setting",
    "Unrun",
    "Verdict",
    "entries_of",
    "entry_of",
    "keep",
    "reproduce",
    "unrun_of",
    "verdict_of",
]
