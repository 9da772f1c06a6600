"""Persons: the rows of one ID together, up to a public number of them, as one term of a sum.

A person's term is the sum of the terms of their rows, or the average. Which rows are kept where a
person has more than the public number depends on that person's ID and rows alone: those with the
smallest keyed hash, as if at random. So rows may lie anywhere, and the sum keeps its bits.
Read `PersonUnit`, `PersonSum`, `select_person_rows`, then how persons and rows are told apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal
from hashlib import blake2b
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sfumato.core.constraints import check_parameters
from sfumato.exceptions import InvalidInputError
from sfumato.privacy.guarantee import Relation
from sfumato.sums.grid import BLOCK_ROWS, QUANTUM, ROW_BITS, WINDOW_ROWS, SecretSum
from sfumato.sums.statistics import Statistic
from sfumato.tables.bounds import PERSONS
from sfumato.tables.cells import TIME_KINDS, as_cells, cells_of, on_arrow
from sfumato.tables.columns import plain, read_as

AVERAGE_BITS = 24  # averages below 2 are added up to multiples of 2**-24 ...
MAX_PERSONS = 2**28  # ... and that many are exact in a double
HASHED_ROWS = 2**14  # rows hashed at a time, in the cache
KEY = 0x5F756D61746F2019  # public: the theorem holds for every key, see docs/guarantees/persons.md
MAX_DIGITS = 400  # of a decimal that is written out
LONG = 2.0**53  # from here on several whole numbers are one in floating point
WHOLE = 0x776F6C6547  # follows a whole number where others have a digest
NOT_GIVEN = {"", "nan", "none", "<na>", "nat"}  # as libraries write a missing cell among texts

Codes = NDArray[np.int64]
Hashes = NDArray[np.uint64]
Sizes = NDArray[np.unsignedinteger[Any]]


@dataclass(frozen=True)
class PersonUnit:
    """What is public about persons: how many rows each may have, and how they are added up.

    rows: k, the most rows of a person that are used.
    way ({"average", "sum"}): Whether a person's term is the average or the sum of those of rows.
    """

    rows: int
    way: str = "average"

    def __post_init__(self) -> None:
        check_parameters(self, {"rows": PERSONS["person_rows"], "way": PERSONS["per_person"]})

    @property
    def averages(self) -> bool:
        """Whether a person has one vote, however many rows they have."""
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
        joined = statistic._joined_sensitivity(relation, self) if norm == 2 else None
        one = statistic.sensitivity(relation, 1, norm)
        if self.averages:
            moved = one if joined is None else joined  # [T1] a point of the hull of the terms
            touched = statistic.size  # numbers that rows of one or two persons can change
            if statistic.n_parts is not None:
                touched = 2 * self.rows * (1 if norm == "part" else statistic.n_parts)
            spread = math.sqrt(touched) if norm == 2 else touched
            return moved + 2 * spread * 2.0**-AVERAGE_BITS  # [T3] each neighbour rounded once
        away = statistic.sensitivity(Relation.ADD_OR_REMOVE_ONE, 1, norm)
        # [T2] k times a point of the hull of the terms and zero
        moved = self.rows * max(one, away) if joined is None else joined
        rounding = statistic._rounding(max_rows)
        return moved + (rounding if norm == 2 else math.sqrt(statistic.size) * rounding)


@dataclass(frozen=True)
class PerPersonClip:
    """A bound on all rows of a person together, where that is less than on each of them.

    unit: How many rows a person has, and how they are added up.
    bound: Largest length of a person's term, average or sum.
    """

    unit: PersonUnit
    bound: float

    @classmethod
    def default(cls, unit: PersonUnit | None, longest: float) -> Self | None:
        """Bound k terms of length `longest` as if they were orthogonal; None for one row."""
        if unit is None or unit.rows == 1:
            return None
        root = math.sqrt(unit.rows)
        return cls(unit, longest / root if unit.averages else longest * root)

    def shrinkage(
        self, products: NDArray[Any] | None, rows: Any, slopes: NDArray[Any], size: int
    ) -> NDArray[np.float64]:
        """By what the terms ``g aᵀ`` of each person are multiplied, so that they keep the bound.

        ``|sum_i g_i a_iᵀ|² = sum_ij (g_i.g_j)(a_i.a_j)``. Each person alone.
        """
        apart = slopes.reshape(-1, size, slopes.shape[1])
        if products is None and slopes.shape[1] < size:
            together = np.swapaxes(apart, 1, 2) @ rows.reshape(len(apart), size, -1)
            squares = np.einsum("pij,pij->p", together, together)
        else:
            if products is None:
                together = rows.reshape(len(apart), size, -1)
                products = np.asarray(together @ np.swapaxes(together, 1, 2))
            squares = np.einsum("pij,pij->p", apart @ np.swapaxes(apart, 1, 2), products)
        lengths = np.einsum("pij,pij->p", apart, apart) * size  # at least the square, and its
        squares = np.maximum(squares, 0.0) + lengths * 2.0**-40  # rounding is far less than this
        limit = self.bound * (size if self.unit.averages else 1) * (1 - 2.0**-40)
        return np.asarray(limit / np.sqrt(np.maximum(squares, limit**2)))

    def length(self, n_scores: int) -> float:
        """Largest length of a term after its slopes were cut to the grid."""
        cuts = 1 if self.unit.averages else self.unit.rows  # [T6] each row's slopes are cut
        return self.bound + cuts * math.sqrt(n_scores) * 2.0**-ROW_BITS


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


@dataclass(frozen=True)
class KeptPersons:
    """Which rows of persons are kept; secret, but for the unit.

    unit: What is public.
    n_persons: Persons with an ID.
    sizes (n,): Kept rows of each row's person; 0 where the row is dropped.
    runs: Where rows of a person lie side by side in the order of `places`: rows of a person, and
        how many persons have that many.
    places: Places of the kept rows.
    """

    unit: PersonUnit
    n_persons: int
    sizes: Sizes = field(repr=False)
    runs: tuple[tuple[int, int], ...] | None = field(default=None, repr=False)
    places: NDArray[np.intp] | None = field(default=None, repr=False)

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


def select_person_rows(
    rows: Any, codes: NDArray[np.intp], groups: Any, unit: PersonUnit, *, group: bool
) -> KeptPersons:
    """Choose the rows of persons that are kept; `group` those of each, equally many together."""
    cells = id_cells(groups)
    owners = person_codes(cells)
    if len(owners) != len(rows):
        raise InvalidInputError("X and groups have inconsistent numbers of samples.")

    def hashes(places: NDArray[np.intp]) -> Hashes:
        return row_hashes(rows.take(places, axis=0), codes.take(places))

    found = choose(owners, hashes, lambda places: _id_words(cells[places]), unit)
    if not group:
        return found
    places = np.flatnonzero(found.sizes)
    places = places[np.argsort(owners[places], kind="stable")]
    places = places[np.argsort(found.sizes[places], kind="stable")]
    n_rows = np.bincount(found.sizes[places])
    runs = tuple((int(size), int(n_rows[size]) // int(size)) for size in np.flatnonzero(n_rows))
    return replace(found, runs=runs, places=places)


def choose(
    codes: Codes,
    hashes: Callable[[NDArray[np.intp]], Hashes],
    words: Callable[[NDArray[np.intp]], Hashes],
    unit: PersonUnit,
) -> KeptPersons:
    """Choose the rows of each person that are kept, by hashes of rows and words for IDs."""
    some_missing = len(codes) > 0 and int(codes.min()) < 0
    owners = codes + 1 if some_missing else codes
    counts = np.bincount(owners, minlength=1)
    if some_missing:
        counts[0] = 0  # [T4] rows without an ID are dropped
    small = np.min_scalar_type(unit.rows + 1)  # it is read anywhere
    sizes = np.minimum(counts, unit.rows + 1).astype(small).take(owners, mode="clip")
    crowded = np.flatnonzero(sizes > unit.rows)
    if len(crowded):  # [T5] by their own ID and rows alone
        parts = [crowded[i : i + HASHED_ROWS] for i in range(0, len(crowded), HASHED_ROWS)]
        found = np.concatenate([hashes(each) for each in parts])
        mine, rows = owners[crowded], unit.rows
        persons, first = np.flatnonzero(counts > rows), np.zeros(len(counts), dtype=np.intp)
        first[mine] = crowded
        salts = np.zeros(len(counts), dtype=np.uint64)
        salts[persons] = words(first[persons])
        found = _mixed(found ^ salts[mine])  # persons with equal rows keep different ones
        bits = max(int(mine.max()).bit_length(), 1)
        keys = (mine.astype(np.uint64) << np.uint64(64 - bits)) | (found >> np.uint64(bits))
        starts = np.cumsum(counts[persons]) - counts[persons]
        in_order = np.sort(keys)  # one quick sort tells the last row that is kept of each ...
        if np.any(in_order[1:] == in_order[:-1]):
            order = np.lexsort((found, mine))  # ... unless some are equal, which get other hashes
            is_new = (np.diff(mine[order]) != 0) | (np.diff(found[order]) != 0)
            runs = np.flatnonzero(np.append(True, is_new))
            turns = np.arange(len(order)) - np.repeat(runs, np.diff(runs, append=len(order)))
            found[order] = np.where(
                turns, _mixed(found[order] + turns.astype(np.uint64)), found[order]
            )
            order = np.lexsort((found, mine))
            ranks = np.arange(len(order)) - np.repeat(starts, counts[persons])
            is_kept = ranks[np.argsort(order)] < rows
        else:
            last = np.zeros(len(counts), dtype=np.uint64)
            last[persons] = in_order[starts + rows - 1]
            is_kept = keys <= last[mine]
        sizes[crowded] = np.where(is_kept, rows, 0)
    return KeptPersons(unit, int(np.count_nonzero(counts)), sizes)


# Who is who, and which row is which ---------------------------------------------------------------


def row_hashes(rows: Any, codes: NDArray[np.intp]) -> Hashes:
    """Return a keyed hash of what each row holds, and of its class; each row on its own."""
    total = _mixed(codes.astype(np.uint64) + np.uint64(KEY))
    with np.errstate(over="ignore"):
        for j in range(rows.shape[1]):
            column = np.asarray(rows[:, j], dtype=np.float64) + 0.0  # one zero, ...
            column[np.isnan(column)] = np.nan  # ... and one missing number
            key = _mixed(np.array([KEY + j + 1], dtype=np.uint64))
            total += _mixed(column.view(np.uint64) ^ key)
    return _mixed(total)


def person_codes(groups: Any) -> Codes:
    """Number the persons of a column of IDs; -1 where none is given.

    IDs are equal as numbers, or as texts: 7, 7.0 and "7" are one ID, whatever else stands in the
    column. None, NaN, empty text and what cannot be hashed is no ID, nor is a number in floating
    point from 2**53 on: there, several whole numbers are one. No cell raises. Whole numbers stay
    whole next to a missing one.
    """
    cells = id_cells(groups)
    is_whole = cells.dtype.kind in "iu" and len(cells) > 0
    least, most = (int(cells.min()), int(cells.max())) if is_whole else (0, 0)
    if is_whole and most - least < 4 * len(cells):  # so dense that they number persons themselves
        wide = cells.astype(np.int64 if cells.dtype.kind == "i" else np.uint64, copy=False)
        is_near = least >= 0 and most < 4 * len(cells)  # they number persons as they are
        return (wide if is_near else wide - wide.min()).astype(np.int64, copy=False)
    if cells.dtype.kind in "iub":
        return _encoded(pa.array(cells.astype(np.int64) if cells.dtype.kind == "b" else cells))[0]
    if cells.dtype == object and not all(type(cell) is str or cell is None for cell in cells):
        return _numbered(cells)[0]  # Arrow would read them as one type, that of the oddest
    try:
        codes, known = _encoded(pa.array(cells, from_pandas=True))
        listed = known.to_pylist()
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        codes, listed = _numbered(cells)
    numbers: dict[Any, int] = {None: -1}
    places = [numbers.setdefault(_identity(each), len(numbers) - 1) for each in listed]
    return np.append(np.array(places, dtype=np.int64), -1)[codes]


def person_digests(groups: Any) -> NDArray[np.void]:
    """Return 16 bytes for each ID, equal for equal IDs wherever they lie; zeros without one."""
    cells = id_cells(groups)
    if cells.dtype.kind in "ib":
        words = np.empty((len(cells), 2), dtype=np.int64)
        words[:, 0], words[:, 1] = cells, WHOLE
        return words.view("V16")[:, 0]
    codes, listed = _numbered(cells)
    digests = []
    for identity in listed:
        if isinstance(identity, int) and -(2**63) <= identity < 2**63:
            digests.append(np.array([identity, WHOLE], dtype=np.int64).tobytes())
            continue
        kind = b"t" if isinstance(identity, str) else b"n"
        text = f"{identity:x}" if isinstance(identity, int) else str(identity)
        # Of any text: one that was read with the wrong encoding holds halves of characters.
        data = kind + text.encode("utf-8", "surrogatepass")
        digests.append(blake2b(data, digest_size=16).digest())
    return np.frombuffer(b"".join([*digests, bytes(16)]), dtype="V16")[codes]


def partition_of(groups: Any, n_partitions: int) -> NDArray[np.intp]:
    """Return the partition of each row, the same for all rows of a person, by the ID alone.

    So every worker can call it on whatever rows it holds, and 7, 7.0 and "7" go to one partition.
    There all rows of a person are together, and the sums of partitions are merged. Two workers
    must never both add up a person: a row that is moved twice would give them two votes.
    """
    return np.asarray(_id_words(groups) % np.uint64(n_partitions), dtype=np.intp)


def _id_words(groups: Any) -> Hashes:
    words = np.ascontiguousarray(person_digests(groups)).view(np.uint64).reshape(-1, 2)
    return _mixed(words[:, 0] ^ _mixed(words[:, 1]))


def id_cells(groups: Any) -> NDArray[Any]:
    """Return a column of IDs as an array, whole numbers next to a missing one as objects.

    Without NumPy's way with a missing cell, which makes doubles of whole numbers; numbers, texts
    and times that Python can hold, and of other types none is an ID.
    """
    groups = on_arrow(groups)
    if hasattr(groups, "to_pylist"):
        groups = plain(groups)
        types, kind = pa.types, groups.type
        if types.is_time(kind):
            groups = groups.cast(f"int{kind.bit_width}")
        if types.is_nested(kind) or types.is_interval(kind):
            groups = [None] * len(groups)
        else:
            if types.is_decimal(kind) or (types.is_integer(groups.type) and groups.null_count):
                groups = read_as(groups, "string")
            chunks = groups.chunks if hasattr(groups, "chunks") else [groups]
            parts = [each.to_numpy(zero_copy_only=False) for each in chunks]
            groups = np.concatenate(parts) if parts else np.empty(0, dtype=object)
    elif hasattr(getattr(groups, "cat", groups), "categories"):  # of pandas
        shell = getattr(groups, "cat", groups)
        known = [*shell.categories.to_numpy(dtype=object), None]
        groups = [known[code] for code in np.asarray(shell.codes)]
    elif hasattr(groups, "to_numpy"):
        is_plain = isinstance(getattr(groups, "dtype", None), np.dtype)
        groups = groups.to_numpy() if is_plain else cells_of(groups)
    cells = as_cells(groups)
    if cells.dtype.kind in TIME_KINDS:
        times, places = np.unique(cells, return_inverse=True)  # of any unit, one time is one ID
        texts = np.empty(len(times), dtype=object)
        texts[:] = [_time_text(time) for time in times]
        cells = np.asarray(texts[places])
    if cells.dtype.kind == "f" and cells.itemsize < 8:  # of fewer digits, as LONG for doubles
        limit = 2.0 ** (np.finfo(cells.dtype).nmant + 1)
        cells = np.where(np.abs(cells) < limit, cells, np.nan).astype(np.float64)
    if cells.ndim == 2 and cells.shape[1] == 1:
        cells = cells[:, 0]
    if cells.ndim != 1:
        raise InvalidInputError(f"'groups' must be one column of IDs. Got {cells.ndim} dimensions.")
    return cells


def _time_text(time: Any) -> str:
    """Write a date or time with as many parts as it has."""
    if time != time:
        return "NaT"
    if isinstance(time, np.timedelta64):
        return f"{time.astype('timedelta64[ns]').astype(np.int64)} ns"
    if isinstance(time, np.datetime64):
        is_coarse = np.datetime_data(time.dtype)[0] in ("Y", "M", "W")
        time = np.datetime_as_string(time.astype("datetime64[D]") if is_coarse else time)
    text, _, part = str(time).replace("T", " ").partition(".")
    rest = part.rstrip("0") if part.isdigit() else part
    return (f"{text}.{rest}" if rest else text).removesuffix(" 00:00:00")


def _encoded(array: Any) -> tuple[Codes, Any]:
    encoded = pc.dictionary_encode(array)
    return encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(
        np.int64
    ), encoded.dictionary


def _numbered(cells: NDArray[Any]) -> tuple[Codes, list[Any]]:
    """Number cells one by one, of whatever kind they are."""
    known: dict[Any, int] = {None: -1}
    codes = np.empty(len(cells), dtype=np.int64)
    for place, cell in enumerate(cells.tolist() if cells.dtype != object else cells):
        codes[place] = known.setdefault(_identity(cell), len(known) - 1)
    return codes, list(known)[1:]


def _identity(cell: Any) -> int | float | str | None:
    """Return what an ID is compared by, None where there is none; by this cell alone."""
    try:
        hash(cell)
        if isinstance(cell, bytes):
            cell = cell.decode()
        if isinstance(cell, complex | np.complexfloating) and cell.imag == 0:
            cell = cell.real  # as libraries write all numbers of a column with a complex one
        if isinstance(cell, str):
            text = cell.strip()
            return None if text.lower() in NOT_GIVEN else _as_number(text)
        if isinstance(cell, bool | int | np.integer | np.bool_):
            return int(cell)
        if isinstance(cell, float | np.floating):
            return _whole(float(cell))
        if isinstance(cell, Decimal) and abs(cell.adjusted()) > MAX_DIGITS:
            return str(cell)  # written out it would fill the memory
        if isinstance(cell, Decimal):
            return int(cell) if cell == cell.to_integral_value() else _whole(float(cell))
        is_time = isinstance(cell, date | np.datetime64 | np.timedelta64)
        text = _time_text(cell) if is_time else str(cell)
        return None if cell is None or text.lower() in NOT_GIVEN else text
    except Exception:  # whatever a strange object raises, it is no ID
        return None


def _as_number(text: str) -> int | float | str | None:
    """A number is one ID however it is written; leading zeros make a text."""
    digits = text[1:] if text[:1] == "-" else text
    if digits.isascii() and digits.isdigit() and (digits[0] != "0" or digits == "0"):
        return int(text)
    whole, point, part = digits.partition(".")
    is_plain = point and whole.isascii() and whole.isdigit() and part.isascii() and part.isdigit()
    if is_plain and (whole[0] != "0" or whole == "0"):
        return _whole(float(text))
    return text


def _whole(number: float) -> int | float | None:
    if not abs(number) < LONG:
        return None
    return int(number) if number.is_integer() else number


def _mixed(values: Hashes) -> Hashes:
    """The finaliser of SplitMix64: every bit of a word depends on every other."""
    with np.errstate(over="ignore"):
        values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return values ^ (values >> np.uint64(31))
