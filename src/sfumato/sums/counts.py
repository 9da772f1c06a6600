"""Tables of counts by class and combination of cells."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.core.arrays import Array, to_numpy
from sfumato.privacy.guarantee import Relation
from sfumato.sums.statistics import Codes, Statistic


@dataclass(frozen=True)
class CountTables(Statistic):
    """``sum e_{t, cell}``: for each table t, the counts of the cells of some columns by class.

    A row holds the number of its cell in each column. It adds 1 to one cell of each of T tables:
    √T in the Euclidean norm and T in the sum of magnitudes. Replacing it takes as much from
    other cells at most: √(2T) and 2T. Counts are whole numbers, so they are exact as doubles.

    Parameters
    ----------
    sizes : tuple of int
        Cells of each column.
    tables : tuple of tuple of int
        Columns of each table; the class is the last axis of all of them.
    n_classes : int, default=1
        Classes.
    """

    sizes: tuple[int, ...]
    tables: tuple[tuple[int, ...], ...]
    n_classes: int = 1
    in_ball = 0  # whatever a row holds, it is counted once in each table

    @property
    def shape(self) -> tuple[int, ...]:
        """All cells of all tables, one after the other."""
        return (sum(map(math.prod, self.table_shapes)),)

    @property
    def table_shapes(self) -> list[tuple[int, ...]]:
        """Shape of each table: the cells of its columns, and the classes."""
        return [(*(self.sizes[column] for column in t), self.n_classes) for t in self.tables]

    def add_up(self, rows: Array, codes: Codes) -> NDArray[np.float64]:
        """Count the records of each cell of each table."""
        inside = np.clip(np.nan_to_num(to_numpy(rows)), 0, np.array(self.sizes) - 1)
        cells = inside.astype(np.intp).T
        classes = np.clip(codes, 0, self.n_classes - 1)
        parts = []
        for table, shape in zip(self.tables, self.table_shapes, strict=True):
            place = np.zeros(len(classes), dtype=np.intp)
            for column in table:
                place = place * self.sizes[column] + cells[column]
            place = place * self.n_classes + classes
            parts.append(np.bincount(place, minlength=math.prod(shape)))
        return np.concatenate(parts).astype(np.float64)

    def split(self, sums: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        """Return released sums as tables.

        Parameters
        ----------
        sums : ndarray
            What was released, in the shape of the statistic.

        Returns
        -------
        list of ndarray
            One array per table, its class the last axis.
        """
        shapes: Sequence[tuple[int, ...]] = self.table_shapes
        ends = np.cumsum([math.prod(shape) for shape in shapes])[:-1]
        return [
            part.reshape(shape) for part, shape in zip(np.split(sums, ends), shapes, strict=True)
        ]

    def term_sensitivity(self, relation: Relation) -> float:
        """√(2T) (replace) or √T (add or remove)."""
        return math.sqrt(self.term_total(relation))

    def term_total(self, relation: Relation) -> float:
        """2T (replace) or T (add or remove)."""
        return len(self.tables) * (2.0 if relation is Relation.REPLACE_ONE else 1.0)

    def sensitivity(self, relation: str | Relation, max_rows: int, norm: int | str = 2) -> float:
        """Return the distance of neighbours; one part is one table, which moves by 2 or 1.

        relation ({"replace_one", "add_or_remove_one"}): The neighbours.
        max_rows: The public number of records, or a public bound on it.
        norm ({1, 2, "part"}): The sum of magnitudes, the Euclidean norm, or the sum over one table.
        """
        if norm == "part":
            return self.term_total(Relation(relation)) / len(self.tables)
        return super().sensitivity(relation, max_rows, norm)

    def touched(self, n_rows: int, *, part: bool = False) -> int:
        """One cell of each table per record; one part is one table."""
        return n_rows * (1 if part else len(self.tables))

    def rounding(self, max_rows: int) -> float:  # noqa: ARG002 - whatever their number
        """Whole numbers below 2⁵³ are doubles."""
        return 0.0
