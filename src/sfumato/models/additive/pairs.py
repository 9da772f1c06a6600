"""Pairs of columns: products of their places, beside the hats.

Each column has one number per record, from -1 to 1: a number its place among the knots, a category
its order by the released share of a class. The product of the numbers of two columns is what they
add together, beyond what each adds alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from sfumato.core.arrays import Array as AnyArray
from sfumato.models.additive.hats import HatRows
from sfumato.privacy.guarantee import Relation
from sfumato.sums.counts import CountTables
from sfumato.sums.grid import FINE_BITS, ROW_BITS, truncate_to_grid
from sfumato.sums.maps import ROUNDING_MARGIN
from sfumato.sums.statistics import Codes, Statistic

Array = NDArray[np.float64]

MAX_PAIRED = 16  # columns, the strongest ones, whose pairs are looked at
MAX_PAIRS = 8  # pairs that are kept
FARTHEST = 2.0  # spreads of a target from its median, in the choice of pairs
DEFAULT_SPREAD = 0.5  # of a target, in these units
SIGNS = np.array([[1.0, -1.0], [-1.0, 1.0]])
DEFAULT_SQUARE = 0.75  # of a row of hats: from 1/2, between all knots, to 1
DEFAULT_PRODUCT = 1 / 9  # square of a product of two even places
CLEAR = 3.5  # deviations beyond which a pair is kept: noise alone rarely gets there


@dataclass(frozen=True)
class HatSums(Statistic):
    """``sum e_y ⊗ z``: the sum of the hats of each class.

    A target beside the hats, where there is one, makes two classes: below and above 0; a record
    without one adds nothing. Adding or removing a record moves the sum by ``|z| <= 1``. Replacing
    one moves two classes by 1 each, or one by ``|z - v| <= √2``: hats are not negative.

    width: Numbers of a row of hats.
    has_target: Whether one number more stands in a row, the target.
    """

    n_classes: int
    width: int
    has_target: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """One sum per class."""
        return (self.n_classes, self.width)

    @property
    def in_ball(self) -> int:
        """The hats."""
        return self.width

    def add_up(self, rows: AnyArray, codes: Codes) -> AnyArray:
        """Add up hats, class by class."""
        hats = np.maximum(truncate_to_grid(rows[:, : self.width], ROW_BITS), 0.0)
        if self.has_target:
            hats = np.where(np.isnan(rows[:, -1:]), 0.0, hats)
            codes = (rows[:, -1] > 0).astype(np.intp)
        return np.stack([hats[codes == each].sum(axis=0) for each in range(self.n_classes)])

    def term_sensitivity(self, relation: Relation) -> float:
        """√2 (replace) or 1 (add or remove)."""
        return math.sqrt(2) if relation is Relation.REPLACE_ONE else 1.0


def column_orders(hats: HatRows, sums: Array, noise: float) -> tuple[Array, Array]:
    """Return the number of each hat, from -1 to 1, and the strength of each column."""
    orders, strengths = np.empty(hats.width), np.empty(len(hats.columns))
    for i, part in enumerate(hats.slices):
        counts = np.maximum(sums[:, part], 0.0)
        total = counts.sum(axis=0)
        # Shares of classes, drawn towards those of the column where a hat has hardly a record.
        usual = counts.sum(axis=1, keepdims=True) / max(float(total.sum()), 1e-12)
        calm = noise * math.sqrt(len(counts)) + 1e-12
        apart = (counts - usual * total) / (total + calm)
        weighted = apart * np.sqrt(total / max(float(total.sum()), 1e-12))
        left, values, _ = np.linalg.svd(weighted, full_matrices=False)
        strengths[i] = float(values[0])
        along = left[:, 0] @ apart
        size = part.stop - part.start
        if hats.columns.categories[i] is None or size == 2:
            orders[part] = np.linspace(-1.0, 1.0, size)
        else:
            orders[part] = along / max(float(np.abs(along).max()), 1e-12)
    return truncate_to_grid(np.clip(orders, -1.0, 1.0), ROW_BITS), strengths


def _column_places(hats: HatRows, orders: Array, rows: AnyArray) -> AnyArray:
    """Return the sum of the orders of each column, weighted by its hats; each row by itself."""
    numbers = truncate_to_grid(np.clip(orders, -1.0, 1.0), ROW_BITS)
    return np.column_stack([rows[:, part] @ numbers[part] for part in hats.slices])


@dataclass(frozen=True, eq=False)
class Sides:
    """``hats and target -> sides``: 1 where the place of a column is above its middle, else 0.

    hats: The encoding; its rows are mapped.
    orders (width of the hats,): A number from -1 to 1 for each hat.
    columns: Which columns.
    has_target: Whether a target stands after the hats; it is the last number then, from -1 to 1.
    """

    hats: HatRows
    orders: Array = field(repr=False)
    columns: tuple[int, ...]
    has_target: bool = False

    @property
    def width(self) -> int:
        """Numbers of a row."""
        return len(self.columns) + self.has_target

    def __call__(self, rows: AnyArray) -> AnyArray:
        """Map rows of hats; each by itself."""
        sides = _column_places(self.hats, self.orders, rows)[:, self.columns] > 0
        if not self.has_target:
            return sides.astype(np.float64)
        return np.column_stack([sides, np.clip(rows[:, -1] / FARTHEST, -1.0, 1.0)])


@dataclass(frozen=True)
class SideMeans(Statistic):
    """``sum [1, t] e_cell`` for each pair of columns: how many records, and the sum of targets.

    A record adds a 1 and its target t, from -1 to 1, to one of four cells of each pair, or nothing
    where its target is missing. So it moves P pairs by √2 each: √(2P) (add or remove). Replacing
    it moves a pair by 2 at most: two cells by √2 each, or one target by 2.

    n_columns: Columns of sides.
    """

    n_columns: int
    in_ball = 0  # sides are counted, and targets clipped

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Of columns."""
        return list(combinations(range(self.n_columns), 2))

    @property
    def shape(self) -> tuple[int, ...]:
        """For each pair and each two sides: a number and a sum."""
        return (len(self.pairs), 2, 2, 2)

    def add_up(self, rows: AnyArray, codes: Codes) -> AnyArray:  # noqa: ARG002 - no classes
        """Count records and add up targets."""
        known = rows[~np.isnan(rows[:, -1])]
        target = truncate_to_grid(np.clip(known[:, -1], -1.0, 1.0), ROW_BITS)
        sides = (known[:, :-1] > 0).astype(np.intp)
        total = np.empty((len(self.pairs), 4, 2))
        for place, (a, b) in enumerate(self.pairs):
            cells = 2 * sides[:, a] + sides[:, b]
            total[place, :, 0] = np.bincount(cells, minlength=4)
            total[place, :, 1] = np.bincount(cells, weights=target, minlength=4)
        return total.reshape(self.shape)

    def term_sensitivity(self, relation: Relation) -> float:
        """2√P (replace) or √(2P) (add or remove)."""
        return math.sqrt(len(self.pairs) * (4 if relation is Relation.REPLACE_ONE else 2))


