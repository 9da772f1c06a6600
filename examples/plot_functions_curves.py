"""
The mean of private curves
==========================

Each row is a growth curve, observed at some ages only. The mean is released once. The band shows
the noise, whose size is public.
"""

# %%
# Curves with gaps
# ----------------
import matplotlib.pyplot as plt
import numpy as np

from sfumato import Bounds, PrivateMeanCurve

rng = np.random.default_rng(0)
ages = np.linspace(1, 18, 35)
pace, tall = rng.normal(12, 1, (400, 1)), rng.normal(0, 6, (400, 1))
heights = 75 + 5.5 * ages + tall + 12 / (1 + np.exp(-1.5 * (ages - pace)))
heights[rng.random(heights.shape) < 0.3] = np.nan

# %%
# Their mean at three budgets
# ---------------------------
fig, axes = plt.subplots(1, 3, figsize=(12, 4), layout="constrained", sharey=True)
for ax, epsilon in zip(axes, (0.3, 1.0, 3.0), strict=True):
    model = PrivateMeanCurve(
        ages, norm=1.2, epsilon=epsilon, delta=1e-4, bounds=Bounds(lower=50.0, upper=220.0)
    ).fit(heights)
    ax.plot(ages, heights[:40].T, ".", color="grey", markersize=1.5, alpha=0.5)
    ax.plot(ages, np.nanmean(heights, axis=0), "--", color="black", label="mean of the rows")
    curve, noise = model.curve(ages), model.noise_std(ages)
    ax.plot(ages, curve, label="private mean curve")
    ax.fill_between(ages, curve - 2 * noise, curve + 2 * noise, alpha=0.2, label="noise")
    ax.legend()
    ax.set_title(f"epsilon {epsilon:g}")
    ax.set_xlabel("age")
axes[0].set_ylabel("height")
print(model.guarantee_)
plt.show()
