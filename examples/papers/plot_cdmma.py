"""
CDMMA transfer, as printed and mended
=====================================

A noisy source of digits helps a target with 100 labels (Kumar, 2021, Algorithm 6). One pixel of the
source is protected. Mended, each target row is labelled by a model that did not see it.
"""

import numpy as np
from sklearn.datasets import load_digits

from sfumato import Bounds
from sfumato.papers.cdmma import MembershipTransferClassifier

X, y = load_digits(return_X_y=True)
X, known = X / 16, np.where(np.arange(797) < 100, y[1000:], -1)
bounds = Bounds(lower=0, upper=1, labels=range(10))
for cross_fit in (False, True):
    model = MembershipTransferClassifier(
        epsilon=0.1, delta=1e-5, cross_fit=cross_fit, random_state=0, bounds=bounds
    ).fit(X[:1000], y[:1000])
    model.fit_target(X[1000:], known)
    name = "mended" if cross_fit else "as printed"
    print(name, model.guarantee_.status, model.score(X[1000:], y[1000:]))
