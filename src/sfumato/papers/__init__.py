"""Tables and figures of the five papers, run again: printed figures, ours, and a verdict."""

from sfumato.papers.catalogue import (
    PAPERS,
    Unrun,
    entries_of,
    entry_of,
    unrun_of,
)
from sfumato.papers.entry import (
    Comparison,
    Entry,
    Outcome,
    Setting,
    Verdict,
    verdict_of,
)
from sfumato.papers.running import (
    Reproduction,
    keep,
    reproduce,
)
