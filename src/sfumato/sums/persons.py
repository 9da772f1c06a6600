"""Persons: the rows of one ID together, at most so many of them, as one term of a sum.

A person's term is the sum of the terms of her rows, or their average. Which of her rows are kept
where she has more than the public number depends on her own rows alone: those with the smallest
keyed hash of their content. So rows may lie anywhere, in any order, and the sum keeps its bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.exceptions import InvalidInputError
from sfumato.privacy.guarantee import Relation
from sfumato.sums.grid import BLOCK_ROWS, QUANTUM, ROW_BITS, WINDOW_ROWS, SecretSum
from sfumato.sums.identities import Codes, Hashes, person_codes, person_digests, row_hashes
from sfumato.sums.statistics import Statistic
from sfumato.tables.bounds import check_persons

AVERAGE_BITS = 24  # averages below 2 are added up to multiples of 2**-24 ...
MAX_PERSONS = 2**28  # ... and so many of them are a double
HASHED_ROWS = 2**14  # so many rows are hashed at a time, in the cache
Sizes = NDArray[np.unsignedinteger[Any]]


@dataclass(frozen=True)
class PersonUnit:
    """What is public about persons: how many rows each may have, and how they are added up.

    rows: k, the most rows of a person that are used.
    way ({"average", "sum"}): Whether a person's term is the average or the sum of the terms of her
        rows.
    """

    rows: int
    way: str = "average"

    def __post_init__(self) -> None:
        check_persons(self.rows, self.way)

    @property
    def averages(self) -> bool:
        """Whether a person has one vote, however many rows she has."""
        return self.way == "average"

    def sensitivity(
        self,
        statistic: Statistic,
        relation: str | Relation,
        max_rows: int,
        norm: int | str = 2,
    ) -> float:
        """Largest distance of the sums of two neighbours, which differ in one person.

        An average of terms lies between them, so two averages are no further apart than two terms.
        A sum of at most k terms is k times an average of terms and zeros.
        """
        relation = Relation(relation)
        joined = statistic.joined_sensitivity(relation, self) if norm == 2 else None
        one = statistic.sensitivity(relation, 1, norm)
        if self.averages:
            moved = one if joined is None else joined  # [T1] a point of the hull of the terms
            touched = statistic.touched(2 * self.rows, part=norm == "part")
            spread = math.sqrt(touched) if norm == 2 else touched
            return moved + 2 * spread * 2.0**-AVERAGE_BITS  # [T3] each neighbour rounded once
        away = statistic.sensitivity(Relation.ADD_OR_REMOVE_ONE, 1, norm)
        # [T2] k times a point of the hull of the terms and zero
        moved = self.rows * max(one, away) if joined is None else joined
        rounding = statistic.rounding(max_rows)
        return moved + (rounding if norm == 2 else math.sqrt(statistic.size) * rounding)


@dataclass(frozen=True)
class PerPersonClip:
    """A bound on all rows of a person together, where that is less than on each of them.

    unit: How many rows a person has, and how they are added up.
    bound: Largest length of a person's term, her average or her sum.
    """

    unit: PersonUnit
    bound: float

    @classmethod
    def usual(cls, unit: PersonUnit | None, longest: float) -> Self | None:
        """Bound k terms of length `longest` as if they were orthogonal; None for one row."""
        if unit is None or unit.rows == 1:
            return None
        root = math.sqrt(unit.rows)
        return cls(unit, longest / root if unit.averages else longest * root)

    def shrinkage(
        self, products: NDArray[Any] | None, rows: Any, slopes: NDArray[Any], size: int
    ) -> NDArray[np.float64]:
        """By what the terms ``g aᵀ`` of each person are multiplied, so that she keeps the bound.

        ``|sum_i g_i a_iᵀ|² = sum_ij (g_i.g_j)(a_i.a_j)``. Each person by herself.
        """
        apart = slopes.reshape(-1, size, slopes.shape[1])
        if products is None and slopes.shape[1] < size:
            together = np.swapaxes(apart, 1, 2) @ rows.reshape(len(apart), size, -1)
            squares = np.einsum("pij,pij->p", together, together)
        else:
            of_rows = person_products(rows, size) if products is None else products
            squares = np.einsum("pij,pij->p", apart @ np.swapaxes(apart, 1, 2), of_rows)
        lengths = np.einsum("pij,pij->p", apart, apart) * size  # at least the square, and its
        squares = np.maximum(squares, 0.0) + lengths * 2.0**-40  # rounding is far less than this
        limit = self.bound * (size if self.unit.averages else 1) * (1 - 2.0**-40)
        return np.asarray(limit / np.sqrt(np.maximum(squares, limit**2)))

    def length(self, n_scores: int) -> float:
        """Largest length of a term after its slopes were cut to the grid."""
        cuts = 1 if self.unit.averages else self.unit.rows  # [T6] each row's slopes are cut
        return self.bound + cuts * math.sqrt(n_scores) * 2.0**-ROW_BITS


def person_products(rows: Any, size: int) -> NDArray[Any]:
    """``a_i.a_j`` of the rows of each person, shape (n_persons, size, size)."""
    apart = rows.reshape(-1, size, rows.shape[1])
    return np.asarray(apart @ np.swapaxes(apart, 1, 2))


class PersonSum:
    """The exact sum of persons' averages: one sum for each number of rows that a person can have.

    ``sum_p (sum_{i of p} t_i) / m_p = sum_m S_m / m`` with S_m the sum over the rows of persons
    with m rows. Every S_m is exact, so order, batches and places do not change a bit.

    shape: Of the statistic.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._shape = shape
        self._sums: dict[int, SecretSum] = {}
        self._pending: dict[int, tuple[NDArray[np.float64], int]] = {}

    def add(self, partial: Any, n_rows: int, size: int) -> None:
        """Add the exact sum of the terms of rows whose persons have `size` rows each."""
        waiting, n_waiting = self._pending.pop(size, (np.zeros(self._shape), 0))
        if n_waiting + n_rows > BLOCK_ROWS:  # more would not be exact as doubles
            self._of(size).add(waiting, n_waiting)
            waiting, n_waiting = np.zeros(self._shape), 0
        waiting += partial
        self._pending[size] = waiting, n_waiting + n_rows

    @property
    def _by_size(self) -> dict[int, SecretSum]:
        for size, (waiting, n_waiting) in self._pending.items():
            self._of(size).add(waiting, n_waiting)
        self._pending = {}
        return self._sums

    def merge(self, other: PersonSum) -> Self:
        """Add a sum over other persons that was taken elsewhere."""
        if self._shape != other._shape:
            raise InvalidInputError("Sums of different statistics cannot be added.")
        for size, total in other._by_size.items():
            self._of(size).merge(total)
        return self

    def _of(self, size: int) -> SecretSum:
        return self._sums.setdefault(size, SecretSum(self._shape))

    @property
    def n_rows(self) -> int:
        """Rows added so far."""
        return sum(total.n_rows for total in self._by_size.values())

    @property
    def n_persons(self) -> int:
        """Persons added so far."""
        return sum(total.n_rows // size for size, total in self._by_size.items())

    def added(self) -> SecretSum:
        """Return the sum over all rows, whatever the persons have."""
        total = SecretSum(self._shape)
        for each in self._by_size.values():
            total.merge(each)
        return total

    def averaged(self) -> NDArray[np.float64]:
        """Return the sum of averages as doubles, for a mechanism that adds noise to it."""
        if self.n_persons > MAX_PERSONS:
            raise InvalidInputError(f"At most {MAX_PERSONS} persons are averaged.")
        wide = self.n_rows > WINDOW_ROWS  # 64 bits may be too few: Python's integers
        whole = np.zeros(self._shape, dtype=object if wide else np.int64)
        rest = np.zeros(self._shape)
        for size, total in sorted(self._by_size.items()):
            units = total.integers()
            whole += units // size
            # below the number of sizes: an error far below one unit
            rest += (units % size).astype(np.int64) / size
        whole += np.floor(rest).astype(np.int64)
        per_step = round(2.0**-AVERAGE_BITS / QUANTUM)
        steps = (whole + per_step // 2) // per_step  # [T3] rounded once, exact as doubles
        return np.asarray(steps * 2.0**-AVERAGE_BITS, dtype=np.float64)

    __reduce__ = SecretSum.__reduce__  # it cannot be pickled, copied or saved

    def __repr__(self) -> str:
        return f"PersonSum(shape={self._shape})"


@dataclass(frozen=True)
class UnsortedPersons:
    """Rows as they lie, and how many rows of each one's person are kept; secret, but for the unit.

    unit: What is public.
    n_persons: Persons with an ID.
    sizes (n,): Kept rows of each row's person; 0 where the row is dropped.
    """

    unit: PersonUnit
    n_persons: int
    sizes: Sizes = field(repr=False)

    @property
    def n_kept(self) -> int:
        """Rows that are kept."""
        return int(np.count_nonzero(self.sizes))


def by_size(
    rows: Any, codes: NDArray[np.intp], sizes: Sizes | int, unit: PersonUnit
) -> Iterator[tuple[Any, NDArray[np.intp], int]]:
    """Yield the rows that are kept, by the number of rows of their persons where it matters."""
    if isinstance(sizes, int):
        yield rows, codes, sizes
        return
    weights = sizes if unit.averages else sizes > 0
    order = np.argsort(weights, kind="stable")  # of small numbers: by counting
    ends = np.cumsum(np.bincount(weights, minlength=1))
    for size in range(1, len(ends)):  # [T5] those of size 0 are dropped
        mine = order[ends[size - 1] : ends[size]]
        if len(mine):
            yield rows.take(mine, axis=0), codes.take(mine), size


@dataclass(frozen=True)
class GroupedPersons:
    """Where the kept rows of persons lie, so that hers are side by side; secret, but for the unit.

    unit: What is public.
    n_persons: Persons with an ID.
    runs: Rows of a person and how many persons have so many, in the order of `places`.
    places: Places of the kept rows; None where they lie in this order.
    """

    unit: PersonUnit
    n_persons: int
    runs: tuple[tuple[int, int], ...]
    places: NDArray[np.intp] | None = field(default=None, repr=False)

    @property
    def n_kept(self) -> int:
        """Rows that are kept."""
        return sum(size * n_persons for size, n_persons in self.runs)


def choose(
    codes: Codes, hashes: Callable[[NDArray[np.intp]], Hashes], unit: PersonUnit
) -> UnsortedPersons:
    """Choose the rows of each person that are kept."""
    some_missing = len(codes) > 0 and int(codes.min()) < 0
    owners = codes + 1 if some_missing else codes
    counts = np.bincount(owners, minlength=1)
    if some_missing:
        counts[0] = 0  # [T4] rows without an ID are dropped
    small = np.min_scalar_type(unit.rows + 1)  # it is read anywhere
    sizes = np.minimum(counts, unit.rows + 1).astype(small).take(owners, mode="clip")
    crowded = np.flatnonzero(sizes > unit.rows)
    if len(crowded):  # [T5] by her own rows alone
        parts = [crowded[i : i + HASHED_ROWS] for i in range(0, len(crowded), HASHED_ROWS)]
        all_hashes = np.concatenate([hashes(each) for each in parts])
        is_kept = _are_kept(owners[crowded], all_hashes, counts, unit.rows)
        sizes[crowded] = np.where(is_kept, unit.rows, 0)
    return UnsortedPersons(unit, int(np.count_nonzero(counts)), sizes)


def _are_kept(
    owners: Codes, hashes: Hashes, counts: NDArray[np.intp], rows: int
) -> NDArray[np.bool_]:
    """Whether each row is among the first of its person by hash, and then by place."""
    bits = max(int(owners.max()).bit_length(), 1)
    keys = (owners.astype(np.uint64) << np.uint64(64 - bits)) | (hashes >> np.uint64(bits))
    crowded = np.flatnonzero(counts > rows)
    starts = np.cumsum(counts[crowded]) - counts[crowded]
    in_order = np.sort(keys)  # one quick sort tells the last row that is kept of each person ...
    if np.any(in_order[starts + rows - 1] == in_order[starts + rows]):
        order = np.lexsort((hashes, owners))  # ... unless it looks like the first that is dropped
        ranks = np.arange(len(order)) - np.repeat(starts, counts[crowded])
        return np.asarray(ranks[np.argsort(order)] < rows)
    last = np.zeros(len(counts), dtype=np.uint64)
    last[crowded] = in_order[starts + rows - 1]
    return np.asarray(keys <= last[owners])


def select_person_rows(
    rows: Any, codes: NDArray[np.intp], groups: Any, unit: PersonUnit
) -> UnsortedPersons:
    """Choose the rows of persons that are kept, of an array."""
    return _chosen(rows, codes, groups, unit)[0]


def group_person_rows(
    rows: Any, codes: NDArray[np.intp], groups: Any, unit: PersonUnit
) -> GroupedPersons:
    """Do the same and put those of each person side by side; persons with equally many together."""
    found, owners = _chosen(rows, codes, groups, unit)
    return group_rows(owners, found)


def group_rows(owners: Codes, found: UnsortedPersons) -> GroupedPersons:
    """Put kept rows in the order of their persons, those with equally many together."""
    places = np.flatnonzero(found.sizes)
    places = places[np.argsort(owners[places], kind="stable")]
    places = places[np.argsort(found.sizes[places], kind="stable")]
    n_rows = np.bincount(found.sizes[places])
    runs = tuple((int(size), int(n_rows[size]) // int(size)) for size in np.flatnonzero(n_rows))
    return GroupedPersons(found.unit, found.n_persons, runs, places)


def _chosen(
    rows: Any, codes: NDArray[np.intp], groups: Any, unit: PersonUnit
) -> tuple[UnsortedPersons, Codes]:
    owners = person_codes(groups)
    if len(owners) != len(rows):
        raise InvalidInputError("X and groups have inconsistent numbers of samples.")

    def hashes(places: NDArray[np.intp]) -> Hashes:
        return row_hashes(rows.take(places, axis=0), codes.take(places))

    return choose(owners, hashes, unit), owners


def scattered_batches(
    batches: Iterator[tuple[Any, ...]], unit: PersonUnit, content: Callable[[Any], Any] | None
) -> UnsortedPersons:
    """Find the rows of persons that are kept, of rows that are read in batches."""
    digests, hashes = [np.empty(0, dtype="V16")], [np.empty(0, dtype=np.uint64)]
    for rows, codes, groups in batches:
        digests.append(person_digests(groups))
        hashes.append(row_hashes(rows if content is None else content(rows), codes))
    owners = numbered(np.concatenate(digests))
    return choose(owners, np.concatenate(hashes).__getitem__, unit)


def numbered(digests: NDArray[np.void]) -> Codes:
    """Number persons by the digests of their IDs; -1 where there is none."""
    words = np.ascontiguousarray(digests).view(np.uint64).reshape(-1, 2)
    order = np.lexsort((words[:, 1], words[:, 0]))
    is_new = np.any(words[order][1:] != words[order][:-1], axis=1)
    owners = np.empty(len(words), dtype=np.int64)
    owners[order] = np.concatenate([[0], np.cumsum(is_new)])[: len(words)]
    owners[~words.any(axis=1)] = -1
    return owners
