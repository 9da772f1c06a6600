"""Section 5 of the paper, mended: a function that is asked point by point, within one process.

As printed, the mean of a new value takes past *released* values where past *noise* is meant. Here
each new point adds one vector to an orthonormal system: with ``e_i`` the part of ``K(·, x_i)`` that
is orthogonal to all earlier points, scaled to length 1,

``f~(x_i) = prediction from the earlier answers + sd_i (⟨f, e_i⟩ + noise)``.

Only the bracket touches f; the rest is computed from released numbers.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import solve_triangular

from sfumato.exceptions import InvalidInputError, StoredModelError
from sfumato.ledger.receipt import Chargeable
from sfumato.mechanisms import GaussianProcessMechanism
from sfumato.mechanisms.base import noise_status
from sfumato.models.features import NUGGET, Domain, Kernel
from sfumato.privacy.guarantee import Status
from sfumato.tables.bounds import Bounds

Array = NDArray[np.float64]
MAX_ANSWERS = 4096
CELLS = 2**20  # along each axis; points that nearly meet magnify the rounding error of f


class OnlineFunction:
    """``f~(x)``, asked at any points, in any order; charged once, when it is made.

    Points are rounded to ``2**20 + 1`` equally spaced places along each axis of the domain, and
    each place has one answer for the lifetime of this object.

    Parameters
    ----------
    function : callable
        The raw function f, kept in memory; takes rows and returns a number for each.
    kernel : Kernel
        The kernel in whose norm the mechanism's sensitivity is stated.
    mechanism : GaussianProcessMechanism
        The noise.
    domain : Bounds
        Public box in which f may be asked.
    n_features : int, default=1
        Number of axes.
    ledger : DatasetBudget or Receipt, optional
        Who pays.

    Attributes
    ----------
    status : Status
        "conditional", for f and its sensitivity are the caller's word; "testing" once an answer
        was drawn from a seed.

    Privacy
    -------
    Unit and relation : those of the sensitivity.
    Released : answers at up to 4096 places, chosen adaptively, and independent noise of variance
        ``2**-33`` on each.
    Sensitivity : that of the mechanism, for all answers together.
    Guarantee : mu-GDP, ``mu = 1 / noise_multiplier``.
    Assumptions and numerics : f is evaluated to the accuracy that docs/guarantees/process.md
        states. The object holds f, so it cannot be pickled, saved or used by a forked process.
    """

    def __init__(
        self,
        function: Callable[[Array], Array],
        *,
        kernel: Kernel,
        mechanism: GaussianProcessMechanism,
        domain: Bounds,
        n_features: int = 1,
        ledger: Chargeable | None = None,
    ) -> None:
        self.domain = Domain(domain, n_features)
        is_real = noise_status() is Status.PROVED
        self.status = Status.CONDITIONAL if is_real else Status.TESTING
        self._function = function
        self._kernel = kernel
        self._process = os.getpid()
        self._answers: dict[bytes, float] = {}
        self._points = np.empty((0, n_features))
        self._factor = np.empty((0, 0))
        self._coordinates = np.empty(0)  # of f: secret
        self._innovations = np.empty(0)  # the same with noise: released
        self._noise = mechanism.noise(limit=MAX_ANSWERS, ledger=ledger)

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
        new = np.array([point for key, point in rows.items() if key not in self._answers])
        if len(new):
            self._answer(new)
        return np.array([self._answers[point.tobytes()] for point in points])

    def _answer(self, points: Array) -> None:
        if os.getpid() != self._process:
            raise StoredModelError("A forked process would draw other answers to the same points.")
        count, total = len(self._points), len(self._points) + len(points)
        if total > MAX_ANSWERS:
            raise InvalidInputError(
                f"At most {MAX_ANSWERS} different points are answered, and {count} were answered "
                "before. Release the function with form='features', which has no limit."
            )
        # This may fail, and then nothing has changed.
        values = np.asarray(self._function(points), dtype=np.float64)
        if values.shape != (len(points),):
            raise InvalidInputError(
                f"The function must give one number per row. Got shape {values.shape} for "
                f"{len(points)} rows."
            )
        if noise_status() is Status.TESTING:
            self.status = Status.TESTING
        factor = np.zeros((total, total))
        factor[:count, :count] = self._factor
        known = np.concatenate([self._points, points])
        coordinates, innovations = np.zeros((2, total))
        coordinates[:count], innovations[:count] = self._coordinates, self._innovations
        answers = []
        for place, noise in enumerate(self._noise.draw(len(points)), start=count):
            right = self._kernel(known[:place], known[place, None])[:, 0]
            row = solve_triangular(factor[:place, :place], right, lower=True) if place else right
            left = max(1 + NUGGET - float(row @ row), NUGGET / 2)
            factor[place, :place], factor[place, place] = row, math.sqrt(left)
            predicted = float(row @ coordinates[:place])
            coordinates[place] = (values[place - count] - predicted) / math.sqrt(left)
            innovations[place] = self._noise.add(float(coordinates[place]), noise)
            answers.append(float(factor[place, : place + 1] @ innovations[: place + 1]))
        self._points, self._factor = known, factor
        self._coordinates, self._innovations = coordinates, innovations
        self._answers |= {x.tobytes(): y for x, y in zip(points, answers, strict=True)}

    def __reduce__(self) -> NoReturn:
        raise StoredModelError("An OnlineFunction holds the raw function and cannot be copied.")
