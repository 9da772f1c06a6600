"""
A private kernel machine in the plane
=====================================

Figure 3 of the paper on private functions: a kernel support vector machine, without noise, with
the noise as printed, and with the noise that is needed. The lines are the scores -1, 0 and 1.
"""

# %%
# A thousand rows with a few wrong labels
# ---------------------------------------
import matplotlib.pyplot as plt
import numpy as np

from sfumato import Bounds, PrivateKernelClassifier
from sfumato.papers.functions import PrintedKernelClassifier

rng = np.random.default_rng(0)
X = rng.uniform(size=(1000, 2))
y = (np.sin(6 * X[:, 0]) / 4 + 0.5 > X[:, 1]).astype(int)
truth = y.copy()
y[rng.random(1000) < 0.03] ^= 1
settings = {
    "loss": "hinge",
    "bandwidth": 0.3,
    "regularization": 0.01,
    "delta": 1e-5,
    "bounds": Bounds(lower=0.0, upper=1.0, labels=[0, 1]),
}

# %%
# Three machines
# --------------
axis = np.linspace(0, 1, 120)
grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
fig, axes = plt.subplots(1, 3, figsize=(12, 4.2), layout="constrained", sharey=True)
for ax, (title, change) in zip(
    axes,
    {
        "no noise": {"epsilon": np.inf},
        "noise as printed": {},
        "noise needed": {},
    }.items(),
    strict=True,
):
    kind = PrintedKernelClassifier if title == "noise as printed" else PrivateKernelClassifier
    model = kind(**settings, **change).fit(X, y)
    scores = model.decision_function(grid).reshape(120, 120)
    ax.contourf(axis, axis, scores > 0, levels=[-0.5, 0.5, 1.5], colors=["#f3d9c9", "#cfe0ee"])
    ax.contour(axis, axis, scores, levels=[-1, 0, 1], colors="black", linewidths=[0.5, 1.5, 0.5])
    ax.scatter(*X[y == 0].T, s=3, color="#b1541b")
    ax.scatter(*X[y == 1].T, s=3, marker="x", color="#1f5f99")
    ax.set_title(f"{title}: right {np.mean(model.predict(X) == truth):.1%}")
    ax.set_xlabel(f"noise of a score {model.noise_std_:.2f}")
    print(f"{title}: {model.guarantee_}")
plt.show()
