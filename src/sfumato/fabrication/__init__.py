"""Private rows that any estimator may be trained on, and private hulls of such rows."""

from sfumato.fabrication.fabricator import Fabricator
from sfumato.fabrication.hull_classifier import PrivateAffineHullClassifier
from sfumato.fabrication.linked import LinkedTables

__all__ = ["Fabricator", "LinkedTables", "PrivateAffineHullClassifier"]
