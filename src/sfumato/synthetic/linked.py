"""Two tables with one key, people and their events, fabricated together.

A person with all events becomes one record of one table: what is known about the person, how many
events there are (up to a public number), the first event, and one further event. So an ordinary
`Fabricator` protects the whole person, and after it everything is free: fabricated people get as
many events as their number says, the further ones drawn anew given the person.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from sfumato.exceptions import InvalidInputError
from sfumato.sums.identities import id_cells, person_codes, person_digests
from sfumato.tables.cells import columns_of, library_of
from sfumato.tables.encoder import TableEncoder
from sfumato.tables.schema import Column, TableBounds

if TYPE_CHECKING:
    from sfumato.synthetic.fabricator import Fabricator

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

COUNT, FIRST, FURTHER = "events", "first.", "further."
SWEEPS = 3  # over the columns of a further event, before it counts as a new one
MAX_EVENTS = 31


@dataclass(frozen=True)
class LinkedTables:
    """Turn two tables with one key into one table with one record per person, and back.

    Parameters
    ----------
    people, events : TableBounds
        Public facts about both tables; a target may be declared for the people.
    key : str
        The column of both tables that names the person; it is not a column of the bounds.
    most_events : int
        Public: a person's further events are not read. At most 31.
    order : str, optional
        A column of numbers or dates of the events by which those of a person are ordered; by
        default they are taken as they stand in the table.

    Privacy
    -------
    Unit and relation : one record of `joined` is a person with all events. A `Fabricator` with
        unit "person" says so in its guarantee and ledger, and drops who has no key; with unit
        "record" it says "record", which is a person here. Both relations.
    Released : nothing here; `joined` is a map of each person by itself, `split` reads released
        numbers only.
    Sensitivity : that of one record, whatever the number of events.
    Guarantee : that of the `Fabricator`.
    Assumptions and numerics : bounds, `most_events` and `order` are public. The further event is
        chosen by the person's key. Proof: docs/guarantees/linked-tables.md.

    Examples
    --------
    >>> import pandas as pd
    >>> from sfumato import Fabricator, LinkedTables, TableBounds
    >>> people = pd.DataFrame({"id": range(200), "age": [30, 70] * 100})
    >>> visits = pd.DataFrame({"id": [k // 2 for k in range(400)], "kind": ["old", "new"] * 200})
    >>> linked = LinkedTables(
    ...     TableBounds.from_dict({"age": (0, 100)}),
    ...     TableBounds.from_dict({"kind": ["old", "new"]}), key="id", most_events=4)
    >>> model = Fabricator(
    ...     epsilon=3.0, unit="person", bounds=linked.bounds, method="tree", random_state=0)
    >>> made, events = linked.split(model.fit(linked.joined(people, visits)))
    >>> len(made), set(events["id"]) <= set(made["id"])
    (200, True)
    """

    people: TableBounds
    events: TableBounds
    key: str
    most_events: int
    order: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.most_events, int) or not 1 <= self.most_events <= MAX_EVENTS:
            raise InvalidInputError(
                f"'most_events' must be a whole number from 1 to {MAX_EVENTS}. "
                f"Got {self.most_events!r}."
            )
        if self.events.target is not None:
            raise InvalidInputError("The events have no target; only people may have one.")
        for feature in (*self.people.features, *self.events.features):
            if feature.part not in ("", "time"):
                raise InvalidInputError(
                    f"The column {feature.source!r}: of dates in linked tables only the part "
                    "'time' can be used."
                )
            if feature.source == self.key:
                raise InvalidInputError(
                    f"The key {self.key!r} is made new: leave it out of the bounds."
                )
        if self.order is not None:
            found = {f.source: f.is_number for f in self.events.features}
            if not found.get(self.order, False):
                raise InvalidInputError(
                    f"'order' must name a column of numbers or dates of the events. "
                    f"Got {self.order!r}."
                )

    @cached_property
    def bounds(self) -> TableBounds:
        """The bounds of the joined table, for a `Fabricator`."""
        record = self.people.to_record()
        columns: dict[str, Any] = {c.name: c.to_record() for c in self.people.used}
        columns[COUNT] = {"type": "int64", "lower": 0, "upper": self.most_events}
        for start in self._starts:
            for column in self.events.used:
                columns[start + column.name] = {**column.to_record(), "missing": True}
        known = {name: Column.from_record(name, each) for name, each in columns.items()}
        n_columns = len(self.people.used) + 1 + len(self._starts) * len(self.events.used)
        if len(known) != n_columns or self.key in known:
            raise InvalidInputError(
                f"A column of people, or the key, is called {COUNT!r} or as one of events."
            )
        about = {"person": self.key, "person_rows": 1, "per_person": "average"}
        usual = {k: v for k, v in record.items() if k not in (*about, "one_row_per_person")}
        return TableBounds.from_record({**usual, **about, "columns": columns})

    @property
    def _starts(self) -> tuple[str, ...]:
        return (FIRST, FURTHER) if self.most_events > 1 else (FIRST,)

    def joined(self, people: Any, events: Any) -> Any:
        """Return one record per person; each depends on that person and the person's events alone.

        Parameters
        ----------
        people, events : table
            Tables of pandas, polars or Arrow, both with the key. Of several rows of one person the
            first is taken; events of nobody in `people` are not read.

        Returns
        -------
        table
            As `bounds` describes it, and a new key, by which unit "person" knows a person.
        """
        keys = [columns_of(table, [self.key])[self.key] for table in (people, events)]
        known = self.people.cells(people)
        happened = self.events.cells(events)
        place, mine = _people_of(keys[0], keys[1], happened, self._order_place)
        count = np.minimum([len(each) for each in mine], self.most_events).astype(np.float64)
        words = person_digests(keys[0])[place].view(np.uint64).reshape(-1, 2)
        chosen = words[:, 0] ^ words[:, 1]
        parts = [known[place], count[:, None]]
        nothing = np.full((1, happened.shape[1]), np.nan)
        padded = np.concatenate([happened, nothing])
        parts.append(padded[[each[0] if len(each) else -1 for each in mine]])
        if self.most_events > 1:
            read = [each[: self.most_events] for each in mine]  # [V1] by key and events alone
            further = [
                each[1 + word % (len(each) - 1)] if len(each) > 1 else -1
                for each, word in zip(read, _mixed(chosen), strict=True)
            ]
            parts.append(padded[further])
        encoder = TableEncoder(self.bounds)
        table = encoder.from_cells(np.column_stack(parts), library=library_of(people))
        table = _with_column(table, self.key, _new_keys(keys[0], place))
        return self._with_target(table, people, place)

    def _with_target(self, table: Any, people: Any, place: Codes) -> Any:
        labels = self.people.target_of(people)
        target = self.people.target
        if target is None or labels is None:
            return table
        return _with_column(table, target.name, labels[place])

    @property
    def _order_place(self) -> int | None:
        names = [feature.source for feature in self.events.features]
        return None if self.order is None else names.index(self.order)

    def split(self, fabricator: Fabricator, n_people: int | None = None) -> tuple[Any, Any]:
        """Fabricate people and their events; costs no further budget.

        Parameters
        ----------
        fabricator : Fabricator
            Fitted to a joined table with the method "tree".
        n_people : int, optional
            People to make; by default as many as were seen, or released.

        Returns
        -------
        people : table
            Of the library that was given, with new keys 1, 2, ...
        events : table
            Likewise, with the keys of the people.
        """
        table, tree = fabricator.released_tree()
        if table.bounds != self.bounds:
            raise InvalidInputError("The fabricator was not fitted to these linked tables.")
        generator = check_random_state(fabricator.random_state)
        numbers, classes = tree.draw(n_people or tree.n_rows, generator)
        n_known, width = len(self.people.features), len(self.events.features)
        count = table.values(tree, numbers, generator)[:, n_known].astype(np.intp)
        rows, owners = [], []
        for event in range(1, self.most_events + 1):
            (who,) = np.nonzero(count >= event)
            start = n_known + 1 + (event > 1) * width
            columns = range(start, start + width)
            for _ in range(SWEEPS if event > 1 else 1):
                for column, feature in zip(columns, self.events.features, strict=True):
                    if event > 2 or not feature.missing:
                        keep = feature.missing
                        tree.redraw(numbers, classes, column, who, generator, keep_last=keep)
            rows.append(table.values(tree, numbers[who], generator)[:, start : start + width])
            owners.append(who)
        known = table.values(tree, numbers, generator)[:, :n_known]
        happened, whose = self._in_order(np.concatenate(rows), np.concatenate(owners))
        library = fabricator.library_ or "pyarrow"
        people = TableEncoder(self.people).from_cells(known, library=library)
        events = TableEncoder(self.events).from_cells(happened, library=library)
        people = _with_column(people, self.key, np.arange(1, len(known) + 1))
        if self.people.target is not None:
            people = _with_column(people, self.people.target.name, fabricator.classes_[classes])
        return people, _with_column(events, self.key, whose + 1)

    def _in_order(self, rows: Array, owners: Codes) -> tuple[Array, Codes]:
        """Put the events of each person together, the first one first, none before it."""
        later = np.ones(len(owners))
        _, starts = np.unique(owners, return_index=True)  # rows of first events come first
        later[starts] = 0.0
        place, stamp = self._order_place, np.arange(len(owners)).astype(np.float64)
        if place is not None:
            begin = np.zeros(owners.max(initial=-1) + 1)
            begin[owners[starts]] = rows[starts, place]
            upper = self.events.features[place].range[1]
            away = np.abs(rows[:, place] - begin[owners])
            stamp = rows[:, place] = np.minimum(begin[owners] + away, upper)
        order = np.lexsort((stamp, later, owners))
        return rows[order], owners[order]


def _people_of(
    people: Any, events: Any, happened: Array, order: int | None
) -> tuple[Codes, list[Codes]]:
    """Return the first row of each person, and the places of that person's events in order."""
    n_people = len(people)
    joint = np.empty(n_people + len(events), dtype=object)
    joint[:n_people], joint[n_people:] = id_cells(people), id_cells(events)
    codes = person_codes(joint)
    # Who has no key is a person of that one row, and has no events.
    own = np.where(codes < 0, codes.max(initial=0) + 1 + np.arange(len(codes)), codes)
    _, place = np.unique(own[:n_people], return_index=True)
    place = np.sort(place)
    stamp = np.zeros(len(events)) if order is None else happened[:, order]
    rows = np.lexsort((np.arange(len(events)), np.nan_to_num(stamp, nan=np.inf), own[n_people:]))
    ordered = own[n_people:][rows]
    starts = np.searchsorted(ordered, own[place], side="left")
    ends = np.searchsorted(ordered, own[place], side="right")
    return place, [rows[a:b] for a, b in zip(starts, ends, strict=True)]


def _mixed(words: NDArray[np.uint64]) -> list[int]:
    """Spread the bits of keys: neighbouring numbers shall not choose alike."""
    with np.errstate(over="ignore"):
        spread = (words ^ (words >> np.uint64(31))) * np.uint64(0x9E3779B97F4A7C15)
    return [int(word) >> 33 for word in spread]


def _new_keys(keys: Any, place: Codes) -> NDArray[Any]:
    """Number the records, whose persons are all different; None for who has no key."""
    is_given = person_codes(keys)[place] >= 0
    return np.array([str(n) if given else None for n, given in enumerate(is_given)], dtype=object)


def _with_column(table: Any, name: str, values: NDArray[Any]) -> Any:
    """Put a column in front."""
    listed = values.tolist()
    library = library_of(table)
    if library == "pandas":
        table.insert(0, name, listed)
        return table
    if library == "polars":
        import polars

        return table.insert_column(0, polars.Series(name, listed))
    import pyarrow

    return table.add_column(0, name, pyarrow.array(listed))
