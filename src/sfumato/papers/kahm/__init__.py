"""Kernel affine hulls: private algorithms as printed (refuted) and mended, tables, verdicts."""

from sfumato.papers.kahm.systems import (
    EntryFabricator,
    EntryHullClassifier,
    PrintedAffineHullClassifier,
    PrintedFabricator,
)
