"""
A private density, with the noise of the paper and with less
============================================================

Figures 1 and 2 of the paper on private functions: 100 rows of two normals, bandwidth 0.1,
epsilon 1, delta 0.1. On the left is the noise as printed, on the right the noise that is needed. (A
delta of 0.1 gives no privacy for 100 rows; it is the paper's choice.)
"""

# %%
# Rows and the plain estimate
# ---------------------------
import warnings

import matplotlib.pyplot as plt
import numpy as np

from sfumato import Bounds
from sfumato.mechanisms import GaussianProcessMechanism
from sfumato.papers.functions import PrintedDensity, ProcessDensity
from sfumato.papers.functions.printed import printed_mechanism

warnings.filterwarnings("ignore", message="delta=")
rng = np.random.default_rng(0)
X = np.where(rng.random((100, 1)) < 0.5, *rng.normal([[[0.3]], [[0.7]]], 0.1, size=(2, 100, 1)))
x = np.linspace(0, 1, 1000)[:, None]
settings = {"bandwidth": 0.1, "delta": 0.1, "bounds": Bounds(lower=0.0, upper=1.0)}
plain = ProcessDensity(epsilon=np.inf, **settings).fit(X).raw_density(x)

# %%
# Smooth noise (Figure 1) and rough noise (Figure 2)
# --------------------------------------------------
# In the space of its own kernel, the estimate stays smooth. The Sobolev space contains any smooth
# function, but its noise is rough. The printed sensitivity there is twice the true one.
fig, axes = plt.subplots(2, 2, figsize=(10, 6), layout="constrained", sharex=True, sharey="row")
for row, space in zip(axes, ("gaussian", "sobolev"), strict=True):
    noise = {}
    for ax, mode in zip(row, ("paper", "strict"), strict=True):
        kind = PrintedDensity if mode == "paper" else ProcessDensity
        model = kind(space=space, **settings).fit(X)
        draws = [model.fit(X).raw_density(x) - plain for _ in range(30)]
        noise[mode] = np.std(draws)
        ax.plot(x, plain, label="estimate")
        ax.plot(x, model.raw_density(x), "--", label="released")
        title = {"paper": "noise as printed", "strict": "noise needed"}[mode]
        ax.set_title(f"{space}: {title}, sd {noise[mode]:.3f}")
    print(f"{space}: needed / printed = {noise['strict'] / noise['paper']:.2f}")
axes[0, 1].legend()
plt.show()

# %%
# How much of the printed noise is needed
# ---------------------------------------
# The ratio of the two noise scales for the same sensitivity. The printed noise reports its true
# guarantee.
for delta in (0.1, 1e-2, 1e-5):
    needed = GaussianProcessMechanism.calibrate(sensitivity=1, epsilon=1, delta=delta)
    printed = printed_mechanism(1.0, 1.0, delta)
    print(f"delta {delta:g}: {needed.noise_multiplier / printed.noise_multiplier:.3f}")
print(PrintedDensity(**settings | {"delta": 1e-5}).fit(X).guarantee_)
