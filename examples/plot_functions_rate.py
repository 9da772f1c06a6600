"""
With enough rows, a private density is as good as the plain one
===============================================================

The risk of a kernel density estimate falls as n^(-4/(4+d)). Privacy adds noise of variance of the
order 1/(n h^d)², which falls faster: with enough rows nothing is lost.
"""

# %%
# Risk against the number of rows
# -------------------------------
import warnings

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import norm

from sfumato import Bounds
from sfumato.papers.functions import ProcessDensity

warnings.filterwarnings("ignore", message="delta=")
BOX = Bounds(lower=0.0, upper=1.0)
SIZES, SD = np.array([250, 1000, 4000, 16000]), 0.12


def risk(n, d, epsilon):
    """Mean squared error over a grid, for normal rows, mean of four runs."""
    places = (np.arange(40) + 0.5) / 40
    x = np.stack(np.meshgrid(*[places] * d), axis=-1).reshape(-1, d)
    truth = np.prod(norm.pdf(x, 0.5, SD), axis=1)
    h = 1.5 * SD * n ** (-1 / (4 + d))
    errors = []
    for seed in range(4):
        rows = np.random.default_rng(seed).normal(0.5, SD, size=(n, d))
        model = ProcessDensity(h, epsilon=epsilon, delta=1e-6, bounds=BOX).fit(rows)
        errors.append(np.mean((model.raw_density(x) - truth) ** 2))
    return np.mean(errors)


fig, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
for ax, d in zip(axes, (1, 2), strict=True):
    for label, epsilon in (("no noise", np.inf), ("epsilon 1", 1.0), ("epsilon 0.2", 0.2)):
        risks = [risk(n, d, epsilon) for n in SIZES]
        slope = np.polyfit(np.log(SIZES), np.log(risks), 1)[0]
        ax.loglog(SIZES, risks, "o-", label=f"{label}: slope {slope:.2f}")
    reference = risks[-1] * (SIZES / SIZES[-1]) ** (-4 / (4 + d))
    ax.loglog(SIZES, reference, ":", color="black", label=f"slope {-4 / (4 + d):.2f}")
    ax.set_title(f"{d} feature{'s' if d > 1 else ''}")
    ax.set_xlabel("rows")
    ax.legend()
axes[0].set_ylabel("risk")
plt.show()
