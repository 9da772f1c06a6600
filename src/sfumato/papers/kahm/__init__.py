"""Kernel affine hulls: the printed private algorithm (refuted), the tables, their verdicts."""

from sfumato.papers.kahm.printed import PrintedAffineHullClassifier, PrintedFabricator

__all__ = ["PrintedAffineHullClassifier", "PrintedFabricator"]
