r"""One public encoding of a record: from a table, or from columns with ranges, to rows of numbers.

A number becomes ``(x - middle) / width`` of its public range, in [-1/2, 1/2]; where missing cells
are marked, it becomes 0 and a second number 1/2. A category becomes ``1/√2`` at its place among the
categories (and one more place for missing, where that is declared) and 0 else, so that two
different categories lie as far apart as the two ends of a range. Every row of `a` numbers and `b`
categories then has a length of at most ``√(a/4 + b/2)``, missing cells or not. Each record is
encoded alone: this costs no budget.
"""

from __future__ import annotations

import math
import sys
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags

from sfumato.core.constraints import Form, flag, known_bounds
from sfumato.exceptions import InvalidInputError, MissingBoundsError
from sfumato.tables.bounds import Bounds
from sfumato.tables.cells import as_rows, checked_rows, column_names, is_table
from sfumato.tables.columns import arrow, arrow_kind, type_of
from sfumato.tables.schema import Feature, TableBounds

Array = NDArray[np.float64]
MARK = 0.5  # of a missing number: as far from the middle as the ends of the range
ONE = 1 / math.sqrt(2)  # of a category
ROUNDING_MARGIN = 2.0**-40  # entries are rounded, so that a row may be this much longer


class TableEncoder(TransformerMixin, BaseEstimator):
    """Encode records as rows of numbers by public bounds alone; it learns nothing from the rows.

    Every private estimator uses this encoder on the data that it is given. Use it alone in
    pipelines, or to see what an estimator sees.

    Parameters
    ----------
    bounds : TableBounds or Bounds
        The public facts. With a `TableBounds`, tables of pandas, polars and Arrow are encoded;
        columns are found by their names, others are not read. With `Bounds` that have a range per
        column and no norm, each column is scaled to its range; with other `Bounds`, rows are
        clipped.
    scaled : bool, default=True
        Whether numbers are scaled to their ranges; False keeps the units of the table (logarithms
        where these are declared), keeps missing numbers as NaN and refuses categories without an
        order.

    Attributes
    ----------
    n_features_in_ : int
        Columns of what `fit` was given.
    feature_names_in_ : ndarray of str
        Their names, if they have some.

    Examples
    --------
    >>> import pandas as pd
    >>> from sfumato import TableBounds, TableEncoder
    >>> bounds = TableBounds.from_dict(
    ...     {"age": {"lower": 0, "upper": 100, "missing": True}, "town": ["Ghent", "Ypres"]}
    ... )
    >>> frame = pd.DataFrame({"age": [25, None], "town": ["Ypres", "Bruges"]})
    >>> TableEncoder(bounds).fit_transform(frame).round(2)
    array([[-0.25,  0.  ,  0.  ,  0.71],
           [ 0.  ,  0.5 ,  0.  ,  0.  ]])
    >>> TableEncoder(bounds).get_feature_names_out().tolist()
    ['age', 'age missing', 'town=Ghent', 'town=Ypres']
    """

    stored_form: ClassVar[Form] = {"bounds": known_bounds, "scaled": flag()}

    def __init__(self, bounds: TableBounds | Bounds | None = None, *, scaled: bool = True) -> None:
        self.bounds = bounds
        self.scaled = scaled

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.requires_fit = False
        return tags

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Check the bounds and note the names of the columns; rows are not looked at.

        Parameters
        ----------
        X : table or array-like
            Records.
        y : object, optional
            Not read.

        Returns
        -------
        Self
            The encoder.
        """
        bounds = self._checked_bounds()
        if isinstance(bounds, TableBounds) and is_table(X):
            names = column_names(X)
            self.feature_names_in_ = np.array(names, dtype=object)
            self.n_features_in_ = len(names)
        else:
            n_features = bounds.n_features if isinstance(bounds, Bounds) else self.width
            checked_rows(self, X, reset=True, n_features=n_features)
        return self

    def transform(self, X: Any) -> Array:
        """Return records as rows of numbers; no cell makes it raise.

        Parameters
        ----------
        X : table or array-like
            Records. For a `TableBounds`, an array is taken for rows that are encoded already.

        Returns
        -------
        ndarray of shape (n_records, n_numbers)
            Rows inside of `row_bounds`.
        """
        bounds = self._checked_bounds()
        if isinstance(bounds, Bounds):
            if not hasattr(self, "n_features_in_"):  # one of an estimator, which clips blocks
                return self._scaled_columns(bounds, as_rows(X, bounds.n_features))
            rows = checked_rows(self, X, reset=False, n_features=bounds.n_features)
            return self.row_bounds().clip(self._scaled_columns(bounds, rows))
        if not is_table(X):
            rows = as_rows(X, self.width)
            if rows.shape[1] != self.width:
                raise InvalidInputError(
                    f"The bounds are those of a table, whose records have {self.width} numbers; "
                    f"the array has {rows.shape[1]}. Give the table itself."
                )
            return self.row_bounds().clip(rows)
        blocks = []
        for feature, cells in zip(bounds.features, bounds.cells(X).T, strict=True):  # [Z6] alone
            is_missing = np.isnan(cells)
            if not feature.is_number:
                rows = np.zeros((len(cells), len(self._numbers(feature))))
                places = np.where(is_missing, rows.shape[1] - 1, cells).astype(np.intp)
                known = ~is_missing | feature.missing
                rows[known, places[known]] = ONE
                blocks.append(rows)
                continue
            if self.scaled:
                lower, upper = feature.range
                middle = lower / 2 + upper / 2
                numbers = (np.where(is_missing, middle, cells) - middle) / (upper - lower)
                cells = np.clip(numbers, -0.5, 0.5)  # the ends may be rounded outwards
            blocks.append(cells[:, None])
            if self.scaled and feature.missing:
                blocks.append(np.where(is_missing, MARK, 0.0)[:, None])
        return np.concatenate(blocks, axis=1)

    @property
    def width(self) -> int:
        """Numbers of an encoded record."""
        return len(self.get_feature_names_out())

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Name the numbers of an encoded record.

        Parameters
        ----------
        input_features : sequence of str, optional
            Names of the columns, for `Bounds`, which have none.

        Returns
        -------
        ndarray of str
            A column of numbers has its own name, a category "town=Ghent", a mark "age missing".
        """
        bounds = self._checked_bounds()
        if isinstance(bounds, Bounds):
            names = getattr(self, "feature_names_in_", input_features)
            if names is None:
                names = [f"x{place}" for place in range(self.n_features_in_)]
        else:
            names = [name for f in bounds.features for name, _, _ in self._numbers(f)]
        return np.array(list(names), dtype=object)

    def row_bounds(self, labels: Any = None) -> Bounds:
        """Return the bounds of encoded records.

        Parameters
        ----------
        labels : sequence or "public", optional
            The labels, where those of the bounds are not meant.

        Returns
        -------
        Bounds
            Norm, box and labels of the rows.
        """
        bounds = self._checked_bounds()
        if isinstance(bounds, Bounds):
            labels = bounds.labels if labels is None else labels
            if self.scaled and bounds.has_ranges:
                return Bounds(lower=-0.5, upper=0.5, labels=labels)
            return Bounds(bounds.norm, bounds.lower, bounds.upper, labels)
        if labels is None and bounds.target is not None:
            labels = bounds.target.labels
        numbers = [number for f in bounds.features for number in self._numbers(f)]
        _, lower, upper = zip(*numbers, strict=True)
        if not self.scaled:
            return Bounds(lower=lower, upper=upper, labels=labels)
        n_numbers = sum(feature.is_number for feature in bounds.features)
        n_categories = len(bounds.features) - n_numbers
        norm = math.sqrt(n_numbers / 4 + n_categories / 2) * (1 + ROUNDING_MARGIN)  # [Z7]
        return Bounds(norm=norm, lower=lower, upper=upper, labels=labels)

    def from_cells(self, cells: Array, *, library: str = "pyarrow") -> Any:
        """Return what `TableBounds.cells` reads as a table again.

        Parameters
        ----------
        cells : ndarray of shape (n_records, n_features)
            Numbers in public units, places of categories; NaN for missing.
        library : {"pandas", "polars", "pyarrow"}
            Whose table it becomes.

        Returns
        -------
        table
            With the declared types; parts of dates as columns of their own.
        """
        home = sys.modules.get(library)
        if home is None:
            raise InvalidInputError(f"The rows were a table of {library}: import {library} first.")
        bounds, columns, pa = self._checked_bounds(), {}, arrow()
        assert isinstance(bounds, TableBounds)  # noqa: S101 - asked of tables only
        for feature, column in zip(bounds.features, cells.T, strict=True):
            name = feature.source if feature.part == "time" else feature.name
            declared = feature.type if feature.part in ("", "time") else "int64"
            gone, kind = np.isnan(column), arrow_kind(declared)
            numbers: Any = np.where(gone, 0.0, column)
            numbers = feature.unscaled(numbers) if feature.is_number else numbers
            if feature.categories is not None:
                places = pa.array(np.rint(numbers).astype(np.intp), mask=gone)
                made = pa.array(feature.categories).take(places)
            else:
                if feature.part == "time":
                    numbers = (numbers * 86400).astype("datetime64[s]")
                elif kind in ("i", "u"):
                    limits = np.iinfo(declared)
                    # The largest double below 2**64 is not its last whole number.
                    most = np.nextafter(float(limits.max), 0) if limits.bits == 64 else limits.max
                    numbers = np.rint(np.clip(numbers, limits.min, most)).astype(limits.dtype)
                made = pa.array(numbers >= 0.5 if kind == "b" else numbers, mask=gone)
            columns[name] = made.cast(type_of(declared), safe=False)
        table = pa.table(columns)
        if library == "pandas":
            return table.to_pandas()
        return home.from_arrow(table) if library == "polars" else table

    def _numbers(self, feature: Feature) -> list[tuple[str, float, float]]:
        """Return name and range of each number that a feature becomes."""
        is_marked = feature.missing and self.scaled
        if not feature.is_number:
            values = [f"{feature.name}={value}" for value in feature.categories or ()]
            names = [*values, f"{feature.name} missing"] if is_marked else values
            return [(name, 0.0, ONE) for name in names]
        lower, upper = (-0.5, 0.5) if self.scaled else feature.range
        found = [(feature.name, lower, upper)]
        return [*found, (f"{feature.name} missing", 0.0, MARK)] if is_marked else found

    def _checked_bounds(self) -> TableBounds | Bounds:
        bounds = self.bounds
        if isinstance(bounds, Bounds):
            bounds.require_features()
            return bounds
        if not isinstance(bounds, TableBounds):
            raise MissingBoundsError(
                "Public bounds are needed and are never learned from data: "
                "TableBounds.from_dict({...}), TableBounds.read('bounds.toml') or Bounds(...)."
            )
        bounds.require_confirmed()
        for feature in bounds.features:
            if not self.scaled and not feature.is_number:
                raise InvalidInputError(
                    f"The column {feature.source!r} contains categories; columns of numbers are "
                    "needed here. Leave it out, or declare its order (ordered = true)."
                )
        return bounds

    def _scaled_columns(self, bounds: Bounds, rows: Array) -> Array:
        if not (self.scaled and bounds.has_ranges):
            return rows
        lower, upper = bounds.box(bounds.n_features or 1) or (0.0, 1.0)
        inside = bounds.clip(rows)  # a row with a missing number becomes the middle
        inside -= lower / 2 + upper / 2
        inside /= upper - lower
        return inside
