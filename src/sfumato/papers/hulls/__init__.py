"""Kernel affine hulls: the printed private algorithm (refuted), the tables, their verdicts."""

from sfumato.papers.hulls.printed import PrintedAffineHullClassifier, PrintedFabricator

__all__ = ["PrintedAffineHullClassifier", "PrintedFabricator"]
