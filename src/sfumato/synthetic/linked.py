"""Two tables with one key, people and their events, fabricated together.

A person with all events becomes one record of one table: what is known about the person, how many
events there are (up to a public number), the first event, and one further event. So an ordinary
`Fabricator` protects the whole person, and after it everything is free: fabricated people get as
many events as their number says, the further ones drawn anew given the person.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from sfumato.exceptions import InvalidInputError
from sfumato.sums.persons import id_cells, person_codes, person_digests
from sfumato.synthetic.fabricator import Fabricator, with_column
from sfumato.tables.cells import columns_of, library_of
from sfumato.tables.encoder import TableEncoder
from sfumato.tables.schema import Column, TableBounds

COUNT, FIRST, FURTHER = "events", "first.", "further."
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
    Released : nothing here; `joined` is a map of each person on their own, `split` reads released
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
    ...     epsilon=3.0, unit="person", bounds=linked.bounds, random_state=0)
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
                    f"The column {feature.source!r}: in linked tables, only the part 'time' of a "
                    "date can be used."
                )
            if feature.source == self.key:
                raise InvalidInputError(
                    f"The key {self.key!r} is generated: leave it out of the bounds."
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
        starts = (FIRST, FURTHER)[: 1 + (self.most_events > 1)]
        for start in starts:
            for column in self.events.used:
                columns[start + column.name] = {**column.to_record(), "missing": True}
        known = {name: Column.from_record(name, each) for name, each in columns.items()}
        n_columns = len(self.people.used) + 1 + len(starts) * len(self.events.used)
        if len(known) != n_columns or self.key in known:
            raise InvalidInputError(
                f"{COUNT!r} or a column of events is also the key or a column of people: rename it."
            )
        about = {"person": self.key, "person_rows": 1, "per_person": "average"}
        usual = {k: v for k, v in record.items() if k not in (*about, "one_row_per_person")}
        return TableBounds.from_record({**usual, **about, "columns": columns})

    def joined(self, people: Any, events: Any) -> Any:
        """Return one record per person; each depends on that person and the person's events alone.

        Parameters
        ----------
        people, events : table
            Tables of pandas, polars or Arrow, both with the key. Of several rows of one person the
            first is taken; events without a person in `people` are not read.

        Returns
        -------
        table
            As `bounds` describes it, and a new key, by which unit "person" knows a person.
        """
        mine_keys, event_keys = (columns_of(t, [self.key])[self.key] for t in (people, events))
        known, happened = self.people.cells(people), self.events.cells(events)
        n_people = len(mine_keys)
        joint = np.empty(n_people + len(event_keys), dtype=object)
        joint[:n_people], joint[n_people:] = id_cells(mine_keys), id_cells(event_keys)
        codes = person_codes(joint)
        # Who has no key is a person of that one row, and has no events.
        own = np.where(codes < 0, codes.max(initial=0) + 1 + np.arange(len(codes)), codes)
        place = np.sort(np.unique(own[:n_people], return_index=True)[1])  # first rows of persons
        # Events of each person in order, as far as they are read
        stamp = np.zeros(len(event_keys))
        if self.order is not None:
            stamp = np.nan_to_num(happened[:, self._order_place], nan=np.inf)
        rows = np.lexsort((np.arange(len(event_keys)), stamp, own[n_people:]))
        ordered = own[n_people:][rows]
        starts, ends = (np.searchsorted(ordered, own[place], side) for side in ("left", "right"))
        read = [rows[a : min(b, a + self.most_events)] for a, b in zip(starts, ends, strict=True)]
        padded = np.concatenate([happened, np.full((1, happened.shape[1]), np.nan)])
        counts = np.array([len(each) for each in read], dtype=np.float64)
        parts = [known[place], counts[:, None]]
        parts.append(padded[[each[0] if len(each) else -1 for each in read]])
        if self.most_events > 1:  # [V1] by key and events alone
            words = person_digests(mine_keys)[place].view(np.uint64).reshape(-1, 2)
            mixed = words[:, 0] ^ words[:, 1]
            with np.errstate(over="ignore"):  # neighbouring numbers shall not choose alike
                mixed = (mixed ^ (mixed >> np.uint64(31))) * np.uint64(0x9E3779B97F4A7C15)
            further = [
                each[1 + (int(word) >> 33) % (len(each) - 1)] if len(each) > 1 else -1
                for each, word in zip(read, mixed, strict=True)
            ]
            parts.append(padded[further])
        encoder = TableEncoder(self.bounds)
        table = encoder.from_cells(np.column_stack(parts), library=library_of(people))
        # Records are numbered: their persons are all different; None for who has no key.
        is_given = person_codes(mine_keys)[place] >= 0
        keys = [str(n) if given else None for n, given in enumerate(is_given)]
        table = with_column(table, self.key, np.array(keys, dtype=object))
        labels = self.people.target_of(people)
        if self.people.target is None or labels is None:
            return table
        return with_column(table, self.people.target.name, labels[place])

    @property
    def _order_place(self) -> int:
        return [feature.source for feature in self.events.features].index(str(self.order))

    def split(self, fabricator: Fabricator, n_people: int | None = None) -> tuple[Any, Any]:
        """Fabricate people and their events; costs no further budget.

        Parameters
        ----------
        fabricator : Fabricator
            Fitted to a joined table.
        n_people : int, optional
            People to make; by default as many as were seen, or released.

        Returns
        -------
        people : table
            Of the library that was given, with new keys 1, 2, ...
        events : table
            Likewise, with the keys of the people.
        """
        law = fabricator.released_law()
        if fabricator.bounds != self.bounds:
            raise InvalidInputError("The fabricator was not fitted to these linked tables.")
        generator = check_random_state(fabricator.random_state)
        cells, classes, gaussians = law.draw(n_people or law.n_rows, generator)
        n_known, width = len(self.people.features), len(self.events.features)
        made = law.values(cells, gaussians, generator)
        count, known = made[:, n_known].astype(np.intp), made[:, :n_known]
        parts, owners = [], []
        for event in range(1, self.most_events + 1):
            (who,) = np.nonzero(count >= event)
            start = n_known + 1 + (event > 1) * width
            columns = list(range(start, start + width))
            last = np.array([law.cells.sizes[column] - 1 for column in columns])
            gone = cells[who][:, columns] == last
            if event > 2:  # a new one given the person
                law.redraw(cells, gaussians, columns, who, generator)
            for k, (column, feature) in enumerate(zip(columns, self.events.features, strict=True)):
                if not feature.missing:  # an event that is there has all its values
                    law.redraw(cells, gaussians, [column], who[gone[:, k]], generator)
                elif event > 2:
                    cells[who[gone[:, k]], column] = last[k]
            parts.append(law.values(cells[who], gaussians[who], generator)[:, columns])
            owners.append(who)
        # Events of each person together, the first one first, none before it
        rows, whose = np.concatenate(parts), np.concatenate(owners)
        later, stamp = np.ones(len(whose)), np.arange(len(whose)).astype(np.float64)
        starts = np.unique(whose, return_index=True)[1]  # rows of first events come first
        later[starts] = 0.0
        if self.order is not None:
            place = self._order_place
            begin = np.zeros(whose.max(initial=-1) + 1)
            begin[whose[starts]] = rows[starts, place]
            away = np.abs(rows[:, place] - begin[whose])
            upper = self.events.features[place].range[1]
            stamp = rows[:, place] = np.minimum(begin[whose] + away, upper)
        order = np.lexsort((stamp, later, whose))
        library = fabricator.library_
        people = TableEncoder(self.people).from_cells(known, library=library)
        events = TableEncoder(self.events).from_cells(rows[order], library=library)
        if self.people.target is not None:
            target = self.people.target
            found = made[:, -1] if target.labels is None else fabricator.classes_[classes]
            people = with_column(people, target.name, found, target.type, None)
        people = with_column(people, self.key, np.arange(1, len(known) + 1))
        return people, with_column(events, self.key, whose[order] + 1)
