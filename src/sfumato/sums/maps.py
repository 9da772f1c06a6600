"""Public maps of rows: each row is treated alone, and gives the same numbers among any others."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.core.arrays import Array, is_foreign_array, like, namespace_of
from sfumato.exceptions import InvalidInputError
from sfumato.sums.grid import FINE_BITS, ROW_BITS, truncate_to_grid
from sfumato.tables.bounds import Bounds

MANTISSA = 53  # bits of a double
# Rows are scaled a hair short of a length, so that rounding never passes it.
ROUNDING_MARGIN = 2.0**-40
FARTHEST = 64.0  # spreads of the target: all slopes are clipped there


class RowMap(Protocol):
    """A public, picklable map of blocks of rows to as many rows of `width` numbers.

    One whose last step clips rows into the unit ball, whatever it was given, says ``ends_in_ball =
    True``: sums need not look at their lengths again.
    """

    @property
    def width(self) -> int:
        """Numbers of a mapped row."""

    def __call__(self, rows: Array) -> Array:
        """Map a block of rows."""


@dataclass(frozen=True)
class Clipped:
    """Rows made to obey their bounds, and nothing else.

    bounds: Public bounds of the rows.
    width: Numbers of a row.
    """

    bounds: Bounds
    width: int

    def __call__(self, rows: Array) -> Array:
        """Clip rows; no value makes it raise."""
        return self.bounds.clip(rows)


@dataclass(frozen=True)
class IntoUnitBall:
    """``x -> (x - centre) / radius``: clipped to the bounds, in the unit ball, on the fine grid.

    bounds: Public bounds of the rows.
    width: Numbers of a row.
    """

    bounds: Bounds
    width: int
    ends_in_ball: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self.bounds.box(self.width)  # bounds of another width are refused before any charge

    def __call__(self, rows: Array) -> Array:
        """Map raw rows; no value makes it raise."""
        if is_foreign_array(rows):
            return truncate_to_grid(self._on_device(rows), FINE_BITS)
        centre, radius = self.bounds.ball(self.width)
        inside = self.bounds.clip(rows)
        inside -= centre
        inside /= radius
        return truncate_to_grid(Bounds(norm=1.0).clip(inside), FINE_BITS)

    def _on_device(self, rows: Array) -> Array:
        """Do the same in the words of the array API, for rows on an accelerator."""
        xp = namespace_of(rows)
        doubles = xp.astype(rows, xp.float64)
        if doubles.dtype != xp.float64:
            raise InvalidInputError(
                "Rows must be held in doubles, and this array library gave "
                f"{doubles.dtype} instead of float64; enable its 64-bit types or pass NumPy arrays."
            )
        centre, radius = self.bounds.ball(self.width)
        if not math.isfinite(xp.sum(doubles)):  # one pass; if not, it may be one of them
            whole = xp.all(xp.isfinite(doubles), axis=1, keepdims=True)
            doubles = xp.where(whole, doubles, like(rows, centre)[None, :])
        box = self.bounds.box(self.width)
        if box is not None:
            low, high = (like(rows, corner)[None, :] for corner in box)
            doubles = xp.where(doubles < low, low, xp.where(doubles > high, high, doubles))
        if self.bounds.norm is not None:
            doubles = _into_ball(doubles, float(self.bounds.norm))
        return _into_ball((doubles - like(rows, centre)[None, :]) / radius, 1.0)


@dataclass(frozen=True)
class IntoUnitCube:
    """Rows in a box are seen in the unit cube, ``(x - lower) / width``; others as they are.

    bounds: Public bounds of the rows.
    width: Numbers of a row.
    """

    bounds: Bounds
    width: int

    @property
    def inner_bounds(self) -> Bounds:
        """The bounds of scaled rows."""
        is_box = self.bounds.norm is None
        return Bounds(lower=0.0, upper=1.0) if is_box else Bounds(norm=self.bounds.norm)

    def scaled(self, rows: Array) -> Array:
        """Clip rows and scale them, each on its own."""
        box = self.bounds.box(self.width) if self.bounds.norm is None else None
        inside = self.bounds.clip(rows)
        return inside if box is None else np.asarray((inside - box[0]) / (box[1] - box[0]))

    __call__ = scaled

    def to_rows(self, scaled: NDArray[np.float64]) -> NDArray[np.float64]:
        """Undo the scaling and clip to the bounds."""
        box = self.bounds.box(self.width) if self.bounds.norm is None else None
        return self.bounds.clip(scaled if box is None else scaled * (box[1] - box[0]) + box[0])


@dataclass(frozen=True, eq=False)
class Centred:
    """``z -> (z - mean) / radius``, scaled back into the unit ball.

    mean: A public point of the unit ball.
    radius: Public length at which centred rows are clipped.
    """

    mean: NDArray[np.float64] = field(repr=False)
    radius: float
    ends_in_ball: ClassVar[bool] = True

    @property
    def width(self) -> int:
        return len(self.mean)

    def __call__(self, rows: Array) -> Array:
        """Map rows of the unit ball."""
        return truncate_to_grid(Bounds(norm=1.0).clip((rows - self.mean) / self.radius), FINE_BITS)


@dataclass(frozen=True, eq=False)
class Projected:
    """``z -> Uᵀ(z - mean) / radius``, scaled back into the unit ball.

    mean: A public point of the unit ball.
    basis: U, public columns of length 1 at most.
    radius: Public length at which projected rows are clipped.
    """

    mean: NDArray[np.float64] = field(repr=False)
    basis: NDArray[np.float64] = field(repr=False)
    radius: float
    ends_in_ball: ClassVar[bool] = True

    @property
    def width(self) -> int:
        return int(self.basis.shape[1])

    def __call__(self, rows: Array) -> Array:
        """Map rows of the unit ball; a centred row may be 2 long, so that halves are projected."""
        mean = Bounds(norm=1.0).clip(self.mean[None])
        projected = 2 * exact_projection((rows - mean) / 2, self.basis)
        return truncate_to_grid(Bounds(norm=1.0).clip(projected / self.radius), FINE_BITS)


@dataclass(frozen=True, eq=False)
class LinearRows:
    """``z -> a``: rows of the unit ball projected, scaled to length 1, a constant appended.

    Every step looks at one row at a time and every result is a multiple of a public power of two,
    so that a row gives the same numbers alone, among others, and on any machine.

    n_features: Numbers of a row z.
    intercept: Append a constant: ``a = [z; c] / √(1 + c²)``.
    projection (n_features, k): Public matrix with columns of length 1 at most and no singular value
        above 1.
    unit_length: Scale projected rows to length 1.
    constant: c, the weight of the constant.
    radius: Divide projected rows by this length instead, and scale back those that are longer.
    """

    n_features: int
    intercept: bool
    projection: Array = field(default=None, repr=False)
    unit_length: bool = False
    constant: float = 1.0
    radius: float | None = None

    @property
    def width(self) -> int:
        kept = self.n_features if self.projection is None else int(self.projection.shape[1])
        return kept + bool(self.intercept)

    @property
    def height(self) -> float:
        """Of the constant in a row a."""
        return self.constant / math.sqrt(1 + self.constant**2)

    @property
    def weights_before(self) -> NDArray[np.float64]:
        """``B`` with ``w.a = (B w).z`` and the constant, where z is not scaled back."""
        assert self.projection is not None  # noqa: S101 - for the type checker
        assert self.radius is not None  # noqa: S101 - for the type checker
        return np.asarray(self.projection / (self.radius * math.sqrt(1 + self.constant**2)))

    def __call__(self, rows: Array) -> Array:
        """Map rows of the unit ball."""
        xp = namespace_of(rows)
        if self.projection is not None:  # exactly, and into the unit ball or to length 1
            rows = truncate_to_grid(exact_projection(rows, self.projection), FINE_BITS)
            squares = xp.sum(rows * rows, axis=1, keepdims=True)  # exact, 52 bits below 2
            shortest = 2.0 ** (-2 * FINE_BITS) if self.unit_length else 1.0
            if self.radius is not None:
                shortest = max(self.radius**2, 2.0 ** (-2 * FINE_BITS))
            limit = shortest * xp.ones_like(squares)
            longest = xp.where(squares > limit, squares, limit)
            rows = rows * ((1 - ROUNDING_MARGIN) / xp.sqrt(longest))
        if self.intercept:
            ones = self.constant * xp.ones_like(rows[:, :1])
            length = math.sqrt(1 + self.constant**2)
            rows = xp.concat([rows, ones], axis=1) * ((1 - ROUNDING_MARGIN) / length)
        return truncate_to_grid(rows, ROW_BITS)


@dataclass(frozen=True, eq=False)
class BesideTarget:
    """A map of all numbers of a row but a target, which may follow them.

    row_map: Of the first numbers.
    has_target: Whether one number more stands in a row.
    centre, scale: The target becomes ``(t - centre) / scale``, within FARTHEST.
    """

    row_map: RowMap
    has_target: bool
    centre: float = 0.0
    scale: float = 1.0

    @property
    def width(self) -> int:
        """Numbers of a mapped row, the last one no part of a point of the unit ball."""
        return self.row_map.width + self.has_target

    def __call__(self, rows: Array) -> Array:
        """Map rows."""
        if not self.has_target:
            return self.row_map(rows)
        target = np.clip((rows[:, -1:] - self.centre) / self.scale, -FARTHEST, FARTHEST)
        return np.hstack([self.row_map(rows[:, :-1]), target])


def exact_projection(rows: Array, basis: Array, n_digits: int = 1) -> Array:
    """``rows @ basis`` for rows of the unit ball.

    Both are cut to a grid on which all products and partial sums fit a double: a projected row is
    exact and does not depend on its place among the rows. For columns of length 2 or more, which
    no honest basis has, the grid is as much coarser. What is cut from the basis is a further digit.
    """
    xp = namespace_of(rows)
    whole = xp.clip(like(rows, basis), -1e100, 1e100)  # on an accelerator, where rows are on one
    squares = xp.sum(whole * whole, axis=0)
    longest = math.sqrt(xp.max(squares)) if basis.shape[1] else 0.0
    bits = FINE_BITS - max(0, math.frexp(longest)[1] - 1)
    columns = truncate_to_grid(whole, bits)
    if not is_foreign_array(columns):
        columns = np.ascontiguousarray(columns)
    found = truncate_to_grid(rows, FINE_BITS) @ columns
    if n_digits == 1:
        return found
    return found + 2.0**-bits * exact_projection(rows, (whole - columns) * 2.0**bits)


def exact_product(rows: Array, weights: Array, longest: float) -> NDArray[np.float64]:
    """``rows @ weights.T`` whatever the weights: a row gives the same bits among any others.

    Weights are written with two digits, so coarse that all products and partial sums fit a double;
    about 40 bits of the longest are left.
    """
    bits = MANTISSA - 1 - FINE_BITS - math.frexp(longest)[1]
    left, digits = np.clip(weights, -1e100, 1e100), []
    for _ in range(2):
        lengths = np.linalg.norm(left, axis=1)
        step = 2.0 ** (math.frexp(lengths.max(initial=0.0))[1] - bits)
        digits.append(np.trunc(left / step) * step)
        left = left - digits[-1]
    found = rows @ np.ascontiguousarray(np.vstack(digits).T)  # exact
    return np.asarray(found[:, : len(weights)] + found[:, len(weights) :])


def _into_ball(rows: Array, norm: float) -> Array:
    xp = namespace_of(rows)
    hair = max(ROUNDING_MARGIN, rows.shape[1] * 2.0**-51)
    largest = xp.max(xp.abs(rows), axis=1, keepdims=True)
    scale = xp.where(largest > 0, largest, xp.ones_like(largest))
    shrunk = rows / scale  # squares of numbers beyond 1e154 would overflow
    lengths = scale * xp.sqrt(row_sums(shrunk * shrunk))
    limit = norm * (1 - 2 * hair) * xp.ones_like(lengths)
    return rows * (limit / xp.where(lengths > limit, lengths, limit))


def row_sums(values: Array) -> Array:
    """Sum of each row, halves added to halves.

    A library's own sum may add in another order for another number of rows; sums number by number
    are the same for a row alone and among others.
    """
    xp = namespace_of(values)
    while values.shape[1] > 1:
        half = values.shape[1] // 2
        rest = values[:, 2 * half :]
        values = xp.concat([values[:, :half] + values[:, half : 2 * half], rest], axis=1)
    return values
