"""
One label per class, and a private source
==========================================

A source with many labels releases one private Gaussian per class. A target with one label per class
starts from them. The picture compares the result with the target alone.
"""

# %%
# A source, a target, few labels
# ------------------------------
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from sfumato import Bounds, PrivateTransferClassifier

# Digits are public, so the target needs no protection here.
warnings.filterwarnings("ignore", message="The target is not protected")

X, y = load_digits(return_X_y=True)
X = X / 16
source, y_source, target, truth = X[:1100], y[:1100], X[1100:], y[1100:]
bounds = Bounds(lower=0.0, upper=1.0, labels=range(10))
shared = {"epsilon": 3.0, "delta": 1e-5, "n_components": 20, "bounds": bounds}


def few_labels(per_class: int, seed: int) -> np.ndarray:
    known = np.full(len(truth), -1)
    generator = np.random.default_rng(seed)
    for digit in range(10):
        known[generator.choice(np.nonzero(truth == digit)[0], per_class, replace=False)] = digit
    return known


# %%
# With and without the source
# ---------------------------
counts = (1, 2, 3, 5)
accuracy = {True: [], False: []}
for per_class in counts:
    for use_source, found in accuracy.items():
        right = []
        for seed in range(3):
            known = few_labels(per_class, seed)
            model = PrivateTransferClassifier(use_source=use_source, random_state=seed, **shared)
            labels = model.fit_predict(source, y_source, target, known)
            right.append(np.mean(labels[known < 0] == truth[known < 0]))
        found.append(np.mean(right))

plt.plot(counts, accuracy[True], "o-", label="with the private source (epsilon 3)")
plt.plot(counts, accuracy[False], "s--", label="target alone")
plt.xticks(counts)
plt.xlabel("labels per class")
plt.ylabel("accuracy on unlabelled target rows")
plt.ylim(0.4, 1.0)
plt.legend()
plt.show()

# %%
# What is guaranteed, and to whom.
print(model.guarantee_)
