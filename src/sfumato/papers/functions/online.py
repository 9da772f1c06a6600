"""Section 5 of the paper, online: a function that is asked point by point.

Each new point x_i adds one vector to an orthonormal system: with ``e_i`` the part of ``K(·, x_i)``
that is orthogonal to all earlier points, scaled to length 1,

``f~(x_i) = prediction from the earlier answers + sd_i (⟨f, e_i⟩ + noise_i)``.

Only the bracket touches f. As printed the bracket is the noise alone: the mean takes past
*released* values where past *noise* is meant, and f is never read.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import solve_triangular

from sfumato.exceptions import InvalidInputError, StoredModelError
from sfumato.ledger.receipt import Chargeable
from sfumato.mechanisms import GaussianProcessMechanism
from sfumato.mechanisms.base import to_grid
from sfumato.models.features import NUGGET, Domain, Kernel
from sfumato.tables.bounds import Bounds

Array = NDArray[np.float64]
CELLS = 2**20  # along each axis; points that nearly meet magnify the rounding error of f


class OnlineFunction:
    """``f~(x)``, asked at any points, in any order; charged once, when it is made.

    Points are rounded to ``2**20 + 1`` equally spaced places along each axis of the domain, and
    each place has one answer. The object holds f and the noise, so it cannot be stored.

    Parameters
    ----------
    function : callable
        The secret function f; takes rows and returns a number for each.
    kernel : Kernel
        The kernel in whose norm the mechanism's sensitivity is stated.
    mechanism : GaussianProcessMechanism
        The noise.
    domain : Bounds
        Public box in which f may be asked.
    n_features : int, default=1
        Number of axes.
    max_answers : int, default=1024
        Different places that can be asked; their noise is drawn at once.
    printed : bool, default=False
        The mean of a new answer as it stands in the paper; such answers tell nothing of f.
    ledger : DatasetBudget or Receipt, optional
        Who pays.

    Privacy
    -------
    Unit and relation : those of the sensitivity.
    Released : answers at up to `max_answers` places, chosen adaptively.
    Sensitivity : that of the mechanism, for all answers together.
    Guarantee : mu-GDP, ``mu = 1 / noise_multiplier``.
    Assumptions and numerics : f, its sensitivity and the accuracy of its values are the caller's
        word, as docs/guarantees/process.md states; noise is float-safe on the coordinates.
    """

    def __init__(
        self,
        function: Callable[[Array], Array],
        *,
        kernel: Kernel,
        mechanism: GaussianProcessMechanism,
        domain: Bounds,
        n_features: int = 1,
        max_answers: int = 1024,
        printed: bool = False,
        ledger: Chargeable | None = None,
    ) -> None:
        self.domain, self.printed = Domain(domain, n_features), printed
        self._function, self._kernel = function, kernel
        grid = mechanism.grid(max_answers)
        self._step = 0.0 if grid is None else grid[0]
        self._noise = mechanism.release(np.zeros(max_answers), ledger=ledger)  # charged, drawn
        self._answers: dict[bytes, float] = {}
        self._points = np.empty((max_answers, n_features))
        self._factor = np.zeros((max_answers, max_answers))
        self._coordinates = np.zeros(max_answers)  # of f: secret

    def __call__(self, X: ArrayLike) -> Array:
        """Answer each row of `X`; a place asked before gets the answer it got before."""
        lower, width = self.domain.lower, self.domain.width
        points = np.asarray(X, dtype=np.float64)
        points = points[:, None] if points.ndim == 1 else points
        if points.shape[1:] != lower.shape or not np.isfinite(points).all():
            raise InvalidInputError(f"Points must be rows of {len(lower)} finite numbers.")
        if ((points < lower) | (points > self.domain.upper)).any():
            raise InvalidInputError("A point lies outside the domain of the function.")
        points = lower + np.rint((points - lower) / width * CELLS) * width / CELLS
        rows = {point.tobytes(): point for point in points}
        new = {key: point for key, point in rows.items() if key not in self._answers}
        if len(self._answers) + len(new) > len(self._noise):
            raise InvalidInputError(
                f"At most {len(self._noise)} different points are answered, and "
                f"{len(self._answers)} were before. Give more 'max_answers'."
            )
        if new:
            values = np.asarray(self._function(np.array(list(new.values()))), dtype=np.float64)
            if values.shape != (len(new),):
                raise InvalidInputError("The function must return one number per row.")
            for (key, point), value in zip(new.items(), values, strict=True):
                self._answers[key] = self._answer(point, float(value))
        return np.array([self._answers[point.tobytes()] for point in points])

    def _answer(self, point: Array, value: float) -> float:
        place = len(self._answers)
        factor, known = self._factor[:place, :place], self._points[:place]
        right = self._kernel(known, point[None])[:, 0]
        row = solve_triangular(factor, right, lower=True) if place else right
        deviation = math.sqrt(max(1 + NUGGET - float(row @ row), NUGGET / 2))
        self._points[place], self._factor[place, :place] = point, row
        self._factor[place, place] = deviation
        if not self.printed:
            coordinate = (value - float(row @ self._coordinates[:place])) / deviation
            self._coordinates[place] = coordinate
        exact = self._coordinates[: place + 1]
        exact = to_grid(exact, self._step) if self._step else exact
        return float(self._factor[place, : place + 1] @ (exact + self._noise[: place + 1]))

    def __reduce__(self) -> NoReturn:
        raise StoredModelError("An OnlineFunction holds the secret function and cannot be copied.")


def neighbour_weights(
    left: float, right: float, rate: float, *, printed: bool = False
) -> tuple[float, float]:
    """Return the weights of the noise at the two neighbours of a point, kernel ``exp(-γ|x - y|)``.

    Parameters
    ----------
    left, right : float
        Distances to the neighbours.
    rate : float
        Rate γ of the kernel.
    printed : bool, default=False
        As in the paper, which has them swapped: the farther neighbour weighs more.

    Returns
    -------
    tuple of float
        ``sinh(γ right) / sinh(γ (left + right))``, and the same with `left`.
    """
    total = math.sinh(rate * (left + right))
    weights = math.sinh(rate * right) / total, math.sinh(rate * left) / total
    return (weights[1], weights[0]) if printed else weights
