"""
Digits through the layers of a deep hull
========================================

A deep hull passes a point through hulls of decreasing dimension. The first image is close to the
point; later ones keep less of it and more of what the rows have in common.
"""

# %%
# A deep hull of the eights
# -------------------------
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from sfumato import DeepAffineHull

X, y = load_digits(return_X_y=True)
X = X / 16
eights = X[y == 8]
hull = DeepAffineHull(n_components=12, n_layers=12).fit(eights[20:])
print("λ* of the layers:", hull.regularization_.round(3))

# %%
# New eights and other digits
# ---------------------------
# First column: the point. Last column: the nearest image of any layer, with its distance.
queries = np.vstack([eights[:2], X[y == 3][:1], X[y == 1][:1]])
images, nearest = hull.layer_images(queries), hull.transform(queries)
fig, axes = plt.subplots(4, 8, figsize=(10, 5.5), layout="constrained")
for row, query in enumerate(queries):
    shown = [query, *images[row, ::2], nearest[row]]
    titles = ["point", *(f"layer {1 + 2 * i}" for i in range(6)), ""]
    titles[-1] = f"nearest: {hull.distance(query[None])[0]:.2f}"
    for ax, picture, title in zip(axes[row], shown, titles, strict=True):
        ax.imshow(picture.reshape(8, 8), cmap="gray_r", vmin=0, vmax=1)
        ax.set_title(title, fontsize=8)
        ax.set_axis_off()
plt.show()
