"""A density from noisy counts of cells, smoothed as much as the counts themselves ask for.

The counts of public cells are released with Laplace noise, whose variance is public. Everything
after that reads released numbers only: a cosine transform, a low-pass filter whose width minimises
an unbiased estimate of its risk, single cells that stand out kept as they are, and the nearest
masses that are nowhere negative and sum to one. On a line, a monotone cubic through the cumulative
masses gives distribution function, quantiles and density; in the plane, the masses are joined
linearly.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.fft import dctn, idctn
from scipy.interpolate import PchipInterpolator, RegularGridInterpolator
from scipy.ndimage import median_filter, uniform_filter

from sfumato.models.features import Domain

Array = NDArray[np.float64]
Codes = NDArray[np.intp]


# Chosen once on drawn rows of public laws (benchmarks/bench_densities.py), and fixed since.
CELLS_ON_A_LINE = (3.0, 0.4)  # factor and power of n epsilon
CELLS_IN_THE_PLANE = (1.6, 0.3)  # along each axis
MIN_CELLS, MAX_CELLS = 4, {1: 4096, 2: 64}
ROWS_NOT_KNOWN = 10_000  # what the rule takes for a number of rows that is secret
WIDTHS = {1: 40, 2: 12}  # filters that are tried along an axis
MAX_WIDTH, MIN_WIDTH = 0.75, 0.0015  # of the side of the box
CAUTION = 0.5  # standard deviations of the risk estimate for which a wider filter is preferred
STANDS_OUT = 6.0  # standard deviations above its neighbours that make a cell one of its own
NEIGHBOURS = {1: 9, 2: 5}  # cells along an axis among which the median is taken
PRICE_OF_A_BLOCK = 2.0  # for having been chosen: in variances, by the logarithm of all cells


def default_cells(epsilon: float, n_rows: int | None, n_features: int) -> int:
    """Choose the cells along each axis, of one or two, from public numbers alone."""
    factor, power = CELLS_ON_A_LINE if n_features == 1 else CELLS_IN_THE_PLANE
    most = MAX_CELLS[n_features]
    signal = (n_rows or ROWS_NOT_KNOWN) * min(epsilon, 1e6)
    even = 2 * round(factor * signal**power / 2)  # the middle of the box is an edge
    return int(min(max(even, MIN_CELLS), most))


@dataclass(frozen=True)
class Cells:
    """Rows of a box as the numbers of their cells, equal along each axis: a public map.

    Where a number may be missing, such a row has a place of its own, after the last cell of each
    axis.
    """

    lower: tuple[float, ...]
    upper: tuple[float, ...]
    shape: tuple[int, ...]
    may_be_missing: bool = False

    @classmethod
    def of(
        cls,
        domain: Domain,
        shape: Sequence[int],
        steps: Sequence[float | None],
        *,
        may_be_missing: bool = False,
    ) -> Cells:
        """Cut a domain into cells, at most `shape` along each axis.

        Where an axis holds multiples of a step from its lower end, every cell holds equally many
        of them; the last may reach beyond the box.
        """
        lower, upper, sizes = domain.lower.tolist(), domain.upper.tolist(), list(shape)
        for axis, step in enumerate(steps):
            if step is None:
                continue
            n_values = math.floor((upper[axis] - lower[axis]) / step + 0.5) + 1
            per_cell = math.ceil(n_values / sizes[axis])
            sizes[axis] = math.ceil(n_values / per_cell)
            lower[axis] -= step / 2
            upper[axis] = lower[axis] + sizes[axis] * per_cell * step
        return cls(tuple(lower), tuple(upper), tuple(sizes), may_be_missing)

    @property
    def width(self) -> int:
        """Numbers of a row."""
        return len(self.lower)

    @property
    def sides(self) -> Array:
        """Sides of a cell."""
        return np.asarray((np.array(self.upper) - np.array(self.lower)) / np.array(self.shape))

    def __call__(self, rows: Array) -> Array:
        """Return the number of the cell of each row along each axis."""
        places = np.floor((np.asarray(rows) - np.array(self.lower)) / self.sides)
        numbers = np.clip(np.nan_to_num(places), 0, np.array(self.shape) - 1)
        if self.may_be_missing:
            numbers[np.isnan(rows).any(axis=1)] = self.shape
        return np.asarray(numbers)

    @property
    def counted(self) -> tuple[int, ...]:
        """Numbers that a row can have along each axis."""
        return tuple(n + self.may_be_missing for n in self.shape)


# After the release --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Smoothed:
    """Smoothed shares of cells: they may be negative."""

    masses: Array
    apart: NDArray[np.bool_]  # cells that are not smoothed: they stand out
    blocks: Codes | None = None  # of each cell, if averages over blocks were taken


def smooth(shares: Array, variance: float, n_rows: float) -> Smoothed:
    """Choose the filter of least estimated risk for noisy shares of cells.

    The risk of a filter f on coefficients y of known variance v is estimated without bias by
    ``sum (1 - f)² (y² - v) + f² v``. A wider filter is taken while its estimate is within half a
    standard deviation of the least. Cells that stand out by far are set apart first, if the
    estimate says that the rest can be smoothed enough to pay for their noise. `n_rows`, public or
    released, is for the variance of sampling.
    """
    responses = _filters(shares.shape)
    variances = np.full(shares.shape, variance + 1 / (n_rows * shares.size))
    variances.flat[0] = 0.0  # the total is not smoothed
    v, f = np.ravel(variances), responses.reshape(len(responses), -1)
    bias = np.square(1 - f)
    # Two proposals: no cell apart, and those that stand out from their neighbours.
    usual = median_filter(shares, NEIGHBOURS[shares.ndim], mode="nearest")
    limit = STANDS_OUT * np.sqrt(variance + np.maximum(shares, 0) / n_rows)
    above = shares - usual > limit
    none = np.zeros(shares.shape, dtype=bool)
    found = []
    for apart in [none, above] if above.any() else [none]:
        y = np.ravel(np.square(dctn(_fill(shares, apart), norm="ortho")))
        risks = bias @ (y - v) + np.square(f) @ v
        least_risk = int(np.argmin(risks))
        of_square = 2 * v**2 + 4 * v * np.maximum(y - v, 0)
        deviation = np.sqrt(np.square(bias - bias[least_risk]) @ of_square)
        number = int(np.nonzero(risks <= risks[least_risk] + CAUTION * deviation)[0][0])
        alone = np.maximum(shares[apart], 0).sum() / n_rows  # their sampling
        cost = apart.sum() * variance * (1 + 2 * math.log(shares.size)) + alone
        found.append((float(risks[number]) + float(cost), number, apart))
    least, number, apart = min(found, key=lambda each: each[0])
    if shares.ndim == 1:
        blocks, risk = _best_blocks(shares, float(variances[1]))
        if risk < least:
            sums = np.add.reduceat(shares, np.flatnonzero(np.diff(blocks, prepend=-1)))
            return Smoothed((sums / np.bincount(blocks))[blocks], none, blocks)
    rest = _fill(shares, apart)
    waves = responses[number] * dctn(rest, norm="ortho")
    return Smoothed(np.asarray(idctn(waves, norm="ortho") + (shares - rest)), apart)


def _best_blocks(shares: Array, variance: float) -> tuple[Codes, float]:
    """Return the blocks of neighbouring cells whose averages have the least estimated risk.

    The risk of a block of m cells is estimated without bias by its sum of squares around its
    average, less ``(m - 2) v``; each block pays ``2 v log M`` more for having been chosen.
    """
    n = len(shares)
    sums, squares = (np.concatenate([[0.0], np.cumsum(shares**power)]) for power in (1, 2))
    price = variance * (2 + PRICE_OF_A_BLOCK * math.log(n))
    best, start = np.zeros(n + 1), np.zeros(n + 1, dtype=np.intp)
    for end in range(1, n + 1):
        sizes = end - np.arange(end)
        inside = squares[end] - squares[:end] - (sums[end] - sums[:end]) ** 2 / sizes
        total = best[:end] + inside - sizes * variance + price
        start[end] = int(np.argmin(total))
        best[end] = total[start[end]]
    blocks, end = np.zeros(n, dtype=np.intp), n
    while end > 0:
        blocks[start[end] : end] = start[end]
        end = int(start[end])
    return np.unique(blocks, return_inverse=True)[1].astype(np.intp), float(best[n])


def _filters(shape: Sequence[int]) -> Array:
    """Return responses ``exp(-(w h)^4 / 2)`` on cosine coefficients, from wide to narrow filters.

    In the plane also filters across and along diagonals, whose waves have two frequencies nearly
    alike.
    """
    axis = [*np.geomspace(MAX_WIDTH, MIN_WIDTH, WIDTHS[len(shape)]).tolist(), 0.0]
    responses = [np.exp(-(np.outer(axis, np.pi * np.arange(n)) ** 4) / 2) for n in shape]
    if len(shape) == 1:
        return np.asarray(responses[0])
    both = [np.outer(down, right) for down in responses[0] for right in responses[1]]
    k, m = np.meshgrid(*map(np.arange, shape), indexing="ij")
    for across, along in itertools.combinations(axis, 2):
        waves = (np.pi * across * (k - m)) ** 4 + (np.pi * along * (k + m) / 2) ** 4
        both.append(np.exp(-waves / 2))
    left = np.array([np.square(each).sum() for each in both])  # of the noise
    return np.stack(both)[np.argsort(left, kind="stable")]


def _fill(shares: Array, apart: NDArray[np.bool_]) -> Array:
    """Replace cells that are apart by the average of the others around them."""
    if not apart.any():
        return shares
    size = NEIGHBOURS[apart.ndim]
    others = uniform_filter(np.where(apart, 0.0, 1.0), size, mode="nearest")
    sums = uniform_filter(np.where(apart, 0.0, shares), size, mode="nearest")
    return np.where(apart, sums / np.maximum(others, 1e-9), shares)


def density_threshold(values: Array, volume: float) -> tuple[float, float]:
    """Return τ and g with ``sum g max(values - τ, 0) * volume = 1``.

    Nearest to a noisy estimate f in L2, among functions that are nowhere negative and integrate to
    at most one, is ``max(f - τ, 0)`` with the least ``τ >= 0`` that will do. That set is convex and
    holds all densities, so this step never moves the estimate away from the true one. Mass that is
    then missing has leaked out of the box; the function is scaled up to one.
    """
    ordered = -np.sort(-np.ravel(values))
    shift = (np.cumsum(ordered) - 1 / volume) / np.arange(1, ordered.size + 1)
    kept = int(np.count_nonzero(ordered > shift))
    threshold = float(shift[kept - 1])
    if ordered[0] > 0:  # otherwise nothing is left but the nearest density itself
        threshold = max(threshold, 0.0)
    return threshold, float(1 / (np.maximum(ordered - threshold, 0.0).sum() * volume))


@dataclass(frozen=True)
class GridDensity:
    """The density that released counts of cells give, of each class and of all."""

    cells: Cells
    counts: Array  # (n_cells, ..., n_classes)
    noise_variance: float  # of each count
    n_rows: int | None  # where it is public

    @property
    def total(self) -> float:
        """The public number of rows, or the released one; at least 1."""
        return float(self.n_rows or max(self.counts.sum(), 1.0))

    @cached_property
    def smoothed(self) -> list[Smoothed]:
        """The shares of each class, smoothed."""
        variance = self.noise_variance / self.total**2
        shares = np.asarray(self.counts / self.total)
        if self.n_rows:  # the total is public: its noise is taken off all cells
            shares = shares + (1 - shares.sum()) / shares.size
        return [smooth(each, variance, self.total) for each in np.moveaxis(shares, -1, 0)]

    @cached_property
    def masses(self) -> Array:
        """Masses of the cells by class: nowhere negative, one in all."""
        raw = np.stack([each.masses for each in self.smoothed], axis=-1)
        if not self.n_rows:
            raw = raw / max(float(raw.sum()), 1 / self.total)
        threshold, gain = density_threshold(raw, 1.0)
        return np.asarray(gain * np.maximum(raw - threshold, 0.0))

    @property
    def volume(self) -> float:
        """Of a cell."""
        return float(np.prod(self.cells.sides))

    def joint(self, rows: Array) -> Array:
        """Return class densities times shares of the classes, at points of the box."""
        if self.cells.width == 1:
            curves = [each.derivative()(rows[:, 0]) for each in self._curves]
            return np.asarray(np.maximum(np.column_stack(curves), 0.0))
        low, side = np.array(self.cells.lower), self.cells.sides
        axes = [low[j] + (np.arange(n) + 0.5) * side[j] for j, n in enumerate(self.cells.shape)]
        inner = [np.clip(rows[:, j], axes[j][0], axes[j][-1]) for j in range(len(axes))]
        surface = RegularGridInterpolator(axes, (self.masses - self._alone) / self.volume)
        alone = self._alone[tuple(self.cells(rows).astype(np.intp).T)]
        return np.asarray(surface(np.column_stack(inner)) + alone / self.volume)

    @cached_property
    def _alone(self) -> Array:
        """Masses by which cells that are apart stand above their neighbours: they stay inside."""
        found = np.zeros(self.masses.shape)
        for code, each in enumerate(self.smoothed):
            if each.apart.any():
                mine = self.masses[..., code]
                found[..., code] = np.maximum(mine - _fill(mine, each.apart), 0.0)
        return found

    def cdf(self, values: Array) -> Array:
        """Return the distribution function of all rows on a line."""
        inside = np.clip(values, self.cells.lower[0], self.cells.upper[0])
        return np.asarray(np.clip(sum(curve(inside) for curve in self._curves), 0.0, 1.0))

    def quantile(self, probabilities: Array) -> Array:
        """Return the quantiles of all rows on a line."""
        fine = np.linspace(self.cells.lower[0], self.cells.upper[0], 16 * self.cells.shape[0] + 1)
        heights = np.maximum.accumulate(self.cdf(fine))
        return np.asarray(np.interp(probabilities, heights, fine))

    def draw(self, n_samples: int, generator: np.random.RandomState) -> tuple[Array, Codes]:
        """Draw rows and codes of classes."""
        chances = np.ravel(self.masses)
        numbers = generator.choice(chances.size, size=n_samples, p=chances / chances.sum())
        *places, codes = np.unravel_index(numbers, self.masses.shape)
        low, side = np.array(self.cells.lower), self.cells.sides
        if self.cells.width == 1:
            # Inside a cell by the curve of the class, on a fine lattice.
            uniform, rows = generator.uniform(size=n_samples), np.empty(n_samples)
            edges = np.linspace(low[0], self.cells.upper[0], self.cells.shape[0] + 1)
            fine = edges[:-1, None] + np.diff(edges)[:, None] * np.linspace(0, 1, 17)
            for code, curve in enumerate(self._curves):
                mine = np.nonzero(codes == code)[0]
                heights = curve(fine) - curve(edges[:-1])[:, None]
                for place in np.unique(places[0][mine]):
                    here = mine[places[0][mine] == place]
                    rising = np.maximum.accumulate(heights[place])
                    rows[here] = np.interp(uniform[here] * heights[place, -1], rising, fine[place])
            return rows[:, None], codes
        jitter = generator.uniform(size=(2, n_samples, self.cells.width))
        standing = np.ravel(self._alone)[numbers]
        alone = generator.uniform(size=n_samples) * chances[numbers] < standing
        spread = np.where(alone[:, None], 0.5, jitter[1])  # a triangular law, or evenly in the cell
        inner = np.abs(np.column_stack(places) + 0.5 + jitter[0] - spread)
        last = np.array(self.cells.shape)  # folded at the edges
        return low + side * (last - np.abs(last - inner)), codes

    @cached_property
    def _curves(self) -> list[PchipInterpolator]:
        """Monotone cubics through the cumulative masses of each class."""
        heights = np.pad(np.cumsum(self.masses, axis=0), ((1, 0), (0, 0)))
        edges = np.linspace(self.cells.lower[0], self.cells.upper[0], self.cells.shape[0] + 1)
        return [PchipInterpolator(edges, column) for column in heights.T]
