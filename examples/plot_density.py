"""
A density that answers any question
===================================

A released density is nowhere negative, integrates to one, and can be asked any number of times.
"""

import matplotlib.pyplot as plt
import numpy as np

from sfumato import Bounds, PrivateDensity
from sfumato.datasets import load

ages = np.asarray(load("hospital").table()["age"], dtype=float)[:, None]
grid = np.linspace(0, 110, 400)
plt.figure(figsize=(7, 3.5), layout="constrained")
plt.hist(ages, bins=110, range=(0, 110), density=True, color="0.85", label="the table (secret)")
for epsilon in (0.1, 1.0):
    bounds = Bounds(lower=0.0, upper=110.0)  # ages are whole years: one cell per year
    model = PrivateDensity(epsilon=epsilon, bounds=bounds, n_cells=110).fit(ages)
    plt.plot(grid, model.density(grid[:, None]), label=f"released, epsilon {epsilon:g}")
print(model.guarantee_)
print("quartiles:", np.round(model.quantile([0.25, 0.5, 0.75]), 1))
plt.xlabel("age in years")
plt.ylabel("density")
plt.legend()
plt.show()
