"""Cut rows into groups: by class, by k-means (equation 58) or at random."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.core.arrays import Array, cast, is_accelerated, like, namespace_of, to_numpy

PARTITIONS = ("kmeans", "random")
MAX_ITERATIONS = 100
SMALL_GAIN = 1e-4
SAMPLE_ROWS, SAMPLE_ROWS_PER_CLUSTER = 20_000, 100


class RowGroups(Sequence[Array]):
    """Groups of rows, each copied only while it is in use."""

    def __init__(self, rows: Array, places: Sequence[NDArray[np.intp]]) -> None:
        self.rows, self.places = rows, places

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, number: Any) -> Array:
        places = like(self.rows, self.places[number])
        return namespace_of(self.rows).take(self.rows, places, axis=0)


def places_of(numbers: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    """Return the places where each number from 0 to the largest stands."""
    return [np.nonzero(numbers == number)[0] for number in range(int(numbers.max()) + 1)]


def partition_rows(
    rows: Array, *, branch_size: int, partition: str, random_state: np.random.RandomState
) -> NDArray[np.intp]:
    """Assign each row the number of its branch, ``S = ceil(N / branch_size)`` branches at most.

    rows: (N, p).
    partition ({"kmeans", "random"}): "random" cuts a random order of the rows into equal parts.
    Returns (N,): Numbers from 0 without gaps; a cluster that ran empty is dropped.
    """
    n_rows = int(rows.shape[0])
    n_branches = math.ceil(n_rows / branch_size)
    if n_branches == 1:
        return np.zeros(n_rows, dtype=np.intp)
    if partition == "random":
        return random_state.permutation(np.arange(n_rows) % n_branches)
    found = to_numpy(_kmeans(rows, n_branches, random_state))
    return np.unique(found, return_inverse=True)[1].astype(np.intp)


def partition_groups(
    groups: Sequence[Array],
    *,
    branch_size: int,
    partition: str,
    random_state: np.random.RandomState,
    stacked: bool | None = None,
) -> list[NDArray[np.intp]]:
    """Partition each group by itself: one after the other, or on an accelerator all at once.

    groups: Rows of each group.
    branch_size, partition, random_state: As for `partition_rows`.
    stacked: All at once; by default on an accelerator, where groups are not too long for one stack.
    Returns: Of each group what `partition_rows` gives.
    """
    sizes = [int(rows.shape[0]) for rows in groups]
    if stacked is None:
        stacked = is_accelerated(groups[0]) and max(sizes) <= SAMPLE_ROWS
    many = [i for i, size in enumerate(sizes) if size > branch_size]
    if not (stacked and partition == "kmeans" and many):
        words: Any = {"branch_size": branch_size, "partition": partition}
        return [partition_rows(rows, random_state=random_state, **words) for rows in groups]
    found = [np.zeros(size, dtype=np.intp) for size in sizes]
    n_clusters = [math.ceil(sizes[i] / branch_size) for i in many]
    stack = _Stack([groups[i] for i in many], n_clusters, random_state)
    for i, numbers in zip(many, to_numpy(stack.clusters()), strict=True):
        found[i] = np.unique(numbers[: sizes[i]], return_inverse=True)[1].astype(np.intp)
    return found


class _Stack:
    """Groups of rows whose k-means go on together, padded to one length and number of clusters."""

    def __init__(
        self, groups: list[Array], n_clusters: list[int], random_state: np.random.RandomState
    ) -> None:
        xp = namespace_of(groups[0])
        sizes = [int(rows.shape[0]) for rows in groups]
        longest = max(sizes)
        self.sizes = like(groups[0], np.array(sizes))
        rows = xp.stack([_padded(_centred(rows), longest) for rows in groups])
        places = xp.arange(longest, device=rows.device)
        self.rows, self.is_row = rows, places < self.sizes[:, None]
        self.total = xp.sum(cast(rows * rows, "float64"), axis=(1, 2))
        clusters = xp.arange(max(n_clusters), device=rows.device)
        self.is_cluster = clusters < like(rows, np.array(n_clusters))[:, None]
        # As one group after the other would draw them: a first start, then one share per start.
        draws = np.zeros((len(groups), max(n_clusters)))
        for i, (size, n) in enumerate(zip(sizes, n_clusters, strict=True)):
            draws[i, 0] = random_state.randint(size)
            draws[i, 1:n] = random_state.uniform(size=n - 1)
        self.draws = like(rows, draws)

    def clusters(self) -> Array:
        """Number of each row's cluster, by Lloyd's algorithm until no group gains by it."""
        xp = namespace_of(self.rows)
        centres = self._spread_starts()
        last = xp.full(self.sizes.shape, math.inf, dtype=xp.float64, device=self.rows.device)
        numbers = xp.arange(centres.shape[1], device=self.rows.device)
        for _ in range(MAX_ITERATIONS):
            squares = self._squared_distances(centres)
            least = xp.where(self.is_row, cast(xp.min(squares, axis=2), "float64"), 0.0)
            inertia = self.total + xp.sum(least, axis=1)
            gains = last - inertia > SMALL_GAIN * inertia
            if not bool(xp.any(gains)):
                break
            last = inertia
            own = (xp.argmin(squares, axis=2)[:, :, None] == numbers) & self.is_row[:, :, None]
            members = cast(own, "float32")
            counts = xp.sum(members, axis=1)[:, :, None]
            moved = xp.matrix_transpose(members) @ self.rows / xp.clip(counts, min=1.0)
            centres = xp.where(gains[:, None, None] & (counts > 0), moved, centres)
        return xp.argmin(self._squared_distances(centres), axis=2)

    def _squared_distances(self, centres: Array) -> Array:
        """Squared distances but for the squares of the rows, infinite to what is no cluster."""
        xp = namespace_of(centres)
        squares = xp.sum(centres * centres, axis=2)
        offset = xp.where(self.is_cluster, squares, xp.full_like(squares, math.inf))
        return offset[:, None, :] - 2 * (self.rows @ xp.matrix_transpose(centres))

    def _spread_starts(self) -> Array:
        """k-means++ of each group: chances of rows in proportion to their squared distances."""
        xp = namespace_of(self.rows)
        n_groups, longest, width = self.rows.shape
        flat = xp.reshape(self.rows, (n_groups * longest, width))
        first = longest * xp.arange(n_groups, device=flat.device)
        chosen = xp.astype(self.draws[:, 0], xp.int64)
        starts = [xp.take(flat, first + chosen, axis=0)]
        nearest = xp.where(self.is_row, math.inf, xp.zeros_like(self.rows[:, :, 0]))
        for step in range(1, self.draws.shape[1]):
            away = self.rows - starts[-1][:, None, :]
            nearest = xp.minimum(nearest, xp.sum(away * away, axis=2))
            cumulative = xp.cumulative_sum(cast(nearest, "float64"), axis=1)
            drawn = self.draws[:, step] * cumulative[:, -1]
            below = xp.sum(xp.astype(cumulative <= drawn[:, None], xp.int64), axis=1)
            chosen = xp.minimum(below, self.sizes - 1)
            starts.append(xp.take(flat, first + chosen, axis=0))
        return xp.stack(starts, axis=1)


def _padded(rows: Array, length: int) -> Array:
    xp = namespace_of(rows)
    missing = (length - rows.shape[0], rows.shape[1])
    return xp.concat([rows, xp.zeros(missing, dtype=rows.dtype, device=rows.device)])


def _centred(rows: Array) -> Array:
    """Return rows around their mean in single precision, which is enough for a partition."""
    rows = cast(rows, "float64")
    return cast(rows - namespace_of(rows).mean(rows, axis=0), "float32")


def _kmeans(rows: Array, n_clusters: int, random_state: np.random.RandomState) -> Array:
    """Lloyd's algorithm from k-means++ starts, on the device where the rows are.

    Only a partition is wanted, so single precision around the mean is enough, and of very many
    rows a sample finds the centres: the time then stays linear in the rows.
    """
    xp = namespace_of(rows)
    rows = _centred(rows)
    limit = max(SAMPLE_ROWS, SAMPLE_ROWS_PER_CLUSTER * n_clusters)
    sample = rows
    if rows.shape[0] > limit:
        places = random_state.permutation(int(rows.shape[0]))[:limit]
        sample = xp.take(rows, like(rows, places), axis=0)
    centres = _lloyd(sample, _spread_starts(sample, n_clusters, random_state))
    return xp.argmin(_squared_distances(rows, centres), axis=1)


def _lloyd(rows: Array, centres: Array) -> Array:
    xp = namespace_of(rows)
    clusters = xp.arange(centres.shape[0], device=rows.device)[:, None]
    last = math.inf
    for _ in range(MAX_ITERATIONS):
        squares = _squared_distances(rows, centres)
        inertia = float(xp.sum(xp.min(squares, axis=1)))
        if last - inertia <= SMALL_GAIN * inertia:
            break
        last = inertia
        members = cast(clusters == xp.argmin(squares, axis=1)[None, :], "float32")
        counts = xp.sum(members, axis=1)[:, None]
        # A cluster without members keeps its centre and may win rows back.
        moved = members @ rows / xp.clip(counts, min=1.0)
        centres = xp.where(counts > 0, moved, centres)
    return centres


def _spread_starts(rows: Array, n_clusters: int, random_state: np.random.RandomState) -> Array:
    """k-means++: each start is drawn with chances in proportion to its squared distance."""
    xp = namespace_of(rows)
    chosen = [int(random_state.randint(rows.shape[0]))]
    nearest = xp.full((rows.shape[0],), xp.inf, dtype=rows.dtype, device=rows.device)
    for _ in range(n_clusters - 1):
        start = rows[chosen[-1], :][None, :]
        nearest = xp.minimum(nearest, _squared_distances(rows, start)[:, 0])
        cumulative = np.cumsum(to_numpy(nearest).astype(np.float64))
        drawn = np.searchsorted(cumulative, random_state.uniform(0, cumulative[-1]), side="right")
        chosen.append(min(int(drawn), int(rows.shape[0]) - 1))
    return xp.stack([rows[i, :] for i in chosen])


def _squared_distances(rows: Array, centres: Array) -> Array:
    xp = namespace_of(rows)
    products = rows @ xp.matrix_transpose(centres)
    squares = xp.vecdot(rows, rows)[:, None] + xp.vecdot(centres, centres)[None, :]
    return xp.clip(squares - 2 * products, min=0.0)
