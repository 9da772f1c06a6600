"""
Who is in the noise: the same epsilon for a number and for a record
====================================================================

Noise on every pixel can look like privacy. An epsilon of 1 for *one number* of a row is a guarantee
about that number alone: an attacker with a list of candidate rows adds up what all the numbers say.
Here the rows are 208 pieces of two photographs, 48 x 48 pixels each, and the attack is the simplest
possible: it takes the nearest row for the source.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_images

from sfumato import Bounds, Fabricator
from sfumato.audit import reidentification
from sfumato.mechanisms import EntryMechanism
from sfumato.papers.kahm import EntryFabricator

SIDE = 48


def pieces(photograph):
    grey = photograph.mean(axis=2) / 255
    down, across = (size // SIDE for size in grey.shape)
    cut = grey[: down * SIDE, : across * SIDE].reshape(down, SIDE, across, SIDE)
    return cut.swapaxes(1, 2).reshape(-1, SIDE * SIDE)


rows = np.concatenate([pieces(photograph) for photograph in load_sample_images().images])
bounds = Bounds(lower=0.0, upper=1.0)

# %%
# Three releases, each with epsilon 1. The first two protect one pixel of one piece, the third a
# whole piece.

noise = EntryMechanism(entry_bound=1.0, epsilon=1.0)
smoothed = EntryFabricator(epsilon=1.0, bounds=bounds, random_state=0)
record = Fabricator(epsilon=1.0, delta=1e-5, n_components=10, bounds=bounds, random_state=0)
releases = {
    "noise on every pixel\n(entry)": noise.release(rows, ledger=None),
    "fabricated from it\n(entry)": smoothed.fit(rows).fabricate(),
    "drawn from private moments\n(record)": record.fit_fabricate(rows),
}
found = {name: reidentification(rows, made) for name, made in releases.items()}
for name, each in found.items():
    print(f"{name.replace(chr(10), ' '):45s} {each.rate}, median rank {each.median_rank:g}")

# %%
# The entry release's own guarantee for a whole piece of 2304 pixels says the same.

print(smoothed.guarantee_)

# %%
# A piece, what was released for it, and the nearest piece to the release.

shown = int(rows.std(axis=1).argmax())  # the piece with most contrast
figure, axes = plt.subplots(3, 3, figsize=(7, 6.4))
for line, (name, made) in zip(axes, releases.items(), strict=True):
    nearest = np.abs(rows - made[shown]).sum(axis=1).argmin()
    verdict = "found" if nearest == shown else "not found"
    pictures = {"a row": rows[shown], name: made[shown], f"nearest row: {verdict}": rows[nearest]}
    for axis, (title, picture) in zip(line, pictures.items(), strict=True):
        axis.imshow(picture.reshape(SIDE, SIDE), cmap="gray", vmin=0, vmax=1)
        axis.set_title(title, fontsize=9)
        axis.axis("off")
figure.tight_layout()

# %%
# Smoothing hides the source from this attack, which does not prove that it hides it from a better
# one: its guarantee still covers one pixel. Only the third release has a guarantee for a whole
# piece, and pays for it: with 208 rows and epsilon 1, almost nothing of a photograph is left.

figure, axis = plt.subplots(figsize=(7, 2.6))
rates = [each.rate for each in found.values()]
spread = np.transpose([[r.value - r.lower, r.upper - r.value] for r in rates])
axis.barh(list(found), [r.value for r in rates], xerr=spread, color="#0d676d", height=0.55)
axis.axvline(1 / len(rows), color="0.5", linestyle="--", label="blind guess")
axis.invert_yaxis()
axis.set_xlim(0, 1)
axis.set_xlabel("share of rows whose source is found")
axis.legend(frameon=False)
figure.tight_layout()
plt.show()
