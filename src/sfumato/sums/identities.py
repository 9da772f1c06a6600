"""What persons and rows are told apart by: IDs, and keyed hashes of what rows hold."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sfumato.exceptions import InvalidInputError
from sfumato.tables.cells import TIME_KINDS, as_cells, cells_of, on_arrow
from sfumato.tables.columns import plain, read_as

KEY = 0x5F756D61746F2019  # public: the theorem holds for every key, see docs/guarantees/persons.md
MAX_DIGITS = 400  # of a decimal that is written out
LONG = 2.0**53  # from here on several whole numbers are one in floating point
WHOLE = 0x776F6C6547  # stands beside a whole number where others have a digest
NOT_GIVEN = {"", "nan", "none", "<na>", "nat"}  # as libraries write a missing cell beside texts

Codes = NDArray[np.int64]
Hashes = NDArray[np.uint64]


def row_hashes(rows: Any, codes: NDArray[np.intp]) -> Hashes:
    """Return a keyed hash of what each row holds, and of its class; each row by itself."""
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
    whole beside a missing one.
    """
    cells = id_cells(groups)
    if cells.dtype.kind in "iu" and len(cells) and _are_dense(cells):
        least, most = int(cells.min()), int(cells.max())
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
    numbers: dict[Any, int] = {}
    places = [_number(numbers, _identity(each)) for each in listed]
    return np.append(np.array(places, dtype=np.int64), -1)[codes]


def person_digests(groups: Any) -> NDArray[np.void]:
    """Return 16 bytes for each ID, equal for equal IDs wherever they lie; zeros without one."""
    cells = id_cells(groups)
    if cells.dtype.kind in "ib":
        words = np.empty((len(cells), 2), dtype=np.int64)
        words[:, 0], words[:, 1] = cells, WHOLE
        return words.view("V16")[:, 0]
    codes, listed = _numbered(cells)
    digests = [_digest(each) for each in listed]
    return np.frombuffer(b"".join([*digests, bytes(16)]), dtype="V16")[codes]


def partition_of(groups: Any, n_partitions: int) -> NDArray[np.intp]:
    """Return the partition of each row, the same for all rows of a person: a plan for clusters.

    Notes
    -----
    What an engine with partitions does for unit "person":

    1. Move each row to the partition that this function gives. It reads the ID alone, so every
       worker can call it on whatever rows it holds, and 7, 7.0 and "7" go to one partition.
    2. In each partition ``ArrayRecords.of_persons(rows, codes, groups=..., unit=...,
       relation="add_or_remove_one")`` and its exact sum. All rows of a person are there, so the
       rows that are kept, and a bound on them together, are those of one table.
    3. Merge the sums, by sizes of persons (`PersonSum.merge`) or as they are, and add noise once.

    The sum has the same bits for any partitions. Two workers must never both add up a person: a
    row that is moved twice would give her two votes. Memory of a partition: its rows, 8 bytes per
    row for numbers of persons, 1 for their sizes (2 from 255 rows per person on), 8 bytes per
    person, and 8 per row more of persons with more rows than are kept; 16 per row where rows are
    put side by side. A person with very many rows makes one partition as large as she is.
    """
    words = np.ascontiguousarray(person_digests(groups)).view(np.uint64).reshape(-1, 2)
    spread = _mixed(words[:, 0] ^ _mixed(words[:, 1]))
    return np.asarray(spread % np.uint64(n_partitions), dtype=np.intp)


def id_cells(groups: Any) -> NDArray[Any]:
    """Return a column of IDs as an array, whole numbers beside a missing one as objects."""
    cells = as_cells(_as_given(groups))
    if cells.dtype.kind in TIME_KINDS:
        cells = _times(cells)
    if cells.ndim == 2 and cells.shape[1] == 1:
        cells = cells[:, 0]
    if cells.ndim != 1:
        raise InvalidInputError(f"'groups' must be one column of IDs. Got {cells.ndim} dimensions.")
    return cells


def _as_given(groups: Any) -> Any:
    """Return cells without NumPy's way with a missing one, which makes doubles of whole numbers."""
    groups = on_arrow(groups)
    if hasattr(groups, "to_pylist"):
        return _of_arrow(plain(groups))
    if hasattr(getattr(groups, "cat", groups), "categories"):  # of pandas
        shell = getattr(groups, "cat", groups)
        known = [*shell.categories.to_numpy(dtype=object), None]
        return [known[code] for code in np.asarray(shell.codes)]
    if hasattr(groups, "to_numpy"):
        is_plain = isinstance(getattr(groups, "dtype", None), np.dtype)
        return groups.to_numpy() if is_plain else cells_of(groups)
    return groups


def _of_arrow(groups: Any) -> Any:
    """Return numbers, texts and times of NumPy, which Python can hold; of others none is an ID."""
    types, kind = pa.types, groups.type
    if types.is_time(kind):
        groups = groups.cast(f"int{kind.bit_width}")
    if types.is_nested(kind) or types.is_interval(kind):
        return [None] * len(groups)
    if types.is_decimal(kind) or (types.is_integer(groups.type) and groups.null_count):
        groups = read_as(groups, "string")
    chunks = groups.chunks if hasattr(groups, "chunks") else [groups]
    parts = [each.to_numpy(zero_copy_only=False) for each in chunks]
    return np.concatenate(parts) if parts else np.empty(0, dtype=object)


def _times(cells: NDArray[Any]) -> NDArray[Any]:
    """Return times of NumPy as texts: of one unit or another, one time is one ID."""
    known, places = np.unique(cells, return_inverse=True)
    texts = np.empty(len(known) + 1, dtype=object)
    texts[:-1] = [_time_text(time) for time in known]
    return np.asarray(texts[:-1][places])


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
    """Return what an ID is compared by, None where there is none; by this cell alone."""
    try:
        hash(cell)
        if isinstance(cell, bytes):
            cell = cell.decode()
        if isinstance(cell, complex | np.complexfloating) and cell.imag == 0:
            cell = cell.real  # as libraries write all numbers beside one that is complex
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


def _digest(identity: int | float | str) -> bytes:
    if isinstance(identity, int) and -(2**63) <= identity < 2**63:
        return np.array([identity, WHOLE], dtype=np.int64).tobytes()
    kind = b"t" if isinstance(identity, str) else b"n"
    text = f"{identity:x}" if isinstance(identity, int) else str(identity)
    # Of any text: one that was read with the wrong encoding holds halves of characters.
    return blake2b(kind + text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _mixed(values: Hashes) -> Hashes:
    """The finaliser of SplitMix64: every bit of a word depends on every other."""
    with np.errstate(over="ignore"):
        values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return values ^ (values >> np.uint64(31))
