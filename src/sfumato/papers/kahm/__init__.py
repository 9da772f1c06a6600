"""Kernel affine hulls: private algorithms as printed (refuted) and mended, tables, verdicts."""

from sfumato.papers.kahm.entries import (
    EntryFabricator,
    EntryHullClassifier,
)
from sfumato.papers.kahm.printed import (
    PrintedAffineHullClassifier,
    PrintedFabricator,
)
