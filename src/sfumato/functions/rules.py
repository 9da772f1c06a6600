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

from sfumato.exceptions import InvalidInputError
from sfumato.functions.domain import Domain, Key
from sfumato.functions.factor import GrowingFactor
from sfumato.functions.features import FeatureMap, Function, raw_values
from sfumato.functions.sorted_keys import SortedKeys
from sfumato.kernels import ExponentialKernel, Kernel
from sfumato.kernels.bridge import bridge
from sfumato.mechanisms.process import CoordinateNoise

__all__ = ["DenseRule", "FeatureRule", "MarkovRule", "Rule"]

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

    Parameters
    ----------
    function : callable
        The raw function; only its values at the points asked are kept, in memory.
    domain : Domain
        A line with its lattice.
    kernel : ExponentialKernel
        The covariance.
    noise : CoordinateNoise
        Noise of the release.
    """

    def __init__(
        self, function: Function, domain: Domain, kernel: ExponentialKernel, noise: CoordinateNoise
    ) -> None:
        self._function = function
        self._domain = domain
        self._noise = noise
        self._rate = float(kernel.rates(1)[0])
        self._order = SortedKeys()
        self._known: dict[int, tuple[float, float, float]] = {}  # place, answer, raw value

    def learn(self, keys: list[Key], answers: list[float]) -> None:
        """Take in answers that were given before."""
        places, values = self._places(keys)
        for (key,), *known in zip(keys, places, answers, values, strict=True):
            self._known[key] = (known[0], known[1], known[2])
        self._order = SortedKeys(self._known)

    def answer(self, keys: list[Key]) -> list[float]:
        """Answer new points in this order."""
        places, values = self._places(keys)
        noise = self._noise.draw(len(keys))
        tasks = zip(keys, places, values, noise, strict=True)
        return [self._answer(key, *task) for (key,), *task in tasks]

    def _answer(self, key: int, place: float, value: float, noise: float) -> float:
        left_key, right_key = self._order.insert(key)
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

    Parameters
    ----------
    function : callable
        The raw function; only its coordinates at the points asked are kept, in memory.
    domain : Domain
        The box with its lattice.
    kernel : Kernel
        The covariance.
    noise : CoordinateNoise
        Noise of the release.
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
                "how='features', which has no limit."
            )


class FeatureRule(Rule):
    """All coordinates were released at the start; each answer is ``φ(x)·c``, O(rank).

    Parameters
    ----------
    features : FeatureMap
        φ.
    coordinates : ndarray of shape (size,)
        The released coordinates c.
    domain : Domain
        The box with its lattice.
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
