"""Bounds proposed from the data, for a person to replace and to confirm.

What is computed here is read off the rows: it is protected by nothing, is shown to the owner of the
table only, and no fit accepts it before the owner has declared it public.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sfumato.exceptions import InvalidInputError
from sfumato.tables.columns import arrow, arrow_kind
from sfumato.tables.dates import is_date
from sfumato.tables.facts import Column, Target
from sfumato.tables.files import TableFile
from sfumato.tables.schema import TableBounds

MAX_CATEGORIES = 50
MAX_LABELS = 1000
FEW_LABELS = 20  # different whole numbers; more of them are a number to predict
FEW = 10  # different whole numbers that may be codes
MAX_COUNTED = 10**6  # different values of a column
SAMPLED = 50_000  # numbers of which the median is taken
MIN_FOR_AN_ID, NEARLY = 200, 0.99
LONG_TAIL = 30  # times the median
PROPOSED = "proposed from the data"
PERSON_ROWS = 8  # proposed for every table: the rows of a person are not looked at
ID_NAME = re.compile(
    r"(^|[_\W])(id|ids|uuid|guid|patient|person|customer|client|user|member|subject)([_\W]|$)"
    r"|(patient|person|customer|client|user|member|subject)_?(id|nr|no|key)$|[a-z]ID$",
    re.IGNORECASE,
)
ID_TEXT = re.compile(r"[A-Za-z]{0,4}[-_]?\d{3,}")  # as in P00123
# Texts that are meant as numbers or dates, but are not all written in one way.
NUMBER_TEXT = re.compile(r"[+-]?\d[\d.,' ]*")
DATE_TEXT = re.compile(r"\d{1,4}([./-])\s?\d{1,2}\1\s?\d{2,4}([T ].*)?")
MOSTLY = 0.6
DATE_FORMATS = ("%d.%m.%Y", "%Y-%m-%d", "%Y/%m/%d", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y")


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
    values: set[Any] | None = field(default_factory=set)  # None: too many to list
    sample: list[float] = field(default_factory=list)
    formats: tuple[str, ...] = DATE_FORMATS  # in which all texts are dates

    def see(self, values: Any) -> None:
        """Take note of another batch of the column."""
        compute = arrow("compute")
        self.missing += values.null_count
        present = values.drop_null()
        kind = arrow_kind(self.type)
        if kind in tuple("iuf"):
            numbers = np.asarray(present.cast("float64", safe=False))
            self.missing += int(np.isnan(numbers).sum())
            numbers = numbers[np.isfinite(numbers)]
            present = arrow().array(numbers)
            self.whole &= bool((numbers == np.floor(numbers)).all())
            self.sample += numbers[: SAMPLED - len(self.sample)].tolist()
        self.seen += len(present)
        if kind in tuple("iuf"):
            self._see_ends(present)
        elif self.type.startswith(("date", "timestamp")):
            self._see_ends(compute.year(present))
        if self.values is not None and (kind or self.type == "string"):
            self.values |= set(compute.unique(present).to_pylist())
            self._see_dates(present)
            if len(self.values) > MAX_COUNTED:
                self.values = None

    def _see_ends(self, numbers: Any) -> None:
        ends = arrow("compute").min_max(numbers).as_py()
        if len(numbers):
            self.lowest = ends["min"] if self.lowest is None else min(self.lowest, ends["min"])
            self.highest = ends["max"] if self.highest is None else max(self.highest, ends["max"])

    def _see_dates(self, texts: Any) -> None:
        if self.type != "string" or not self.formats or not len(texts):
            return
        compute = arrow("compute")
        for written in self.formats:
            times = compute.strptime(texts, format=written, unit="s", error_is_null=True)
            if times.null_count:
                self.formats = tuple(each for each in self.formats if each != written)
            else:
                self._see_ends(compute.year(times))

    @property
    def n_different(self) -> int:
        """Different values that were seen; as many as records where they were too many."""
        return self.seen if self.values is None else len(self.values)

    @property
    def is_repeated_id(self) -> bool:
        """Whether the column looks like an ID of which some records have the same."""
        if self.values is None or not FEW < len(self.values) < self.seen:
            return False
        if self.type != "string" and not self.whole:
            return False
        return bool(ID_NAME.search(self.name)) or (
            self.type == "string" and all(ID_TEXT.fullmatch(each) for each in self.values)
        )

    @property
    def is_near_unique(self) -> bool:
        """Whether nearly every record has a value of its own."""
        return self.seen >= MIN_FOR_AN_ID and self.n_different >= NEARLY * self.seen

    def proposed(self) -> Column:
        """Propose what may be public about the column, and say why."""
        kind = arrow_kind(self.type)
        marked = self.missing > 0
        if self.type == "string" and self.formats and self.seen:
            return self._proposed_date("timestamp[s]", self.formats[0])
        if self.type.startswith(("date", "timestamp")) and self.seen:
            return self._proposed_date(self.type, "")
        if kind == "b":
            return Column(self.name, self.type, 0, 1, missing=marked)
        if kind and not (self.whole and kind != "f" and self.is_near_unique):
            return self._proposed_number(kind)
        is_short = self.values is not None and 0 < len(self.values) <= MAX_CATEGORIES
        if self.type == "string" and is_short and self._meant_as() is None:
            listed = tuple(sorted(self.values or ()))
            return Column(self.name, self.type, categories=listed, missing=marked, note=PROPOSED)
        return Column(self.name, self.type, left_out=True, note=f"Left out: {self._why_not()}.")

    def _why_not(self) -> str:
        if not self.seen:
            return "the column is empty"
        meant = self._meant_as()
        if meant is not None:
            return meant
        if self.is_near_unique:
            return "nearly every record has a value of its own, as an ID has"
        if self.type == "string":
            return (
                f"more than {MAX_CATEGORIES} different texts; names and free text are not features"
            )
        return f"values of type {self.type} are neither numbers nor texts"

    def _meant_as(self) -> str | None:
        """Return how texts that are meant as numbers or dates should be written."""
        if self.type != "string" or not self.values:
            return None
        texts = [str(value).strip() for value in self.values]
        if len(texts) > FEW and all(map(NUMBER_TEXT.fullmatch, texts)):
            if any("." in text for text in texts) and any("," in text for text in texts):
                return "numbers with decimal points and with decimal commas; write them in one way"
        elif sum(bool(DATE_TEXT.fullmatch(text)) for text in texts) > MOSTLY * len(texts):
            return "looks like dates that are not all written in one way; write them as YYYY-MM-DD"
        return None

    def _proposed_date(self, declared: str, written: str) -> Column:
        first, last = (min(max(year, 1), 9998) for year in (self.lowest, self.highest))
        note = f"{PROPOSED}; a whole date can say who somebody is, so parts of it are used"
        ends = f"{first:04}-01-01", f"{last + 1:04}-01-01"
        parts = ("year", "month", "weekday")
        is_marked = self.missing > 0
        return Column(
            self.name, declared, *ends, note=note, missing=is_marked, parts=parts, format=written
        )

    def _proposed_number(self, kind: str) -> Column:
        lower, upper = rounded_outwards(*self._ends())
        if kind in "iu":
            lower, upper = math.floor(lower), math.ceil(upper)
        note, has_tail = PROPOSED, self._has_long_tail()
        if has_tail:
            note += "; long tail, so its logarithm is used"
            lower = max(lower, 0)
        elif self.whole and self.values and 2 < len(self.values) <= FEW:
            listed = ", ".join(f"{value:g}" for value in sorted(self.values))
            note += f"; if {listed} are codes, list them as categories instead of a range"
        marked = self.missing > 0
        return Column(self.name, self.type, lower, upper, note=note, log=has_tail, missing=marked)

    def _ends(self) -> tuple[float, float]:
        return (math.inf, -math.inf) if self.lowest is None else (self.lowest, self.highest)

    def _has_long_tail(self) -> bool:
        """Whether the largest number is many times the middle one, and none is negative."""
        if not self.sample or self.lowest is None or self.lowest < 0:
            return False
        middle = float(np.median([each for each in self.sample if each > 0] or [self.highest]))
        return bool(self.highest > LONG_TAIL * middle)

    def proposed_target(self) -> Target:
        """Propose the set of labels, or the range of a target that is continuous."""
        kind = arrow_kind(self.type)
        if is_date(self.type):
            raise InvalidInputError(f"The target {self.name!r} is a date, not a label.")
        if not (kind or self.type == "string"):
            what = f"has values of type {self.type}, which are not labels"
            told = what if self.seen else "is empty: no record has a label"
            raise InvalidInputError(f"The target {self.name!r} {told}.")
        if kind in tuple("iuf") and (not self.whole or self.n_different > FEW_LABELS):
            lower, upper = rounded_outwards(*self._ends())
            note = f"{PROPOSED}; many different numbers, so they are predicted as a number"
            return Target(self.name, self.type, note=note, lower=lower, upper=upper)
        if self.values is None or len(self.values) > MAX_LABELS:
            raise InvalidInputError(
                f"The target {self.name!r} has more than {MAX_LABELS} different values; a "
                "classifier needs a column of labels."
            )
        if len(self.values) < 2:
            raise InvalidInputError(
                f"The target {self.name!r} has fewer than two different labels in this table; a "
                "classifier needs at least two."
            )
        typed = {int(v) for v in self.values} if kind in tuple("iu") else self.values
        return Target(self.name, self.type, tuple(sorted(typed)), note=PROPOSED)


@dataclass(frozen=True)
class Description:
    """A table as its owner sees it: number of rows, columns as seen, bounds as proposed."""

    n_rows: int
    columns: tuple[ColumnSummary, ...]
    bounds: TableBounds


def describe_table(source: TableFile, target: str | None = None) -> Description:
    """Go once over a table and propose its bounds."""
    if target is not None:
        source.require([target])
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
    columns = tuple(
        each.proposed() for name, each in seen.items() if name != target and name not in ids[:1]
    )
    labels = None if target is None else seen[target].proposed_target()
    bounds = TableBounds(
        columns,
        labels,
        text=text,
        person=ids[0] if ids else None,
        person_rows=PERSON_ROWS if ids else None,
        looks_like_ids=ids,
    )
    return Description(n_rows, tuple(seen.values()), bounds)


def rounded_outwards(lowest: float, highest: float) -> tuple[float, float]:
    """Return round numbers around a range; from 0 where the range comes near it.

    >>> rounded_outwards(6.981, 28.11), rounded_outwards(1990, 2024), rounded_outwards(3, 3)
    ((0.0, 30.0), (1990.0, 2030.0), (2.0, 4.0))
    """
    if lowest > highest:  # not one number was seen
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
