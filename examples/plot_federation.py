"""
Five hospitals, one model, no shared rows
=========================================

The parties of a federation send masked sums; the coordinator learns the noisy total alone. The
noise has to hide one record among the rows of all parties, so together they need far less of it.
"""

import tempfile

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

from sfumato import Bounds, PrivateGaussianClassifier
from sfumato.federated import Federation, make_parties

X, y = load_digits(return_X_y=True)
train, test = slice(0, 1300), slice(1300, None)
bounds = Bounds(norm=64.0, labels=range(10))
found = {"one party alone": [], "five parties": []}
epsilons = [1.0, 2.0, 4.0, 8.0]
for epsilon in epsilons:
    model = PrivateGaussianClassifier(epsilon=epsilon, delta=1e-5, bounds=bounds)
    found["one party alone"].append(model.fit(X[:260], y[:260]).score(X[test], y[test]))
    with tempfile.TemporaryDirectory() as folder:
        parties = make_parties(X[train], y[train], folder, n_parties=5, random_state=0)
        federation = Federation(parties, bounds=bounds, trust="secure", colluding=1)
        found["five parties"].append(model.fit(federation).score(X[test], y[test]))
print(model.guarantee_)

plt.figure(figsize=(6, 3.5), layout="constrained")
for name, accuracy in found.items():
    plt.plot(epsilons, accuracy, "o-", label=name)
plt.xlabel("epsilon")
plt.ylabel("accuracy on new digits")
plt.legend()
plt.show()
