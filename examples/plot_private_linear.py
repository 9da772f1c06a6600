"""
What a private linear classifier sees
=====================================

The weights of a linear classifier are images themselves. With a small budget they drown in noise.
Features that read no data, and whitening by a private second moment, preserve more of them.
"""

# %%
# Weights at three budgets
# ------------------------
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from sfumato import Bounds, HOGFeatures, PrivateLinearClassifier

X, y = load_digits(return_X_y=True)
X = X / np.linalg.norm(X, axis=1, keepdims=True)
X, X_test, y, y_test = train_test_split(X, y, random_state=0)
bounds = Bounds(norm=1.0, labels=range(10))
shared = {"delta": 1e-5, "fit_intercept": False, "bounds": bounds}

models = [LogisticRegression(fit_intercept=False).fit(X, y)]
models += [
    PrivateLinearClassifier(whiten=False, epsilon=e, **shared).fit(X, y) for e in (10.0, 2.0, 0.5)
]
titles = ["not private", "epsilon 10", "epsilon 2", "epsilon 0.5"]
fig, axes = plt.subplots(4, 6, figsize=(8, 5.5), layout="constrained")
for row, model, title in zip(axes, models, titles, strict=True):
    weights = model.coef_
    for digit, ax in enumerate(row):
        most = np.abs(weights[digit]).max()  # so that white is zero
        ax.imshow(weights[digit].reshape(8, 8), cmap="RdBu_r", vmin=-most, vmax=most)
        ax.set_axis_off()
    row[0].set_title(f"{title}: {model.score(X_test, y_test):.2f}", loc="left", fontsize=9)
plt.show()

# %%
# What helps
# ----------
# Each point is the mean of two fits on 1,347 images; the whole budget is charged.
features = HOGFeatures(image_shape=(8, 8), cell=2).fit(X)
ways = {
    "noisy descent": ({"whiten": False}, False),
    "noisy descent, whitened": ({}, False),
    "whitened HOG features": ({}, True),
}
budgets = [0.5, 2.0, 8.0]
fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
for name, (settings, use_features) in ways.items():
    train, test = (features.transform(Z) if use_features else Z for Z in (X, X_test))
    means = [
        np.mean(
            [
                PrivateLinearClassifier(epsilon=e, **settings, **shared)
                .fit(train, y)
                .score(test, y_test)
                for _ in range(2)
            ]
        )
        for e in budgets
    ]
    ax.semilogx(budgets, means, "o-", label=name)
ceiling = models[0].score(X_test, y_test)
ax.axhline(ceiling, color="grey", linestyle=":", label="not private, pixels")
ax.set_xticks(budgets, [f"{e:g}" for e in budgets], minor=False)
ax.minorticks_off()
ax.set(xlabel="epsilon (delta 1e-5, replace one)", ylabel="accuracy", ylim=(0, 1))
ax.legend()
plt.show()

# %%
# The guarantee of the last model
# -------------------------------
print(models[-1].guarantee_)
