"""Records that are read again on every pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from sfumato.core.arrays import Array
from sfumato.exceptions import InvalidInputError
from sfumato.privacy.guarantee import Relation
from sfumato.sums.identities import person_digests
from sfumato.sums.persons import (
    PersonUnit,
    UnsortedPersons,
    group_rows,
    numbered,
    scattered_batches,
)
from sfumato.sums.records import ArrayRecords, Block, Records, cached_rows

Batch = tuple[Any, ...]  # rows and classes, and IDs where the unit is a person


class BatchRecords(Records):
    """Records that are read again on every pass, from a file larger than memory, say.

    Parameters
    ----------
    read : callable
        Starts a pass over the same records and gives batches of rows and codes, and of IDs where
        persons are the unit.
    width : int
        Numbers of a row.
    relation : {"replace_one", "add_or_remove_one"}
        Which data sets count as neighbours.
    n_rows : int, optional
        The number of records, needed where it is public; a pass that finds another is refused.
    person : PersonUnit, optional
        How many rows a person has and how they are added up. One pass more is made at once, which
        finds the rows that are kept: about 64 bytes per row while it lasts, 1 or 2 afterwards.
    content : callable, optional
        The public map of rows by whose result rows of a person are chosen; by default as read.
    """

    def __init__(
        self,
        read: Callable[[], Iterator[Batch]],
        *,
        width: int,
        relation: str | Relation,
        n_rows: int | None = None,
        person: PersonUnit | None = None,
        content: Callable[[Array], Array] | None = None,
    ) -> None:
        self._read = read
        self._persons = None if person is None else scattered_batches(read(), person, content)
        number = n_rows if self._persons is None else self._persons.n_persons
        super().__init__(width, relation, number, person)

    @property
    def _persons_in_order(self) -> UnsortedPersons | None:
        return self._persons

    def group_by_person(self) -> Records:
        """Read the rows that are kept into memory: ``8 width`` bytes and 40 more per row."""
        if self._persons is None:
            return self
        rows, digests = [np.empty((0, self.width))], [np.empty(0, dtype="V16")]
        numbers = [np.empty(0, dtype=np.intp)]
        place = 0
        for batch, codes, groups in self._read():
            is_kept = self._persons.sizes[place : place + len(codes)] > 0
            place += len(codes)
            rows.append(np.asarray(batch[: len(is_kept)][is_kept], dtype=np.float64))
            numbers.append(codes[: len(is_kept)][is_kept])
            digests.append(person_digests(groups)[: len(is_kept)][is_kept])
        self._check_place(place)
        found = replace(self._persons, sizes=self._persons.sizes[self._persons.sizes > 0])
        return ArrayRecords(
            np.concatenate(rows),
            np.concatenate(numbers),
            relation=self.relation,
            persons=group_rows(numbered(np.concatenate(digests)), found),
        )

    def _check_place(self, place: int) -> None:
        if self._persons is not None and place != len(self._persons.sizes):
            raise InvalidInputError("The number of records changed while they were read.")

    def _blocks(self) -> Iterator[Block]:
        step, place = cached_rows(self.width), 0
        for rows, codes, *_ in self._read():
            for start in range(0, len(rows), step):
                part = slice(start, start + step)
                if self._persons is None:
                    yield rows[part], codes[part], 1
                    continue
                among_all = slice(place, place + len(codes[part]))
                place = among_all.stop
                if place <= len(self._persons.sizes):
                    yield rows[part], codes[part], self._persons.sizes[among_all]
        self._check_place(place)
