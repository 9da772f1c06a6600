"""
FedDPDR-DPML, as printed and mended
===================================

Five parties with 250 digits each learn to tell even from odd (Wang and others, 2024). As printed,
the parties average eigenvectors, whose signs are arbitrary, and then machines. Mended, they add up.
"""

import numpy as np
from sklearn.datasets import load_digits

from sfumato import Bounds, PrivateLinearClassifier
from sfumato.papers.feddpdr import PrintedFedDPDR, fit_federation

X, y = load_digits(return_X_y=True)
X, y = X / np.linalg.norm(X, axis=1, keepdims=True), y % 2
parties = [(X[i:1250:5], y[i:1250:5]) for i in range(5)]
given = {"epsilon": 4.0, "delta": 1e-4, "bounds": Bounds(norm=1.0, labels=[0, 1])}
for aggregation in ("printed", "aligned"):
    printed = PrintedFedDPDR(20, aggregation=aggregation, **given).fit(parties)
    promised = printed.guarantee_
    print(f"{aggregation}: {printed.score(X[1250:], y[1250:]):.3f}, claims epsilon 4,", end=" ")
    print(f"holds {promised.epsilon:.2f}, {promised.status}")
mended = fit_federation(parties, PrivateLinearClassifier(n_steps=20, **given), trust="noisy")
print(f"mended: {mended.score(X[1250:], y[1250:]):.3f}", mended.guarantee_)
