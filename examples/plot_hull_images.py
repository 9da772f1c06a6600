"""
The image of a kernel affine hull
=================================

A kernel affine hull maps the whole plane onto a bounded region around its rows. The left column
shows the rows (black) and the image (orange), the right column the distance of each point from its
image.
"""

# %%
# Three sets of rows in the unit square
# -------------------------------------
import matplotlib.pyplot as plt
import numpy as np

from sfumato import KernelAffineHull

rng = np.random.default_rng(0)
angle = rng.uniform(0, 2 * np.pi, 200)
ring = 0.5 + 0.4 * np.column_stack([np.cos(angle), np.sin(angle)]) + rng.normal(0, 0.02, (200, 2))
x = rng.uniform(0.1, 0.9, 200)
wave = np.column_stack([x, 0.5 + 0.3 * np.sin(8 * x) + rng.normal(0, 0.02, 200)])
blobs = np.vstack([rng.normal(c, 0.05, (100, 2)) for c in ((0.3, 0.3), (0.7, 0.6))])
shapes = {"ring": ring, "wave": wave, "blobs": blobs}

# %%
# Fit one hull per set and look at it
# -----------------------------------
# The features are in [0, 1]. The regularisation grows with the squares of the rows, so other scales
# give smoother or rougher images.
fig, axes = plt.subplots(3, 2, figsize=(8, 10), layout="constrained")
for (title, rows), (left, right) in zip(shapes.items(), axes, strict=True):
    hull = KernelAffineHull(n_components=2).fit(rows)
    low, high = rows.min(axis=0) - 0.1, rows.max(axis=0) + 0.1
    sides = np.linspace(low, high, 100).T
    grid = np.stack(np.meshgrid(*sides), axis=-1).reshape(-1, 2)
    distances = hull.distance(grid)
    left.plot(*hull.transform(grid)[np.isfinite(distances)].T, ".", c="tab:orange", ms=1)
    left.plot(*rows.T, "k+", ms=4)
    left.set_title(f"{title}: image, λ* = {hull.regularization_:.2f}")
    picture = right.pcolormesh(*sides, np.ma.masked_invalid(distances.reshape(100, 100)))
    fig.colorbar(picture, ax=right)
    right.plot(*rows.T, "w+", ms=4)
    right.set_title("distance")
plt.show()
