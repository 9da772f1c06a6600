"""
KAHM, as printed and mended
===========================

Hulls of fabricated digits (Kumar, Moser and Fischer, 2024, Definition 15). As printed, clusters and
the stop of the smoother are read off the raw rows, which protects nobody; mended, one pixel is.
"""

from sklearn.datasets import load_digits

from sfumato import Bounds
from sfumato.papers.kahm import EntryHullClassifier, PrintedAffineHullClassifier

X, y = load_digits(return_X_y=True)
given = {"epsilon": 16.0, "delta": 1e-5, "bounds": Bounds(lower=0, upper=1, labels=range(10))}
for kind in (PrintedAffineHullClassifier, EntryHullClassifier):
    model = kind(20, random_state=0, **given).fit(X[:1000] / 16, y[:1000])
    print(kind.__name__, model.guarantee_.status, model.score(X[1000:] / 16, y[1000:]))
