"""Cut rows into groups: by class, by k-means (equation 58) or at random."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.kernels.arrays import Array, cast, like, namespace_of, to_numpy

__all__ = ["PARTITIONS", "RowGroups", "partition_rows", "places_of"]

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
    """Give the places where each number from 0 to the largest stands."""
    return [np.nonzero(numbers == number)[0] for number in range(int(numbers.max()) + 1)]


def partition_rows(
    rows: Array, *, branch_size: int, partition: str, random_state: np.random.RandomState
) -> NDArray[np.intp]:
    """Give each row the number of its branch, ``S = ceil(N / branch_size)`` branches at most.

    Parameters
    ----------
    rows : array of shape (N, p)
    branch_size : int
    partition : {"kmeans", "random"}
        "random" cuts a random order of the rows into equal parts.
    random_state : RandomState

    Returns
    -------
    ndarray of shape (N,)
        Numbers from 0 without gaps; a cluster that ran empty is dropped.
    """
    n_rows = int(rows.shape[0])
    n_branches = math.ceil(n_rows / branch_size)
    if n_branches == 1:
        return np.zeros(n_rows, dtype=np.intp)
    if partition == "random":
        return random_state.permutation(np.arange(n_rows) % n_branches)
    found = to_numpy(_kmeans(rows, n_branches, random_state))
    return np.unique(found, return_inverse=True)[1].astype(np.intp)


def _kmeans(rows: Array, n_clusters: int, random_state: np.random.RandomState) -> Array:
    """Lloyd's algorithm from k-means++ starts, on the device where the rows are.

    Only a partition is wanted, so single precision around the mean is enough, and of very many
    rows a sample finds the centres: the time then stays linear in the rows.
    """
    xp = namespace_of(rows)
    rows = cast(rows, "float64")
    rows = cast(rows - xp.mean(rows, axis=0), "float32")
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
