"""Draw docs/pictures/fabricated_digits.png: MNIST digits beside fabricated ones.

SFUMATO_DATA=... python docs/pictures/fabricated_digits.py

The folder SFUMATO_DATA has MNIST in it, in mnist/. All 60,000 training images are used; it takes
about five minutes. Noise is not seeded, so the digits differ from run to run.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from PIL import Image

from sfumato import Bounds, GaussianFabricator
from sfumato.papers.kahm import EntryFabricator

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

from benchmarks.recording import mnist  # noqa: E402

BOUNDS = Bounds(lower=0.0, upper=1.0, labels=range(10))
RECORD, ENTRY, DELTA = (1, 3, 10), (1, 4, 16), 1e-5
Line = tuple[str, np.ndarray | None]


def one_of_each(images: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the third image of every digit, whatever it looks like."""
    return np.stack([images[np.flatnonzero(labels == digit)[2]] for digit in range(10)])


def record_level(X: np.ndarray, y: np.ndarray, epsilon: float) -> Line:
    maker = GaussianFabricator(epsilon=epsilon, delta=DELTA, bounds=BOUNDS, random_state=0)
    images, labels = maker.fit_fabricate(X, y)
    return f"ε = {epsilon}", one_of_each(images, labels)


def entry_level(X: np.ndarray, y: np.ndarray, epsilon: float) -> Line:
    maker = EntryFabricator(epsilon=epsilon, delta=DELTA, bounds=BOUNDS, random_state=0)
    images, labels = maker.fit(X, y).fabricate()
    reading = maker.guarantee_.record_reading
    if reading is None:
        raise SystemExit("An entry-level guarantee states what it means for a record.")
    whole = f"{reading.epsilon:,.0f}"
    return f"ε = {epsilon}\n(image: {whole})", one_of_each(images, labels)


def draw(groups: dict[str, list[Line]]) -> None:
    """Put the lines under each other, each group under its title."""
    lines = [line for title, group in groups.items() for line in [(title, None), *group]]
    figure, axes = plt.subplots(
        len(lines),
        10,
        figsize=(5.6, 4.55),
        height_ratios=[0.42 if images is None else 1 for _, images in lines],
        gridspec_kw={"wspace": 0.03, "hspace": 0.05, "left": 0.225, "right": 0.995},
    )
    figure.subplots_adjust(top=0.995, bottom=0.005)
    for row, (name, images) in zip(axes, lines, strict=True):
        for axis in row:
            axis.axis("off")
        where = {"transform": row[0].transAxes, "va": "center", "size": 9}
        if images is None:
            row[0].text(0, 0.4, name, weight="bold", **where)
            continue
        row[0].text(-0.15, 0.5, name, ha="right", **where)
        for axis, image in zip(row, images, strict=True):
            axis.imshow(image.reshape(28, 28), cmap="gray_r", vmin=0, vmax=1)
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=120)
    few_greys = Image.open(drawn).convert("L").quantize(16)  # a third of the size
    few_greys.save(HERE / "fabricated_digits.png", optimize=True)


if __name__ == "__main__":
    X, y, *_ = mnist()
    draw(
        {
            "what was seen": [("original", one_of_each(X, y))],
            "a whole image with its label is protected": [record_level(X, y, e) for e in RECORD],
            "one pixel is protected": [entry_level(X, y, e) for e in ENTRY],
        }
    )
