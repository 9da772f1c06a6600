"""Bounds proposed from the data, for their owner only: no fit accepts them before they confirm."""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sfumato.exceptions import InvalidInputError
from sfumato.tables.bounds import PUBLIC_LABELS
from sfumato.tables.cells import columns_of, is_table
from sfumato.tables.columns import NO_YEAR, arrow, arrow_kind, as_column, days_written, is_date
from sfumato.tables.files import TableFile
from sfumato.tables.schema import Column, TableBounds, Target
from sfumato.tables.text import common_numbers

MAX_CATEGORIES = 50
MAX_LABELS = 1000
CODE, MAX_CODES = re.compile(r"\S{1,12}"), 5000  # of a public list in a file
SENTINELS = (*(-(10**n - 1) for n in range(1, 7)), *(10**n - 1 for n in range(3, 7)))  # -9, 999
FEW_LABELS = 20  # different whole numbers; more of them are a number to predict
FEW = 10  # different values that are too few for IDs
MAX_COUNTED = 10**6  # different values of a column
SAMPLED = 50_000  # numbers of which the median is taken
MIN_FOR_AN_ID, NEARLY = 200, 0.99
NAME, OWN = re.compile(r"\D*[^\W\d]\D*"), 0.8  # share of records with a name of their own
LONG_TAIL = 30  # times the median
PROPOSED = "proposed from the data"
PERSON_ROWS = 8  # proposed for every table: the rows of a person are not looked at
ID_NAME = re.compile(
    r"(^|[_\W])(id|ids|uuid|guid|patient|person|customer|client|user|member|subject)([_\W]|$)"
    r"|(patient|person|customer|client|user|member|subject)_?(id|nr|no|key)$|[a-z]ID$",
    re.IGNORECASE,
)
ID_TEXT = re.compile(r"[A-Za-z]{0,4}[-_]?\d{3,}")  # as in P00123
DATE_FORMATS = (
    *("%d.%m.%Y", "%Y-%m-%d", "%Y/%m/%d", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y"),
    *("%Y-%m-%dT%H:%M:%S", "%d.%m.%Y|%d.%m.%y", "%d/%m/%Y|%d/%m/%y", "%m/%d/%Y|%m/%d/%y"),
)


@dataclass
class ColumnSummary:
    """What was seen of one column; grows batch by batch."""

    name: str
    type: str
    missing: int = 0
    seen: int = 0
    lowest: Any = None  # of numbers, or of the years of dates
    highest: Any = None
    whole: bool = True  # no number with decimals was seen
    values: Counter[Any] | None = field(default_factory=Counter)  # None: too many to list
    sample: list[float] = field(default_factory=list)
    formats: tuple[str, ...] = DATE_FORMATS  # in which all texts are dates
    has_no_year: bool = False

    def see(self, values: Any) -> None:
        pa, compute, kind = arrow(), arrow("compute"), arrow_kind(self.type)
        self.missing += values.null_count
        present = values.drop_null()
        ends = []  # of numbers, or of years
        if kind in tuple("iuf"):
            numbers = np.asarray(present.cast("float64", safe=False))
            self.missing += int(np.isnan(numbers).sum())
            numbers = numbers[np.isfinite(numbers)]
            present = pa.array(numbers)
            self.whole &= bool((numbers == np.floor(numbers)).all())
            self.sample += numbers[: SAMPLED - len(self.sample)].tolist()
            ends.append(present)
        elif self.type.startswith(("date", "timestamp")):
            ends.append(self._years(present))
        self.seen += len(present)
        if self.values is not None and (kind or self.type == "string"):
            counted = compute.value_counts(present)
            self.values.update(dict(zip(*(p.to_pylist() for p in counted.flatten()), strict=True)))
            if len(self.values) > MAX_COUNTED:
                self.values = None
        for written in self.formats if self.type == "string" and len(present) else ():
            times = days_written(present, written)
            if times.null_count:
                self.formats = tuple(each for each in self.formats if each != written)
            else:
                ends.append(self._years(times))
        for each in filter(len, ends):
            low, high = compute.min_max(each).as_py().values()
            self.lowest = low if self.lowest is None else min(self.lowest, low)
            self.highest = high if self.highest is None else max(self.highest, high)

    def _years(self, days: Any) -> Any:
        years = arrow("compute").year(days)
        dated = years.filter(arrow("compute").not_equal(years, NO_YEAR))
        self.has_no_year |= len(dated) < len(years)
        return dated

    @property
    def is_repeated_id(self) -> bool:
        """Whether the column looks like an ID of which some records have the same."""
        if self.values is None or not FEW < len(self.values) < self.seen:
            return False
        is_text = self.type == "string"
        is_named = bool(ID_NAME.search(self.name)) and (is_text or self.whole)
        return is_named or (is_text and all(ID_TEXT.fullmatch(each) for each in self.values))

    @property
    def spellings(self) -> dict[str, str]:
        """The values without case and outer spaces, and the commonest spelling of each."""
        found: dict[str, str] = {}
        for value, _ in (self.values or Counter()).most_common():
            found.setdefault(str(value).strip().lower(), str(value).strip())
        return found

    @property
    def sentinels(self) -> tuple[float, ...]:
        """Numbers such as -999 that lie far from all others, more than once."""
        found: list[float] = []
        rest = {value: n for value, n in (self.values or {}).items() if value == value}
        for value in sorted(SENTINELS, key=abs, reverse=True):
            others = [each for each in rest if each != value]
            if rest.get(value, 0) < 2 or len(others) < 2:
                continue
            low, high = min(others), max(others)
            if (value < 0 <= low) or value < low - (high - low) or value > high + (high - low):
                found.append(value)
                rest.pop(value)
        if found:
            self.lowest, self.highest = min(rest), max(rest)
        return tuple(sorted(found))

    def proposed(self) -> Column:
        """Propose what may be public about the column, and say why."""
        kind, values = arrow_kind(self.type), self.values or Counter()
        marked: dict[str, Any] = {"missing": self.missing > 0, "note": PROPOSED}
        is_dates = self.type == "string" and bool(self.formats)
        if self.seen and (is_dates or is_date(self.type)) and self.lowest is not None:
            first, last = (min(max(year, 1), 9998) for year in (self.lowest, self.highest))
            marked["note"] += "; a full date can identify a person; parts are used"
            marked |= {"parts": ("year", "month", "weekday")}
            if self.has_no_year:
                marked["note"] += f"; the year {NO_YEAR} is read as a missing date"
                marked |= {"missing": True}
            marked |= {"format": self.formats[0]} if is_dates else {}
            declared = "timestamp[s]" if is_dates else self.type
            ends = (f"{first:04}-01-01", f"{last + 1:04}-01-01")
            return Column(self.name, declared, *ends, **marked)
        if kind == "b":
            return Column(self.name, self.type, 0, 1, missing=self.missing > 0)
        spelt = self.spellings if self.type == "string" else {}
        n_different = self.seen if self.values is None else len(spelt or values)
        is_id = self.seen >= MIN_FOR_AN_ID and n_different >= NEARLY * self.seen
        if kind and not (self.whole and kind != "f" and is_id):
            return self._proposed_number(kind, marked)
        is_names = len(spelt) > max(FEW, OWN * self.seen) and all(map(NAME.fullmatch, spelt))
        if spelt and len(spelt) <= MAX_CATEGORIES and not is_names:
            if len(spelt) < len(values):
                marked["note"] += "; spelt in several ways, by case or spaces, which count as one"
            return Column(self.name, self.type, categories=tuple(sorted(spelt.values())), **marked)
        why = f"more than {MAX_CATEGORIES} different texts; names and free text are not features"
        if not self.seen:
            why = "the column is empty"
        elif is_names:
            why = "nearly every record has its own text, without digits: looks like names"
        elif is_id:
            why = "nearly every record has its own value, as IDs do"
        elif 0 < len(spelt) <= MAX_CODES and all(map(CODE.fullmatch, spelt)):
            why = (
                f"{len(spelt)} different codes; if their list is public, save it with one code per "
                'line and put categories_file = "codes.txt" instead of left_out'
            )
        elif self.type != "string":
            why = f"values of type {self.type} are neither numbers nor texts"
        return Column(self.name, self.type, left_out=True, note=f"Left out: {why}.")

    def _range(self) -> tuple[float, float, dict[str, Any]]:
        """Return the ends of the numbers but for marks of missing cells, and these with a note."""
        sentinels = self.sentinels  # before the range, which is that of the others
        told: dict[str, Any] = {"sentinels": sentinels, "note": PROPOSED}
        if sentinels:
            marks = ", ".join(map("{:g}".format, sentinels))
            told["note"] += f"; {marks} looks like a marker of missing cells: read as one"
        return *rounded_outwards(self.lowest, self.highest), told

    def _proposed_number(self, kind: str, marked: dict[str, Any]) -> Column:
        lower, upper, told = self._range()
        marked |= told | {"missing": marked["missing"] or bool(told["sentinels"])}
        if kind in "iu":
            lower, upper = math.floor(lower), math.ceil(upper)
        sample = [each for each in self.sample if each > 0 and each not in told["sentinels"]]
        if sample and self.lowest >= 0 and self.highest > LONG_TAIL * float(np.median(sample)):
            marked["note"] += "; long tail, so its logarithm is used"
            marked["log"], lower = True, max(lower, 0)
        return Column(self.name, self.type, lower, upper, **marked)

    def proposed_target(self) -> Target:
        """Propose the set of labels, or the range of a target that is continuous."""
        kind, values = arrow_kind(self.type), self.values
        n = MAX_COUNTED if values is None else len(values)
        if kind in tuple("iuf") and self.seen and (not self.whole or n > FEW_LABELS):
            lower, upper, told = self._range()
            told["note"] += "; many different numbers, so they are predicted as a number"
            return Target(self.name, self.type, lower, upper, **told)
        if not (kind or self.type == "string") or not 2 <= n <= MAX_LABELS:
            raise InvalidInputError(
                f"The target {self.name!r}, of type {self.type}, has {n} different values; labels "
                f"are 2 to {MAX_LABELS} texts or whole numbers."
            )
        typed: Any = set(self.spellings.values()) if self.type == "string" else set(values or ())
        typed = {int(v) for v in typed} if kind in tuple("iu") else typed
        return Target(self.name, self.type, categories=tuple(sorted(typed)), note=PROPOSED)


@dataclass(frozen=True)
class Description:
    """A table as its owner sees it: number of rows, columns as seen, bounds as proposed."""

    n_rows: int
    columns: tuple[ColumnSummary, ...]
    bounds: TableBounds


def describe_table(source: TableFile, target: str | None = None) -> Description:
    """Go once over a table and propose its bounds."""
    source.require([] if target is None else [target])
    seen = {name: ColumnSummary(name, declared) for name, declared in source.columns.items()}
    n_rows = 0
    for batch in source.batches():
        n_rows += len(batch)
        for name, summary in seen.items():
            summary.see(batch[name])
    if not n_rows:
        raise InvalidInputError(f"The table '{source.path}' has no rows.")
    text = source.text if source.format == "csv" else None
    ids = tuple(name for name, each in seen.items() if each.is_repeated_id and name != target)
    columns = tuple(each.proposed() for n, each in seen.items() if n not in (target, *ids[:1]))
    labels = None if target is None else seen[target].proposed_target()
    bounds = TableBounds(columns, labels, text=text, looks_like_ids=ids)
    if ids:
        bounds = replace(bounds, person=ids[0], person_rows=PERSON_ROWS)
    return Description(n_rows, tuple(seen.values()), bounds)


@dataclass
class ColumnCheck:
    """What the owner should know of one column before it is used; counts of cells."""

    name: str
    missing: int = 0
    unreadable: int = 0
    outside: int = 0  # of the range, or none of the listed values; of persons, rows not used
    same_as: str = ""  # an earlier column that says the same


def check_table(table: Any, bounds: TableBounds) -> tuple[int, tuple[ColumnCheck, ...]]:
    """Compare a table with its bounds, for the eyes of its owner: nothing of this is private.

    Parameters
    ----------
    table : path-like or table
        A file, or a table of pandas, polars or Arrow.
    bounds : TableBounds
        Confirmed or not.

    Returns
    -------
    tuple
        The number of rows, and what was counted in each column.
    """
    facts = {each.name: each for each in (*bounds.used, bounds.target) if each is not None}
    checks = {name: ColumnCheck(name) for name in (bounds.person, *facts) if name}
    n_rows, rows_of, digests = 0, Counter[Any](), dict.fromkeys(facts, b"")
    source, text = table, None
    if not is_table(table):  # cells as they are stored
        source = TableFile(table, guess=False, text=bounds.text)
        text = bounds.text if source.format == "csv" else None
    for batch in [table] if is_table(table) else source.batches(list(checks)):
        n_rows += len(batch)
        for name, cells in columns_of(batch, list(checks)).items():
            told, column = checks[name], as_column(cells)
            if name == bounds.person:
                rows_of.update(column.drop_null().to_pylist())
                told.missing = n_rows - rows_of.total()
                continue
            fact = facts[name]
            if text is not None and arrow_kind(fact.type):
                column = common_numbers(column, text)
            is_gone = np.asarray(column.is_null())
            told.missing += int(is_gone.sum())
            if fact.categories == PUBLIC_LABELS:
                continue
            feature = min(fact.features, key=lambda each: each.categories is not None)
            read = replace(feature, sentinels=()).read(column)
            n_odd = int((np.isnan(read) & ~is_gone).sum())
            said = digests[name] + repr(fact.categories).encode() + read.tobytes()
            digests[name] = hashlib.sha256(said).digest()
            if fact.categories is not None:
                told.outside += n_odd
                continue
            told.unreadable += n_odd
            is_mark = np.isin(read, fact.sentinels)
            told.missing += int(is_mark.sum())
            if feature.categories is None:
                is_out = (read < feature.lower) | (read > feature.upper)
                told.outside += int((is_out & ~is_mark).sum())
    if (most := bounds.person_rows) and bounds.person:
        checks[bounds.person].outside = sum(max(n - most, 0) for n in rows_of.values())
    first: dict[bytes, str] = {}
    for name, digest in digests.items():
        same = first.setdefault(digest, name)
        checks[name].same_as = same if digest and same != name else ""
    return n_rows, tuple(checks.values())


def rounded_outwards(lowest: float | None, highest: float | None) -> tuple[float, float]:
    """Return round numbers around a range; from 0 where the range comes near it."""
    if lowest is None or highest is None:  # not one number was seen
        return 0.0, 1.0
    lowest, highest = max(lowest, -1e150), min(highest, 1e150)
    spread = max(highest - lowest, 1e-6 * max(abs(lowest), abs(highest)))
    step = 10.0 ** math.floor(math.log10(spread or 1.0)) if highest > lowest or spread > 1 else 1.0
    lower, upper = math.floor(lowest / step) * step, math.ceil(highest / step) * step
    if lower == upper:
        lower, upper = lower - step, upper + step
    if 0 < lower <= highest - lowest:
        lower = 0.0
    return float(f"{lower:.12g}"), float(f"{upper:.12g}")
