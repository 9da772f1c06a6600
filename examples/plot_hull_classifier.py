"""
A classifier made of hulls
==========================

Each class gets a hull; a point belongs to the class whose hull has the nearest image. The colours
show the smallest distance, and the lines show where the label changes.
"""

# %%
# Three classes in the plane
# --------------------------
import matplotlib.pyplot as plt
import numpy as np

from sfumato import AffineHullClassifier

rng = np.random.default_rng(0)
angle = rng.uniform(0, np.pi, 100)
upper = np.column_stack([0.4 + 0.3 * np.cos(angle), 0.45 + 0.3 * np.sin(angle)])
lower = np.column_stack([0.6 + 0.3 * np.cos(angle), 0.55 - 0.3 * np.sin(angle)])
corner = rng.normal((0.85, 0.85), 0.05, (100, 2))
X = np.vstack([upper, lower, corner]) + rng.normal(0, 0.02, (300, 2))
y = np.repeat(["upper", "lower", "corner"], 100)

# %%
# Fit, and draw distance and borders
# ----------------------------------
model = AffineHullClassifier(n_components=2, n_layers=2, random_state=0).fit(X, y)
sides = np.linspace(X.min(axis=0) - 0.1, X.max(axis=0) + 0.1, 150).T
grid = np.stack(np.meshgrid(*sides), axis=-1)
least = model.distances(grid.reshape(-1, 2)).min(axis=1).reshape(150, 150)
ax = plt.gca()
plt.colorbar(ax.pcolormesh(*sides, np.ma.masked_invalid(least)), label="distance to the image")
ax.plot(*X.T, "w+", ms=4)
labels = np.searchsorted(model.classes_, model.predict(grid.reshape(-1, 2))).reshape(150, 150)
ax.contour(grid[..., 0], grid[..., 1], labels, levels=[0.5, 1.5], colors="red")
ax.set_title(f"training accuracy {model.score(X, y):.3f}")
plt.show()

# %%
# The matching score says how clear a decision was: 1 for a point on its hull.
queries = np.array([[0.4, 0.75], [0.5, 0.5], [0.85, 0.85]])
for query, scores in zip(queries, model.matching_score(queries), strict=True):
    print(query, dict(zip(model.classes_.tolist(), scores.round(3).tolist(), strict=True)))
