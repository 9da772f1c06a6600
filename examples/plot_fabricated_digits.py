"""
Digits that nobody wrote
========================

Rows drawn from private Gaussians, one per class, compared with the same digits with noise on every
pixel, before and after smoothing. The two guarantees differ: read the printed sentences.
"""

# %%
# Record level: whole images and their labels are protected
# ---------------------------------------------------------
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from sfumato import Bounds, Fabricator
from sfumato.papers.kahm import EntryFabricator

X, y = load_digits(return_X_y=True)
bounds = Bounds(lower=0.0, upper=16.0, labels=range(10))
central = Fabricator(epsilon=8.0, delta=1e-5, n_components=20, bounds=bounds, random_state=0)
rows, labels = central.fit_fabricate(X, y)
print(central.guarantee_)

# %%
# Entry level: single pixels are protected
# ----------------------------------------
noisy, smooth = (
    EntryFabricator(5, epsilon=4.0, n_smoothing=m, bounds=bounds, random_state=0) for m in (1, 2)
)
once, _ = noisy.fit(X, y).fabricate()
twice, _ = smooth.fit(X, y).fabricate()
print(smooth.guarantee_)


# %%
# Four rows of digits
# -------------------
def first_of_each(images: np.ndarray, of: np.ndarray) -> list[np.ndarray]:
    return [images[np.flatnonzero(of == digit)[0]] for digit in range(10)]


titles = [
    "seen",
    "whole images protected, epsilon 8: drawn from private Gaussians",
    "single pixels protected, epsilon 4: noise, then one pass of the smoother",
    "the same with two passes",
]
shown = [(X, y), (rows, labels), (once, y), (twice, y)]
figure, axes = plt.subplots(4, 10, figsize=(8, 4.2), layout="constrained")
for line, title, (images, of) in zip(axes, titles, shown, strict=True):
    line[0].set_title(title, loc="left", fontsize=8)
    for ax, image in zip(line, first_of_each(images, of), strict=True):
        ax.imshow(image.reshape(8, 8), cmap="gray_r", vmin=0, vmax=16)
        ax.axis("off")
plt.show()