def pair_tables(n_columns: int, n_classes: int) -> CountTables | SideMeans:
    """Return what pairs of columns are chosen by: counts by class, or means of a target."""
    kept = min(n_columns, MAX_PAIRED)
    if n_classes == 1:
        return SideMeans(kept)
    return CountTables((2,) * kept, tuple(combinations(range(kept), 2)), n_classes)


def clear_means(means: Array, noise: float) -> Array:
    """Return by how many deviations two sides change the mean together, beyond each alone."""
    counts = np.maximum(means[..., 0], 1.0 + noise)
    mean = np.clip(means[..., 1] / counts, -1.0, 1.0)
    apart = np.abs((SIGNS * mean).sum(axis=(1, 2)))
    spread = DEFAULT_SPREAD**2 / counts + (1 + mean**2) * (noise / counts) ** 2
    return np.asarray(apart / np.sqrt(spread.sum(axis=(1, 2))))


def clear_odds(tables: list[Array], noise: float) -> Array:
    """Return by how many deviations two sides change the odds of a class together."""
    clear = []
    for counts in tables:
        inside = np.maximum(counts, 1.0 + noise)
        found = 0.0
        for each in range(counts.shape[2] if counts.shape[2] > 2 else 1):
            own = inside[..., each]
            rest = inside.sum(axis=2) - own
            odds = float((SIGNS * np.log(own / rest)).sum())
            doubt = sum((1 / n + (noise / n) ** 2).sum() for n in (own, rest))
            found = max(found, abs(odds) / math.sqrt(float(doubt)))
        clear.append(found)
    return np.array(clear)


def kept_pairs(columns: tuple[int, ...], clear: Array) -> NDArray[np.intp]:
    """Keep the clearest pairs."""
    order = np.argsort(-clear, kind="stable")[:MAX_PAIRS]
    kept = [k for k in order if clear[k] > CLEAR]
    listed = list(combinations(columns, 2))
    return np.array([listed[k] for k in sorted(kept)], dtype=np.intp).reshape(-1, 2)


@dataclass(frozen=True, eq=False)
class PairRows:
    """``cells -> [z √(1-w); (s_i s_j)_ij √(w/P)]``, w = P/(P + m): hats and products, unit ball.

    ``s_i = sum_k orders_k h_k`` over the hats h of column i, from -1 to 1, and 0 where the cell is
    missing. P products have length √P at most.

    hats: The encoding of columns.
    orders (width of the hats,): A number from -1 to 1 for each hat.
    pairs (P, 2): Places of the columns of each pair.
    """

    hats: HatRows
    orders: Array = field(repr=False)
    pairs: NDArray[np.intp] = field(repr=False)

    @property
    def width(self) -> int:
        """Numbers of a row."""
        return self.hats.width + len(self.pairs)

    @property
    def default_square(self) -> float:
        """Squared length of a usual row: hats lie between knots, places between their ends."""
        share = self._share
        return (1 - share) * DEFAULT_SQUARE + share * DEFAULT_PRODUCT

    @property
    def _share(self) -> float:
        """Of the squared length for the products: each is worth as much as a column."""
        return len(self.pairs) / (len(self.pairs) + len(self.hats.columns))

    @cached_property
    def units(self) -> Array:
        """By what each hat of height 1, and each product, is multiplied."""
        share, length = self._share, 1 - ROUNDING_MARGIN
        hats = np.full(self.hats.width, self.hats.height * math.sqrt(1 - share) * length)
        products = math.sqrt(share / max(1, len(self.pairs))) * length
        return np.concatenate([hats, np.full(len(self.pairs), products)])

    def products(self, raw: AnyArray) -> AnyArray:
        """Return the products of the pairs of hats of height 1; each row by itself."""
        places = _column_places(self.hats, self.orders, raw)
        places = truncate_to_grid(np.clip(places, -1.0, 1.0), FINE_BITS)
        return np.asarray(places[:, self.pairs[:, 0]] * places[:, self.pairs[:, 1]])

    def __call__(self, rows: AnyArray) -> AnyArray:
        """Map cells; each row by itself, and no value raises."""
        raw = self.hats.raw(rows)
        return truncate_to_grid(np.hstack([raw, self.products(raw)]) * self.units, FINE_BITS)
