"""
A private source for a target with few labels
=============================================

A source with many labels releases one private Gaussian per class. A target with one to three labels
per class starts from them.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from sfumato import Bounds, PrivateTransferClassifier

warnings.filterwarnings("ignore", message="The target is not protected")  # digits are public
X, y = load_digits(return_X_y=True)
source, y_source, target, truth = X[:1100] / 16, y[:1100], X[1300:] / 16, y[1300:]
shared = {"epsilon": 3.0, "delta": 1e-5, "n_components": 20, "random_state": 0}
shared["bounds"] = Bounds(lower=0.0, upper=1.0, labels=range(10))

per_class, accuracy = [1, 2, 3], {True: [], False: []}
for count in per_class:
    known = np.full(len(truth), -1)
    for digit in range(10):
        known[np.nonzero(truth == digit)[0][:count]] = digit
    for use_source, found in accuracy.items():
        model = PrivateTransferClassifier(use_source=use_source, **shared)
        labels = model.fit_predict(source, y_source, target, known)
        found.append(np.mean(labels[known < 0] == truth[known < 0]))

plt.plot(per_class, accuracy[True], "o-", label="with the private source, epsilon 3")
plt.plot(per_class, accuracy[False], "s--", label="target alone")
plt.xticks(per_class)
plt.xlabel("labels per class")
plt.ylabel("accuracy on unlabelled rows")
plt.legend()
plt.show()
