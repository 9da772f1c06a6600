"""Fabricated tables: private rows that any estimator may be trained on."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Integral
from typing import Any, ClassVar, Self
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from sfumato.core.constraints import (
    Form,
    integers,
    labels,
    numbers,
    one_of,
    optional,
    or_none,
    record,
    refuse,
    whole,
)
from sfumato.core.memory import require_memory
from sfumato.exceptions import InvalidInputError, UnsupportedModeError
from sfumato.models.base import NO_LABELS, PrivateEstimator
from sfumato.models.budget import Budget
from sfumato.sums.grid import MAX_ROWS
from sfumato.sums.records import Records
from sfumato.sums.statistics import EDGES
from sfumato.synthetic.cells import MAX_FINE_VALUES, MAX_VALUES, TableCells, public_columns
from sfumato.synthetic.table_law import TableLaw, column_tables, release_table
from sfumato.tables.bounds import Bounds
from sfumato.tables.cells import LIBRARIES, is_out_of_core, is_table, library_of
from sfumato.tables.columns import arrow, type_of
from sfumato.tables.schema import Column, TableBounds

LABEL = "label"  # name of a column of labels that the bounds do not name
# Laws of fitted models, so that one is built once however often rows are drawn.
_LAWS: WeakKeyDictionary[Any, tuple[Any, TableLaw]] = WeakKeyDictionary()


class RowFabricator(PrivateEstimator):
    """Base of what makes rows from its releases: `_draw` says how."""

    random_state: Any
    has_labels: ClassVar[bool | None] = None

    def _begin_rows(self, X: Any, y: Any, groups: Any) -> tuple[Records, Budget]:
        self.__dict__.pop("classes_", None)  # of an earlier fit
        found = self._begin(X, y, groups)
        if self.classes_ is NO_LABELS:
            del self.classes_
        return found

    @property
    def _n_classes(self) -> int:
        return len(self.classes_) if hasattr(self, "classes_") else 1

    def fabricate(self, n_rows: int | None = None) -> Any:
        """Return the fabricated rows; drawing costs no further budget.

        Parameters
        ----------
        n_rows : int, optional
            A declared number of rows, in shares of the released ones. By default the public
            number, or the released one.

        Returns
        -------
        rows : ndarray or table
            As many as were seen under "replace_one", about as many else. A table has its target as
            its last column.
        labels : ndarray
            Only for arrays, where labels were given.
        """
        check_is_fitted(self)
        if n_rows is not None and not (isinstance(n_rows, Integral) and n_rows >= 1):
            raise InvalidInputError(f"'n_rows' must be a positive whole number. Got {n_rows!r}.")
        wanted = n_rows or self.released_["n_rows"] or 1
        require_memory(4 * wanted * self.n_features_in_, f"A table of {wanted:,} rows")
        return self._draw(n_rows, check_random_state(self.random_state))

    def _draw(self, n_rows: int | None, generator: np.random.RandomState) -> Any:
        raise NotImplementedError

    def fit_fabricate(self, X: Any, y: Any = None, groups: Any = None) -> Any:
        """Return `fabricate()` after `fit(X, y, groups)`."""
        return self.fit(X, y, groups).fabricate()

    def sample(self, n_rows: int) -> Any:
        """Return `fabricate(n_rows)`."""
        return self.fabricate(n_rows)


@dataclass(eq=False, repr=False)
class Fabricator(RowFabricator):
    r"""Make a private table that behaves like the table it has seen.

    The law of a table is released once: counts of each column by class, one noisy second moment
    of normal scores for all pairs of columns, and counts of the pairs that a Gaussian copula
    misses most. Rows of it have the columns of the table, its target among them. What is trained
    on the result costs no further budget.

    Parameters
    ----------
    random_state : int, RandomState or None, default=None
        Public randomness: the draw of rows. Never the noise.
    $shared

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, where some were given.
    released_ : dict
        What `fabricate` needs: "cuts" of columns of numbers, noisy counts of "columns", and by
        class ("classes"), the "moment" of scores, the pairs of the "tree" and the counts of these
        "pairs", and the "noise" of the four.
    library_ : {"pandas", "polars", "pyarrow"}
        Whose table was given, and is given back.
    guarantee_ : Guarantee
        The privacy guarantee of the fit.

    Privacy
    -------
    Unit and relation : record with its label, or person, replace_one or add_or_remove_one.
    Released : where columns are cut, tables of counts, a second moment and the edges of a tree.
        Fitting and drawing see released values only.
    Sensitivity : √(2L) for L tables of counts, √2 for the moment in the unit ball and 2 for a score
        (replace).
    Guarantee : (epsilon, delta) for the unit.
    Assumptions and numerics : label set, names, types, ranges and categories of the columns are
        public; sums are exact, noise is float-safe. Proof: docs/guarantees/label-tree.md.

    See Also
    --------
    GaussianFabricator : The same for arrays and images.

    Examples
    --------
    >>> import pandas as pd
    >>> from sfumato import Fabricator, TableBounds
    >>> table = pd.DataFrame({"age": [30, 70] * 500, "ill": ["no", "yes"] * 500})
    >>> bounds = TableBounds.from_dict({"age": (0, 110), "ill": ["no", "yes"]}, target="ill")
    >>> made = Fabricator(epsilon=1.0, bounds=bounds, random_state=0).fit_fabricate(table)
    >>> made.shape, bool(made["age"][made["ill"] == "yes"].mean() > 60)
    ((1000, 2), True)
    """

    _: KW_ONLY
    random_state: Any = None

    reads_cells: ClassVar[bool] = True
    learned: ClassVar[Form] = {
        "library_": one_of(*LIBRARIES),
        "classes_": optional(labels("c")),
        "released_": record(
            cuts=numbers(None, None, least=0.0),
            columns=numbers(None),
            classes=numbers(None),
            moment=numbers(None, None),
            tree=integers(None, 2),
            pairs=numbers(None),
            noise=numbers(4, least=0.0),
            n_rows=or_none(whole(least=1, most=MAX_ROWS)),
            most_values=whole(least=MAX_VALUES, most=MAX_FINE_VALUES),
        ),
    }

    def fit(self, X: Any, y: Any = None, groups: Any = None) -> Self:
        if isinstance(self.bounds, Bounds) or not (is_table(X) or is_out_of_core(X)):
            raise UnsupportedModeError(
                "Fabricator needs a table and its TableBounds. For an array with Bounds(...) use "
                "GaussianFabricator."
            )
        self._check_request()
        if y is not None and self._target_place is not None:
            raise InvalidInputError(
                "A numeric target is a column of the table: give the whole table, without 'y'."
            )
        self.library_ = library_of(X) if is_table(X) else "pyarrow"
        records, budget = self._begin_rows(X, y, groups)
        # A model has always had as many features as a record is encoded in.
        self.n_features_in_ = self._reader.encoder.width
        self.__dict__.pop("feature_names_in_", None)
        self.released_ = release_table(  # [W]
            records,
            budget,
            self.record_bounds,
            public_columns(self.record_bounds),
            self._n_classes,
            self._target_place,
        )
        self.guarantee_ = budget.guarantee()
        return self

    @property
    def record_bounds(self) -> Any:
        """Public bounds of what is read of a record: a numeric target is the last column."""
        target = getattr(self.bounds, "target", None)
        if not isinstance(self.bounds, TableBounds) or target is None or target.labels is not None:
            return self.bounds
        about = {"type": target.type, "lower": target.lower, "upper": target.upper}
        column = Column.from_record(target.name, about)
        return replace(self.bounds, columns=(*self.bounds.columns, column), target=None)

    @property
    def _target_place(self) -> int | None:
        bounds = self.record_bounds
        return None if bounds is self.bounds else len(bounds.features) - 1

    def released_law(self) -> TableLaw:
        """Return the law of rows, by released numbers alone.

        Returns
        -------
        TableLaw
            Masses, correlations and classes.
        """
        check_is_fitted(self)
        source, law = _LAWS.get(self, (None, None))
        if law is None or source is not self.released_:
            bounds = self.record_bounds
            about = bounds, public_columns(bounds), self._n_classes, self.released_
            law = TableLaw(*about, self._target_place)
            _LAWS[self] = self.released_, law
        return law

    def _draw(self, n_rows: int | None, generator: np.random.RandomState) -> Any:
        law = self.released_law()
        cells, codes, order = law.draw(n_rows or law.n_rows, generator)
        values = law.values(cells, order, generator)
        made = self._reader.encoder.from_cells(values, library=self.library_)
        if not hasattr(self, "classes_"):
            return made
        target = self.record_bounds.target
        name = LABEL if target is None else target.name
        declared = None if target is None else target.type
        return with_column(made, name, self.classes_[codes], declared, None)

    def _check_stored(self, sizes: dict[str, int]) -> None:  # noqa: ARG002
        released, bounds = self.released_, self.record_bounds
        columns = [c.with_values(released["most_values"]) for c in public_columns(bounds)]
        cuts = released["cuts"]
        if len(cuts) != sum(c.is_cut for c in columns) or (cuts > len(EDGES)).any():
            raise refuse("released_", "one row of cuts for each column of numbers")
        if len(released["columns"]) != column_tables(TableCells.of(columns, cuts)).size:
            raise refuse("released_", "counts of the columns")
        alone = {**released, "classes": np.empty(0)}
        law = TableLaw(bounds, columns, self._n_classes, alone, self._target_place)
        has_classes = law.n_classes > 1 or (law.target is not None and len(law.features) > 0)
        if len(released["classes"]) != (law.class_tables.size if has_classes else 0):
            raise refuse("released_", "counts of the columns by class")
        law = self.released_law()
        tree, n_features = released["tree"], len(law.features)
        width = len(law.latents) if len(columns) > 1 else 0
        if released["moment"].shape != (width, width):
            raise refuse("released_", "a moment of the columns")
        is_tree = (tree < n_features).all() and len(tree) <= math.comb(n_features, 2)
        pairs = law.pair_tables(tuple(map(tuple, tree.tolist()))).size if len(tree) else 0
        spans = not len(tree) or sum(pair >= 0 for _, _, pair in law.order) == n_features - 1
        if not is_tree or not spans or len(released["pairs"]) != pairs:
            raise refuse("released_", "counts of the pairs of a tree")


def with_column(
    table: Any, name: str, values: NDArray[Any], declared: str | None = None, place: int | None = 0
) -> Any:
    """Return a table with one more column, in front of the others or, at place None, behind."""
    column = arrow().array(values.tolist())
    column = column if declared is None else column.cast(type_of(declared))
    place = table.shape[1] if place is None else place
    library = library_of(table)
    if library == "pandas":
        table.insert(place, name, column.to_pandas())
        return table
    if library == "polars":
        import polars

        return table.insert_column(place, polars.Series(name, column))
    return table.add_column(place, name, column)
