"""Private rows that any estimator may be trained on, and private hulls of such rows."""

from sfumato.synthetic.fabricator import Fabricator
from sfumato.synthetic.hull_classifier import (
    PrivateAffineHullClassifier,
)
from sfumato.synthetic.linked import LinkedTables
