"""Persons: the rows of one ID together, at most so many of them, as one term of a sum.

A person's term is the sum of the terms of her rows, or their average. Which of her rows are kept
where she has more than the public number depends on her own rows alone: those with the smallest
keyed hash of their content. So rows may lie anywhere, in any order, and the sum keeps its bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sfumato.bounds import check_persons
from sfumato.cells import as_cells
from sfumato.exceptions import InvalidInputError
from sfumato.guarantee import Relation
from sfumato.sums.grid import QUANTUM, ROW_BITS, SecretSum
from sfumato.sums.statistics import Statistic

__all__ = [
    "Gathered",
    "Joined",
    "PersonSum",
    "PersonUnit",
    "gather",
    "gathered",
    "partition_of",
    "person_codes",
    "person_digests",
    "person_products",
    "row_hashes",
]

AVERAGE_BITS = 24  # averages are added up to multiples of 2**-24: 2**26 of them are a double
KEY = 0x5F756D61746F2019  # public: the theorem holds for every key, see docs/guarantees/persons.md
WHOLE = 0x776F6C6547  # stands beside a whole number where others have a digest
NOT_GIVEN = {"", "nan", "none", "<na>", "nat"}  # as libraries write a missing cell beside texts

Codes = NDArray[np.int64]
Hashes = NDArray[np.uint64]


@dataclass(frozen=True)
class PersonUnit:
    """What is public about persons: how many rows each may have, and how they are added up.

    Parameters
    ----------
    rows : int
        k, the most rows of a person that are used.
    way : {"average", "sum"}, default="average"
        Whether a person's term is the average or the sum of the terms of her rows.
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
        most_rows: int,
        norm: int | str = 2,
    ) -> float:
        """Largest distance of the sums of two neighbours, which differ in one person.

        An average of terms lies between them, so two averages are no further apart than two terms.
        A sum of at most k terms is k times an average of terms and zeros.

        Parameters
        ----------
        statistic : Statistic
            What is added up.
        relation : {"replace_one", "add_or_remove_one"}
            The neighbours.
        most_rows : int
            The public number of rows that are added up, or a public bound on it.
        norm : {1, 2, "part"}, default=2
            See `Statistic.sensitivity`.

        Returns
        -------
        float
            The distance.
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
        rounding = statistic.rounding(most_rows)
        return moved + (rounding if norm == 2 else math.sqrt(statistic.size) * rounding)


@dataclass(frozen=True)
class Joined:
    """A bound on all rows of a person together, where that is less than on each of them.

    Parameters
    ----------
    unit : PersonUnit
        How many rows a person has, and how they are added up.
    bound : float
        Largest length of a person's term, her average or her sum.
    """

    unit: PersonUnit
    bound: float

    @classmethod
    def usual(cls, unit: PersonUnit | None, longest: float) -> Self | None:
        """Bound k terms of length `longest` as if they were orthogonal; None for one row.

        Parameters
        ----------
        unit : PersonUnit or None
            None where rows are the unit.
        longest : float
            Largest length of the term of a row.
        """
        if unit is None or unit.rows == 1:
            return None
        root = math.sqrt(unit.rows)
        return cls(unit, longest / root if unit.averages else longest * root)

    def shrinkage(
        self, products: NDArray[Any] | None, rows: Any, slopes: NDArray[Any], size: int
    ) -> NDArray[np.float64]:
        """By what the terms ``g aᵀ`` of each person are multiplied, so that she keeps the bound.

        ``|sum_i g_i a_iᵀ|² = sum_ij (g_i.g_j)(a_i.a_j)``. Each person by herself.

        Parameters
        ----------
        products : ndarray of shape (n_persons, size, size) or None
            ``a_i.a_j``; computed from `rows` where they are not known.
        rows : ndarray of shape (n, width)
            a, of length 1 at most.
        slopes : ndarray of shape (n, n_scores)
            g, those of a person side by side.
        size : int
            Rows of each person.
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
        """Largest length of a term after its slopes were cut to the grid.

        Parameters
        ----------
        n_scores : int
            Slopes of a row.
        """
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

    Parameters
    ----------
    shape : tuple of int
        Of the statistic.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._shape = shape
        self._by_size: dict[int, SecretSum] = {}

    def add(self, partial: Any, n_rows: int, size: int) -> None:
        """Add the exact sum of the terms of rows whose persons have `size` rows each."""
        self._of(size).add(partial, n_rows)

    def merge(self, other: PersonSum) -> Self:
        """Add a sum over other persons that was taken elsewhere."""
        if self._shape != other._shape:
            raise InvalidInputError("Sums of different statistics cannot be added.")
        for size, total in other._by_size.items():
            self._of(size).merge(total)
        return self

    def _of(self, size: int) -> SecretSum:
        return self._by_size.setdefault(size, SecretSum(self._shape))

    @property
    def n_rows(self) -> int:
        """Rows added so far."""
        return sum(total.n_rows for total in self._by_size.values())

    @property
    def n_persons(self) -> int:
        """Persons added so far."""
        return sum(total.n_rows // size for size, total in self._by_size.items())

    def added(self) -> SecretSum:
        """Give the sum over all rows, whatever the persons have."""
        total = SecretSum(self._shape)
        for each in self._by_size.values():
            total.merge(each)
        return total

    def averaged(self) -> NDArray[np.float64]:
        """Give the sum of averages as doubles, for a mechanism that adds noise to it."""
        whole = np.zeros(self._shape, dtype=np.int64)
        rest = np.zeros(self._shape)
        for size in sorted(self._by_size):
            quotient, remainder = np.divmod(self._by_size[size]._units, size)
            whole += quotient
            rest += remainder / size  # below the number of sizes: an error far below one unit
        whole += np.floor(rest).astype(np.int64)
        per_step = round(2.0**-AVERAGE_BITS / QUANTUM)
        steps = (whole + per_step // 2) // per_step  # [T3] rounded once, exact as doubles
        return np.asarray(steps * 2.0**-AVERAGE_BITS)

    def __repr__(self) -> str:
        return f"PersonSum(shape={self._shape})"


@dataclass(frozen=True)
class Gathered:
    """Where the kept rows of persons lie; secret, but for the unit.

    Parameters
    ----------
    unit : PersonUnit
        What is public.
    n_persons : int
        Persons with an ID.
    runs : tuple of (int, int)
        Rows of a person and how many persons have so many, in the order of `places`.
    places : ndarray of int
        Places of the kept rows.
    side_by_side : bool, default=True
        Whether the rows of a person lie beside each other, so that they can be bounded together.
    """

    unit: PersonUnit
    n_persons: int
    runs: tuple[tuple[int, int], ...]
    places: NDArray[np.intp] | None = field(default=None, repr=False)
    side_by_side: bool = True


def gather(
    codes: Codes,
    hashes: Callable[[NDArray[np.intp]], Hashes],
    unit: PersonUnit,
    *,
    side_by_side: bool = True,
) -> Gathered:
    """Choose the rows of each person that are kept, and put them side by side.

    Parameters
    ----------
    codes : ndarray of shape (n,)
        The number of each row's person, -1 where no ID is given.
    hashes : callable
        Gives the hash of the content of the rows at some places.
    unit : PersonUnit
        How many rows are kept.
    side_by_side : bool, default=True
        Whether rows of a person are put beside each other, or left in order where persons have
        equally many, which is quicker.
    """
    is_given = codes >= 0  # [T4] rows without an ID are dropped
    places = np.arange(len(codes)) if is_given.all() else np.flatnonzero(is_given)
    owners = codes[places] if len(places) < len(codes) else codes
    counts = np.bincount(owners)
    n_persons = int(np.count_nonzero(counts))
    mine = np.minimum(counts, unit.rows + 1).astype(np.int16)[owners]  # small: it is read anywhere
    (crowded,) = np.nonzero(mine > unit.rows)
    if len(crowded):
        crowded = crowded[np.lexsort((hashes(places[crowded]), owners[crowded]))]
        starts = np.flatnonzero(np.diff(owners[crowded], prepend=-1))
        rank = np.arange(len(crowded)) - np.repeat(starts, np.diff(np.append(starts, len(crowded))))
        is_kept = np.ones(len(places), dtype=bool)
        is_kept[crowded[rank >= unit.rows]] = False  # [T5] by her own rows alone
        places, owners, mine = places[is_kept], owners[is_kept], mine[is_kept]
        mine, counts = np.minimum(mine, unit.rows), np.minimum(counts, unit.rows)
    if side_by_side:
        order = np.argsort(owners, kind="stable")
        order = order[np.argsort(mine[order], kind="stable")]
    else:
        order = np.argsort(mine, kind="stable")
    sizes = np.bincount(counts[counts > 0])
    runs = tuple((int(size), int(sizes[size])) for size in np.flatnonzero(sizes))
    return Gathered(unit, n_persons, runs, places[order], side_by_side)


def gathered(
    rows: Any,
    codes: NDArray[np.intp],
    groups: Any,
    unit: PersonUnit,
    *,
    side_by_side: bool = True,
) -> Gathered:
    """Gather the rows of an array by their IDs.

    Parameters
    ----------
    rows : ndarray of shape (n, width)
        Rows.
    codes : ndarray of shape (n,)
        Their classes.
    groups : array-like of shape (n,)
        IDs of persons.
    unit : PersonUnit
        How many rows are kept.
    side_by_side : bool, default=True
        See `gather`.
    """
    owners = person_codes(groups)
    if len(owners) != len(rows):
        raise InvalidInputError("X and groups have inconsistent numbers of samples.")

    def hashes(places: NDArray[np.intp]) -> Hashes:
        return row_hashes(rows[places], codes[places])

    return gather(owners, hashes, unit, side_by_side=side_by_side)


# The content of rows ------------------------------------------------------------------------------


def row_hashes(rows: Any, codes: NDArray[np.intp]) -> Hashes:
    """Give a keyed hash of what each row holds, and of its class; each row by itself.

    Parameters
    ----------
    rows : ndarray of shape (n, width)
        Rows.
    codes : ndarray of shape (n,)
        Their classes.
    """
    total = _mixed(codes.astype(np.uint64) + np.uint64(KEY))
    with np.errstate(over="ignore"):
        for j in range(rows.shape[1]):
            column = np.asarray(rows[:, j], dtype=np.float64) + 0.0  # one zero, ...
            column[np.isnan(column)] = np.nan  # ... and one missing number
            key = _mixed(np.array([KEY + j + 1], dtype=np.uint64))
            total += _mixed(column.view(np.uint64) ^ key)
    return _mixed(total)


def _mixed(values: Hashes) -> Hashes:
    """The finaliser of SplitMix64: every bit of a word depends on every other."""
    with np.errstate(over="ignore"):
        values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return values ^ (values >> np.uint64(31))


# IDs ----------------------------------------------------------------------------------------------


def person_codes(groups: Any) -> Codes:
    """Number the persons of a column of IDs; -1 where none is given.

    IDs are equal as numbers, or as texts: 7, 7.0 and "7" are one ID, whatever else stands in the
    column. None, NaN, empty text and what cannot be hashed is no ID. Nothing raises.

    Parameters
    ----------
    groups : array-like of shape (n,)
        IDs.
    """
    cells = _cells(groups)
    if cells.dtype.kind in "iu" and len(cells) and _are_dense(cells):
        return cells.astype(np.int64) - int(cells.min())
    if cells.dtype.kind in "iub":
        return _encoded(pa.array(cells.astype(np.int64) if cells.dtype.kind == "b" else cells))[0]
    try:
        codes, known = _encoded(pa.array(cells, from_pandas=True))
        listed = known.to_pylist()
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        codes, listed = _numbered(cells)
    numbers: dict[Any, int] = {}
    places = [_number(numbers, _identity(each)) for each in listed]
    return np.append(np.array(places, dtype=np.int64), -1)[codes]


def person_digests(groups: Any) -> NDArray[np.void]:
    """Give 16 bytes for each ID, equal for equal IDs wherever they lie; zeros where none is given.

    Parameters
    ----------
    groups : array-like of shape (n,)
        IDs.
    """
    cells = _cells(groups)
    if cells.dtype.kind in "ib":
        words = np.empty((len(cells), 2), dtype=np.int64)
        words[:, 0], words[:, 1] = cells, WHOLE
        return words.view("V16")[:, 0]
    codes, listed = _numbered(cells)
    digests = [_digest(each) for each in listed]
    return np.frombuffer(b"".join([*digests, bytes(16)]), dtype="V16")[codes]


def partition_of(groups: Any, n_partitions: int) -> NDArray[np.intp]:
    """Give the partition of each row, the same for all rows of a person: a plan for clusters.

    Parameters
    ----------
    groups : array-like of shape (n,)
        IDs.
    n_partitions : int
        Partitions. Rows without an ID go to the first; they are dropped there.
    """
    words = np.ascontiguousarray(person_digests(groups)).view(np.uint64).reshape(-1, 2)
    mixed = _mixed(words[:, 0] ^ _mixed(words[:, 1]))
    return np.asarray(mixed % np.uint64(n_partitions), dtype=np.intp)


def _cells(groups: Any) -> NDArray[Any]:
    given = groups.to_numpy() if hasattr(groups, "to_numpy") else groups
    cells = as_cells(given)
    if cells.ndim == 2 and cells.shape[1] == 1:
        cells = cells[:, 0]
    if cells.ndim != 1:
        raise InvalidInputError(f"'groups' must be one column of IDs. Got {cells.ndim} dimensions.")
    return cells


def _are_dense(cells: NDArray[Any]) -> bool:
    """Whether whole numbers lie so close that they can number persons themselves."""
    return int(cells.max()) - int(cells.min()) < 4 * len(cells)


def _encoded(array: Any) -> tuple[Codes, Any]:
    encoded = pc.dictionary_encode(array)
    return encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(
        np.int64
    ), encoded.dictionary


def _numbered(cells: NDArray[Any]) -> tuple[Codes, list[Any]]:
    """Number cells one by one, of whatever kind they are."""
    known: dict[Any, int] = {}
    codes = np.empty(len(cells), dtype=np.int64)
    for place, cell in enumerate(cells.tolist() if cells.dtype != object else cells):
        codes[place] = _number(known, _identity(cell))
    return codes, list(known)


def _number(known: dict[Any, int], cell: Any) -> int:
    return -1 if cell is None else known.setdefault(cell, len(known))


def _identity(cell: Any) -> int | float | str | None:
    """Give what an ID is compared by, None where there is none; by this cell alone."""
    try:
        hash(cell)
        if isinstance(cell, bytes):
            cell = cell.decode()
        if isinstance(cell, str):
            text = cell.strip()
            return None if text.lower() in NOT_GIVEN else _as_number(text)
        if isinstance(cell, bool | int | np.integer | np.bool_):
            return int(cell)
        if isinstance(cell, float | np.floating):
            return _whole(float(cell))
        text = str(cell)
        return None if cell is None or text.lower() in NOT_GIVEN else text
    except Exception:  # whatever a strange object raises, it is no ID
        return None


def _as_number(text: str) -> int | float | str:
    """A number is one ID however it is written; leading zeros make a text."""
    digits = text[1:] if text[:1] == "-" else text
    if digits.isascii() and digits.isdigit() and (digits[0] != "0" or digits == "0"):
        return int(text)
    whole, point, part = digits.partition(".")
    is_plain = point and whole.isascii() and whole.isdigit() and part.isascii() and part.isdigit()
    if is_plain and (whole[0] != "0" or whole == "0"):
        return _whole(float(text)) or 0
    return text


def _whole(number: float) -> int | float | None:
    if not math.isfinite(number):
        return None
    return int(number) if number.is_integer() else number


def _digest(identity: int | float | str) -> bytes:
    if isinstance(identity, int) and -(2**63) <= identity < 2**63:
        return np.array([identity, WHOLE], dtype=np.int64).tobytes()
    kind = b"t" if isinstance(identity, str) else b"n"
    return blake2b(kind + str(identity).encode(), digest_size=16).digest()
