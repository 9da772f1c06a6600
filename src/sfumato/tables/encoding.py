r"""Rows of a table as numbers of a public scale.

A number becomes ``(x - middle) / width`` of its public range, in [-1/2, 1/2], and a missing one 0.
A category becomes ``1/√2`` at its place among the categories and 0 else, so that two different
categories lie as far apart as the two ends of a range. Every row of `a` numbers and `b` categories
then has a length of at most ``√(a/4 + b/2)``. Each row is encoded by itself: this costs no budget.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.bounds import Bounds
from sfumato.exceptions import InvalidInputError
from sfumato.tables.form import TableForm

__all__ = ["TableEncoding"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class TableEncoding:
    """The way from rows of a table to numbers.

    Parameters
    ----------
    form : TableForm
        Columns, types and categories.
    lower, upper : tuple of float
        The public range of each column of numbers, in their order.
    """

    form: TableForm
    lower: tuple[float, ...]
    upper: tuple[float, ...]

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> TableEncoding:
        """Rebuild an encoding from `to_dict`."""
        form = TableForm.from_dict(record["form"])
        return cls(form, tuple(record["lower"]), tuple(record["upper"]))

    def to_dict(self) -> dict[str, Any]:
        """Give the encoding as plain values."""
        return {"form": self.form.to_dict(), "lower": self.lower, "upper": self.upper}

    @property
    def n_numbers(self) -> int:
        """Numbers of an encoded row."""
        return self.form.n_numbers

    @property
    def norm(self) -> float:
        """Greatest length of an encoded row."""
        n_categories = len(self.form.categories)
        # A hair longer, since the entries are rounded.
        return math.sqrt(len(self.lower) / 4 + n_categories / 2) * (1 + 2.0**-40)

    def bounds(self, labels: Any = None, unit: str = "record") -> Bounds:
        """Give the bounds of encoded rows; only a box where single entries are protected."""
        if unit == "entry":
            if self.form.categories:
                raise InvalidInputError(
                    "Unit 'entry' cannot protect a category, which is several numbers of a row. "
                    "Leave such columns out, or use unit 'record'."
                )
            return Bounds(lower=-0.5, upper=0.5, labels=labels)
        middle, width = self._scale()
        box = self._box()
        lower, upper = (tuple(((corner - middle) / width).tolist()) for corner in box)
        return Bounds(norm=self.norm, lower=lower, upper=upper, labels=labels)

    def encode(self, table: Any) -> Array:
        """Give the rows of a table as numbers inside the bounds."""
        middle, width = self._scale()
        rows = self.form.encode(table)
        lower, upper = self._box()
        np.copyto(rows, np.broadcast_to(middle, rows.shape), where=np.isnan(rows))
        np.clip(rows, lower, upper, out=rows)
        rows -= middle
        rows /= width
        return rows

    def numbers(self, table: Any) -> Array:
        """Give the rows as numbers inside the bounds, in the units of the table."""
        middle, width = self._scale()
        return self.encode(table) * width + middle

    def decode(self, rows: Array) -> Any:
        """Give numbers of the public scale as a table again."""
        middle, width = self._scale()
        return self.form.decode(rows * width + middle)

    def _box(self) -> tuple[Array, Array]:
        """Corners of the rows before scaling; categories have 0 and 1."""
        numbers = iter(zip(self.lower, self.upper, strict=True))
        corners = [
            corner
            for name, kind in zip(self.form.columns, self.form.kinds, strict=True)
            for corner in (
                [(0.0, 1.0)] * len(self.form.categories[name]) if kind == "c" else [next(numbers)]
            )
        ]
        lower, upper = np.array(corners).T
        return lower, upper

    def _scale(self) -> tuple[Array, Array]:
        """Middle and width of every number of a row."""
        lower, upper = self._box()
        is_category = self.form.is_category
        middle = np.where(is_category, 0.0, lower / 2 + upper / 2)
        return middle, np.where(is_category, math.sqrt(2), upper - lower)
