"""
A private density, as printed and mended
========================================

100 points of two normals (Hall, Rinaldo and Wasserman, 2013, Figure 1), released as a function. The
printed noise is larger than its promise needs.
"""

import numpy as np

from sfumato import Bounds
from sfumato.papers.functions import PrintedDensity, ProcessDensity

rng = np.random.default_rng(0)
X = rng.normal(np.repeat([0.3, 0.7], 50), 0.1).clip(0, 1)[:, None]
grid = np.linspace(0, 1, 200)[:, None]
given = {"delta": 1e-3, "bounds": Bounds(lower=0, upper=1)}
estimate = ProcessDensity(0.1, epsilon=np.inf, **given).fit(X).raw_density(grid)
for kind in (PrintedDensity, ProcessDensity):
    released = [kind(0.1, epsilon=1.0, **given).fit(X) for _ in range(20)]
    noise = np.std([model.raw_density(grid) - estimate for model in released])
    print(f"{kind.__name__}: noise {noise:.2f}, {released[0].guarantee_}")
