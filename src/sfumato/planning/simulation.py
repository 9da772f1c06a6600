"""Simulated rows of a declared shape: what a model would see, if classes were so far apart.

Shape alone does not determine accuracy. A scenario states how separable the classes are: one
cloud per class around centres of equal distance, whose spread shrinks from 0 to 1 of that scale,
and some labels turned. All randomness is public.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["SCENARIOS", "Shape", "simulated", "simulated_numbers"]

# Separability: 0, where classes overlap, to 1, where they do not.
SCENARIOS = {"hard": 0.35, "typical": 0.6, "easy": 0.9}


@dataclass(frozen=True)
class Shape:
    """The public shape of a table.

    Parameters
    ----------
    n_rows : int
        Records.
    n_features : int
        Numbers of an encoded row.
    n_classes : int
        Labels; 0 where a number is foretold.
    majority : float
        Share of the largest class.
    """

    n_rows: int
    n_features: int
    n_classes: int = 2
    majority: float = 0.5

    @property
    def shares(self) -> NDArray[np.float64]:
        """Shares of the classes: the largest one, the others equal."""
        rest = (1 - self.majority) / (self.n_classes - 1)
        return np.array([self.majority] + [rest] * (self.n_classes - 1))


def simulated(
    shape: Shape, separability: float, seed: int, n_rows: int | None = None
) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Draw rows of about length 1 and labels, as far apart as the scenario states.

    shape: The table.
    separability: Between 0, where the majority class is the best guess, and 1, where classes do not
        overlap.
    seed: A public seed.
    n_rows: Instead of the shape's.
    """
    rng = np.random.RandomState(seed)
    n = shape.n_rows if n_rows is None else n_rows
    labels = rng.choice(shape.n_classes, size=n, p=shape.shares)
    centres = np.zeros((shape.n_classes, shape.n_features))
    if 2 < shape.n_classes <= shape.n_features:  # corners of a simplex, else a circle
        np.fill_diagonal(centres, 1.5)
    else:
        angles = 2 * np.pi * np.arange(shape.n_classes) / shape.n_classes
        circle = np.column_stack([np.cos(angles), np.sin(angles)])
        centres[:, : min(2, shape.n_features)] = circle[:, : min(2, shape.n_features)]
    spread = 0.1 + 2.0 * (1 - separability)
    scales = np.arange(1, shape.n_features + 1) ** -0.5  # real columns do not vary alike
    rows = centres[labels] + spread * scales * rng.standard_normal((n, shape.n_features))
    # The share of labels that no rule gets right, beyond overlap.
    turned = rng.random_sample(n) < 0.15 * (1 - separability)
    labels = np.where(turned, rng.choice(shape.n_classes, size=n, p=shape.shares), labels)
    lengths = np.linalg.norm(rows, axis=1)
    return rows / max(float(np.quantile(lengths, 0.99)), 1e-9), labels


def simulated_numbers(
    shape: Shape, separability: float, seed: int, n_rows: int | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Draw rows of about length 1 and targets in [0, 1], as well explained as the scenario states.

    shape: The table.
    separability: The share of the targets' variance that a line explains.
    seed: A public seed.
    n_rows: Instead of the shape's.
    Returns: Rows and targets, whose standard deviation is a sixth of their range.
    """
    rng = np.random.RandomState(seed)
    n = shape.n_rows if n_rows is None else n_rows
    scales = np.arange(1, shape.n_features + 1) ** -0.5
    rows = scales * rng.standard_normal((n, shape.n_features))
    weights = np.where(np.arange(shape.n_features) % 2, -1.0, 1.0) / np.linalg.norm(scales)
    explained = np.sqrt(separability) * rows @ weights
    rest = np.sqrt(1 - separability) * rng.standard_normal(n)
    targets = np.clip(0.5 + (explained + rest) / 6, 0.0, 1.0)
    lengths = np.linalg.norm(rows, axis=1)
    return rows / max(float(np.quantile(lengths, 0.99)), 1e-9), targets
