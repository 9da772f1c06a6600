"""Large-margin ellipsoids: the printed objective (refuted), an experiment, its verdict."""

from sfumato.papers.large_margin.printed import PrintedLargeMarginClassifier

__all__ = ["PrintedLargeMarginClassifier"]
