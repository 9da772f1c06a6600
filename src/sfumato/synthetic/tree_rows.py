"""Rows of a table from a released label tree: values inside cells, conditions, constraints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.exceptions import InvalidInputError
from sfumato.synthetic.constraints import Constraint, parsed, repaired
from sfumato.synthetic.table_cells import ColumnCells, TableCells, public_columns
from sfumato.synthetic.tree_masses import LabelTree, ReleasedTree
from sfumato.tables.encoder import TableEncoder
from sfumato.tables.schema import TableBounds

Array = NDArray[np.float64]
Codes = NDArray[np.intp]


@dataclass(frozen=True)
class DeclaredTable:
    """What is public about a table that is fabricated by a label tree.

    bounds: The public facts.
    columns: Cells of the columns.
    constraints: What fabricated rows must meet.
    """

    bounds: TableBounds
    columns: tuple[ColumnCells, ...]
    constraints: tuple[Constraint, ...]

    @classmethod
    def of(
        cls,
        bounds: TableBounds,
        *,
        bins: Mapping[str, Sequence[float]] | None,
        constraints: Sequence[str],
    ) -> DeclaredTable:
        """Check what is declared."""
        known = {f.name: None if f.is_number else f.categories for f in bounds.features}
        return cls(bounds, public_columns(bounds, bins), parsed(constraints, known))

    def places(self, cells: Array) -> Array:
        """Return cells as places, one number per column, each record by itself."""
        pairs = zip(self.columns, cells.T, strict=True)
        return np.column_stack([column.places(each) for column, each in pairs])

    def tree(self, released: ReleasedTree, n_classes: int) -> LabelTree:
        """Return the tree of released counts."""
        columns = self.columns_with(released.most_values)
        return LabelTree(TableCells.of(columns, released.cuts), n_classes, released)

    def columns_with(self, most_values: int) -> tuple[ColumnCells, ...]:
        """Return the cells of the columns where at most so many whole numbers have a cell each."""
        return tuple(column.with_values(most_values) for column in self.columns)

    def draw(
        self,
        tree: LabelTree,
        n_rows: int,
        generator: np.random.RandomState,
        given: Mapping[str, Any],
        given_class: int | None,
    ) -> tuple[Array, Codes]:
        """Draw cells of a table, as `TableBounds.cells` gives them, and numbers of classes."""
        wanted = self._wanted(given)
        fixed = {place: tree.cells.cell_of(place, value) for place, value in wanted.items()}
        numbers, classes = tree.draw(n_rows, generator, fixed, given_class)
        return self.values(tree, numbers, generator, wanted), classes

    def values(
        self,
        tree: LabelTree,
        numbers: Codes,
        generator: np.random.RandomState,
        wanted: Mapping[int, float] | None = None,
    ) -> Array:
        """Draw values inside cells, and repair them where constraints ask for it."""
        asked = wanted or {}
        values, gaps = {}, []
        for i, feature in enumerate(self.bounds.features):
            masses = tree.fine_margins[i].sum(axis=1)
            drawn, missing = tree.cells.draw(i, numbers[:, i], masses, generator, tree.fine)
            drawn = np.full(len(numbers), asked[i]) if i in asked else drawn
            # Constraints speak of the units of the table.
            values[feature.name] = feature.unscaled(drawn) if feature.is_number else drawn
            gaps.append(missing)
        ranges = {f.name: (f.lower, f.upper) for f in self.bounds.features}
        found = repaired(values, self.constraints, ranges)
        cells = np.column_stack(
            [
                f.scaled(np.clip(found[f.name], f.lower, f.upper)) if f.is_number else found[f.name]
                for f in self.bounds.features
            ]
        )
        return np.where(np.column_stack(gaps), np.nan, cells)

    def encoded(
        self, given: Mapping[str, Any], encoder: TableEncoder
    ) -> tuple[NDArray[np.intp], Array]:
        """Return conditions as numbers of an encoded record, and their places in it."""
        wanted = self._wanted(given)
        cells = np.full((1, len(self.bounds.features)), np.nan)
        cells[0, list(wanted)] = list(wanted.values())
        (row,) = encoder.transform(encoder.from_cells(cells))
        widths = [
            (1 if f.is_number else len(f.categories or ())) + f.missing
            for f in self.bounds.features
        ]
        owners = np.repeat(np.arange(len(widths)), widths)
        (places,) = np.nonzero(np.isin(owners, list(wanted)))
        return places, row[places]

    def _wanted(self, given: Mapping[str, Any]) -> dict[int, float]:
        """Return the cells of public values, by place of the column."""
        features = {f.name: (i, f) for i, f in enumerate(self.bounds.features)}
        found = {}
        for name, value in given.items():
            if name not in features:
                raise InvalidInputError(f"'given' names no column of the table: {name!r}.")
            place, feature = features[name]
            if feature.categories is not None:
                if value not in feature.categories:
                    raise InvalidInputError(f"{value!r} is not a category of the column {name!r}.")
                found[place] = float(feature.categories.index(value))
            elif not isinstance(value, int | float) or not feature.lower <= value <= feature.upper:
                raise InvalidInputError(f"{value!r} is outside the range of the column {name!r}.")
            else:
                found[place] = float(feature.scaled(np.array([float(value)]))[0])
        return found
