"""
Large-margin Gaussians, as printed and mended
=============================================

Ellipsoids around three species of iris (Pathak and Raj, 2010). As printed, one noise matrix is
shared by all classes: it cancels from every decision, and many draws leave no minimiser.
"""

import warnings

from sklearn.datasets import load_iris

from sfumato import Bounds, PrivateLargeMarginGaussianClassifier
from sfumato.exceptions import SfumatoError
from sfumato.papers.large_margin import PrintedLargeMarginClassifier

X, y = load_iris(return_X_y=True)
given = {"epsilon": 20.0, "bounds": Bounds(lower=[4, 2, 1, 0], upper=[8, 5, 7, 3], labels=range(3))}
warnings.simplefilter("ignore")  # that the printed objective protects nobody
for _ in range(4):
    try:
        printed = PrintedLargeMarginClassifier(regularization=100.0, **given).fit(X, y)
        print("printed:", printed.guarantee_.status, printed.score(X, y))
    except SfumatoError as error:
        print("printed:", error)
mended = PrivateLargeMarginGaussianClassifier(delta=1e-3, **given).fit(X, y)
print("mended:", mended.guarantee_.status, mended.score(X, y))
