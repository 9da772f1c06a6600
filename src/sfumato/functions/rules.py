"""Rules by which a new point is answered so that it agrees with every earlier answer.

Each rule goes through an orthonormal system that grows with the points asked. With
``e_i`` the part of ``K(·, x_i)`` that is orthogonal to all earlier points, scaled to length 1,

``f~(x_i) = prediction from the earlier answers + sd_i (⟨f, e_i⟩ + noise)``.

Only the bracket touches f. It gets independent noise on a public grid, and everything else is
computed from numbers that were released before.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular
from sortedcontainers import SortedList

from sfumato.exceptions import InvalidInputError
from sfumato.functions.domain import Domain, Key
from sfumato.functions.features import NUGGET, FeatureMap, Function, raw_values
from sfumato.kernels import ExponentialKernel, Kernel
from sfumato.kernels.bridge import bridge
from sfumato.mechanisms.process import CoordinateNoise

__all__ = ["DenseRule", "FeatureRule", "GrowingFactor", "MarkovRule", "Rule"]

Array = NDArray[np.float64]
MOST_DENSE = 4096  # points that a dense rule answers


class Rule(ABC):
    """How new points are answered; knows every answer that was given before."""

    @abstractmethod
    def learn(self, keys: list[Key], answers: list[float]) -> None:
        """Take in answers that were given before, in the order in which they were given."""

    @abstractmethod
    def answer(self, keys: list[Key]) -> list[float]:
        """Answer new points, all different, in this order."""


class MarkovRule(Rule):
    """The exponential kernel on a line: the two neighbours decide, found in O(log i).

    function: The raw function; only its values at the points asked are kept, in memory.
    domain: A line with its lattice.
    kernel: The covariance.
    noise: Noise of the release.
    """

    def __init__(
        self, function: Function, domain: Domain, kernel: ExponentialKernel, noise: CoordinateNoise
    ) -> None:
        self._function = function
        self._domain = domain
        self._noise = noise
        self._rate = float(kernel.rates(1)[0])
        self._order = SortedList()
        self._known: dict[int, tuple[float, float, float]] = {}  # place, answer, raw value

    def learn(self, keys: list[Key], answers: list[float]) -> None:
        """Take in answers that were given before."""
        places, values = self._places(keys)
        for (key,), *known in zip(keys, places, answers, values, strict=True):
            self._known[key] = (known[0], known[1], known[2])
        self._order = SortedList(self._known)

    def answer(self, keys: list[Key]) -> list[float]:
        """Answer new points in this order."""
        places, values = self._places(keys)
        noise = self._noise.draw(len(keys))
        tasks = zip(keys, places, values, noise, strict=True)
        return [self._answer(key, *task) for (key,), *task in tasks]

    def _answer(self, key: int, place: float, value: float, noise: float) -> float:
        place_in_order = self._order.bisect_left(key)
        left_key = self._order[place_in_order - 1] if place_in_order else None
        right_key = self._order[place_in_order] if place_in_order < len(self._order) else None
        self._order.add(key)
        left_gap, left_answer, left_value = self._neighbour(place, left_key)
        right_gap, right_answer, right_value = self._neighbour(place, right_key)
        left, right, variance = bridge(left_gap, right_gap)
        deviation = math.sqrt(variance)
        coordinate = (value - left * left_value - right * right_value) / deviation
        innovation = self._noise.add(coordinate, noise)
        answer = left * left_answer + right * right_answer + deviation * innovation
        self._known[key] = place, answer, value
        return answer

    def _neighbour(self, place: float, key: int | None) -> tuple[float, float, float]:
        if key is None:
            return math.inf, 0.0, 0.0
        other, answer, value = self._known[key]
        # Gaps between the very doubles at which f is evaluated, not between ideal lattice points.
        return self._rate * abs(place - other), answer, value

    def _places(self, keys: list[Key]) -> tuple[list[float], list[float]]:
        points = self._domain.points(keys)
        return points[:, 0].tolist(), raw_values(self._function, points).tolist()


class DenseRule(Rule):
    """Any kernel, any dimension: a row of the Cholesky factor for each point, O(i²).

    Offered for `MOST_DENSE` points, whose factor takes 70 MB and about a second to make again.

    Each point carries independent noise of variance τ on top of the process, which keeps the
    factor stable and is part of the answer.

    function: The raw function; only its coordinates at the points asked are kept, in memory.
    domain: The box with its lattice.
    kernel: The covariance.
    noise: Noise of the release.
    """

    def __init__(
        self, function: Function, domain: Domain, kernel: Kernel, noise: CoordinateNoise
    ) -> None:
        self._function = function
        self._domain = domain
        self._noise = noise
        self._factor = GrowingFactor(kernel, domain.n_features)
        self._coordinates = np.empty(0)  # of f: secret
        self._innovations = np.empty(0)  # the same with noise: released

    def learn(self, keys: list[Key], answers: list[float]) -> None:
        """Take in answers that were given before."""
        if not keys:
            return
        points = self._domain.points(keys)
        self._require_place(len(points))
        values = raw_values(self._function, points)
        self._factor.append_all(points)
        self._coordinates = self._factor.solved(self._coordinates, values)
        self._innovations = self._factor.solved(self._innovations, np.array(answers))

    def answer(self, keys: list[Key]) -> list[float]:
        """Answer new points in this order."""
        points = self._domain.points(keys)
        self._require_place(len(points))
        values = raw_values(self._function, points).tolist()
        noise = self._noise.draw(len(keys))
        return [self._answer(*each) for each in zip(points, values, noise, strict=True)]

    def _answer(self, point: Array, value: float, noise: float) -> float:
        row, deviation = self._factor.row_of(point)
        coordinate = (value - float(row @ self._coordinates)) / deviation
        innovation = self._noise.add(coordinate, noise)
        self._factor.append(point, row, deviation)
        self._coordinates = np.append(self._coordinates, coordinate)
        self._innovations = np.append(self._innovations, innovation)
        return float(row @ self._innovations[:-1]) + deviation * innovation

    def _require_place(self, n_new: int) -> None:
        if len(self._factor) + n_new > MOST_DENSE:
            raise InvalidInputError(
                f"This kernel is answered online for at most {MOST_DENSE} different points, and "
                f"{len(self._factor)} were answered before. Release the function with "
                "form='features', which has no limit."
            )


class FeatureRule(Rule):
    """All coordinates were released at the start; each answer is ``φ(x)·c``, O(rank).

    coordinates (size,): The released coordinates c.
    domain: The box with its lattice.
    """

    def __init__(self, features: FeatureMap, coordinates: Array, domain: Domain) -> None:
        self._features = features
        self._coordinates = coordinates
        self._domain = domain

    def learn(self, keys: list[Key], answers: list[float]) -> None:
        """Nothing to learn: answers do not depend on each other."""

    def answer(self, keys: list[Key]) -> list[float]:
        """Answer new points."""
        points = np.clip(self._domain.points(keys), self._domain.lower, self._domain.upper)
        return [float(v) for v in self._features.evaluate(self._coordinates, points)]


# The Cholesky factor of a kernel matrix that grows by points, kept in blocks of rows --------------

BLOCK = 256  # rows


class GrowingFactor:
    """L, extended by one point or by many.

    kernel: K.
    n_features: Numbers of a point.
    """

    def __init__(self, kernel: Kernel, n_features: int) -> None:
        self._kernel = kernel
        self._points = np.empty((0, n_features))
        self._blocks: list[Array] = []  # each of shape (BLOCK, its last column), rows as they come

    def __len__(self) -> int:
        return len(self._points)

    def solved(self, known: Array, right: Array) -> Array:
        """Give ``L⁻¹ b``, of which the first entries are `known`, for b that ends in `right`."""
        count = len(known)
        found = np.concatenate([known, np.empty(len(right))])
        for start, block in self._filled(len(found)):
            first, stop = max(start, count), start + len(block)
            if first < stop:
                rows = block[first - start :]
                left = right[first - count : stop - count] - rows[:, :first] @ found[:first]
                found[first:stop] = solve_triangular(
                    rows[:, first:stop], left, lower=True, check_finite=False
                )
        return found

    def row_of(self, point: Array) -> tuple[Array, float]:
        """Give the row of L that a new point would have, and its diagonal entry."""
        row = np.empty(0)
        if len(self):
            row = self.solved(row, self._kernel(self._points, point[None])[:, 0])
        left = self._kernel.sup + NUGGET - float(row @ row)
        return row, math.sqrt(max(left, NUGGET / 2))

    def append(self, point: Array, row: Array, deviation: float) -> None:
        """Take in a point with what `row_of` gave."""
        count = len(self)
        inside = count % BLOCK
        if not inside:
            self._blocks.append(np.zeros((BLOCK, count + BLOCK)))
        self._blocks[-1][inside, :count] = row
        self._blocks[-1][inside, count] = deviation
        self._points = np.concatenate([self._points, point[None]])

    def append_all(self, points: Array) -> None:
        """Take in many points, block by block."""
        while len(points) and len(self) % BLOCK:  # fill the last block first
            self.append(points[0], *self.row_of(points[0]))
            points = points[1:]
        for first in range(0, len(points), BLOCK):
            self._append_block(points[first : first + BLOCK])

    def _append_block(self, points: Array) -> None:
        count, stop = len(self), len(self) + len(points)
        block = np.zeros((BLOCK, count + BLOCK))
        rows = block[: len(points)]
        for start, above in self._filled(count):  # L_ij = (K_ij - sum_k L_ik L_jkᵀ) L_jj⁻ᵀ
            end = start + len(above)
            left = self._kernel(points, self._points[start:end])
            left -= rows[:, :start] @ above[:, :start].T
            rows[:, start:end] = solve_triangular(
                above[:, start:end], left.T, lower=True, check_finite=False
            ).T
        square = self._kernel(points, points)
        square[np.diag_indices_from(square)] += NUGGET
        square -= rows[:, :count] @ rows[:, :count].T
        rows[:, count:stop] = _factor(square)
        self._blocks.append(block)
        self._points = np.concatenate([self._points, points])

    def _filled(self, count: int) -> list[tuple[int, Array]]:
        """Give the blocks of the first `count` rows, without the rows that are still empty."""
        starts = range(0, count, BLOCK)
        return [(s, block[: count - s]) for s, block in zip(starts, self._blocks, strict=False)]


def _factor(square: Array) -> Array:
    """Factor what is left of a block; points that nearly meet may leave nothing of it."""
    try:
        return np.asarray(cholesky(square, lower=True, check_finite=False))
    except np.linalg.LinAlgError:
        return _factor_by_rows(square)


def _factor_by_rows(square: Array) -> Array:
    factor = np.zeros_like(square)
    for i in range(len(square)):
        row = (
            solve_triangular(factor[:i, :i], square[i, :i], lower=True, check_finite=False)
            if i
            else np.empty(0)
        )
        factor[i, :i] = row
        factor[i, i] = math.sqrt(max(float(square[i, i]) - float(row @ row), NUGGET / 2))
    return factor
