"""Fabricated rows: private data that any estimator may be trained on (Definitions 13 and 14)."""

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
    real,
    record,
    refuse,
    whole,
)
from sfumato.exceptions import InvalidInputError, UnsupportedModeError
from sfumato.models.base import NO_LABELS, PrivateEstimator
from sfumato.models.gaussians import CentredGaussians, ClassGaussianSums, stored_gaussians
from sfumato.sums.grid import MAX_ROWS
from sfumato.sums.maps import IntoUnitBall, IntoUnitCube
from sfumato.sums.statistics import EDGES
from sfumato.synthetic.cells import MAX_FINE_VALUES, MAX_VALUES, TableCells, public_columns
from sfumato.synthetic.table_law import TableLaw, column_tables, release_table
from sfumato.tables.bounds import Bounds
from sfumato.tables.cells import (
    LIBRARIES,
    is_out_of_core,
    is_table,
    library_of,
)
from sfumato.tables.columns import arrow, type_of
from sfumato.tables.schema import Column, TableBounds

LABEL = "label"  # name of a column of labels that the bounds do not name
# Laws of fitted models, so that one is built once however often rows are drawn.
_LAWS: WeakKeyDictionary[Any, tuple[Any, TableLaw]] = WeakKeyDictionary()


_number = or_none(whole(least=1, most=MAX_ROWS))
_GAUSSIANS = record(
    centre=numbers("d"),
    basis=numbers("d", "k"),
    radius=real(above=0.0),
    classes=integers("g"),
    n_rows=_number,
    **stored_gaussians(),
)
_TREE = record(
    cuts=numbers(None, None, least=0.0),
    columns=numbers(None),
    classes=numbers(None),
    moment=numbers(None, None),
    tree=integers(None, 2),
    pairs=numbers(None),
    noise=numbers(4, least=0.0),
    n_rows=_number,
    most_values=whole(least=MAX_VALUES, most=MAX_FINE_VALUES),
)


def _release(value: Any, place: str, sizes: dict[str, int]) -> None:
    is_table_law = isinstance(value, dict) and "columns" in value
    (_TREE if is_table_law else _GAUSSIANS)(value, place, sizes)


@dataclass(eq=False, repr=False)
class Fabricator(PrivateEstimator):
    r"""Make private rows that behave like the rows it has seen.

    The law of a table is released once: counts of each column by class, one noisy second moment
    of normal scores for all pairs of columns, and counts of the pairs that a Gaussian copula
    misses most. Rows of it have the columns of the table, its target among them. Arrays are drawn
    from private Gaussians of the classes. What is trained on the result costs no further budget.

    Parameters
    ----------
    n_components : int, default=50
        Private directions in which the Gaussians live; capped at the number of features.
    gaussians_per_class : {1, 2, 4}, optional
        Gaussians that make up a class; by default as many as epsilon, the number of rows (where it
        is public), of labels and of `n_components` allow.
    random_state : int, RandomState or None, default=None
        Public randomness: the draw of rows. Never the noise.
    $shared

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, where some were given.
    released_ : dict
        What `fabricate` needs. Of a table: "cuts" of columns of numbers, noisy counts of
        "columns" by class, the "moment" of scores, the pairs of the "tree" and the counts of these
        "pairs", and the "noise" of the three.
        Of an array: "counts", "means" and "covariances" of Gaussians,
        the "classes" they belong to, and the "centre", "basis" and "radius" of their coordinates.
    library_ : {"pandas", "polars", "pyarrow"} or None
        Whose table was given, and is given back.
    guarantee_ : Guarantee
        The privacy guarantee of the fit.

    Privacy
    -------
    Unit and relation : record with its label, or person, replace_one or add_or_remove_one.
    Released : where columns are cut, tables of counts, a second moment and the edges of a tree, or
        three or four noisy sums. Fitting and drawing see released values only.
    Sensitivity : √(2L) for L tables of counts, √2 for the moment in the unit ball and 2 for a score
        (replace), or 2, √2, 1.25·√2 and 1.25·√2 in the unit ball.
    Guarantee : (epsilon, delta) for the unit.
    Assumptions and numerics : bounds, label set, and names, types and categories of the columns
        of a table are public; sums are exact, noise is float-safe.
        Proofs: docs/guarantees/label-tree.md, docs/guarantees/fabrication.md.

    See Also
    --------
    PrivateAffineHullClassifier : Hulls on such rows.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from sfumato import Bounds, Fabricator
    >>> X, y = load_digits(return_X_y=True)
    >>> bounds = Bounds(lower=0.0, upper=16.0, labels=range(10))
    >>> fabricator = Fabricator(
    ...     epsilon=8.0, delta=1e-5, n_components=20, bounds=bounds, random_state=0)
    >>> rows, labels = fabricator.fit_fabricate(X, y)
    >>> forest = RandomForestClassifier(random_state=0).fit(rows, labels)
    >>> rows.shape, bool(forest.score(X, y) > 0.6)
    ((1797, 64), True)
    """

    n_components: int = 50
    _: KW_ONLY
    gaussians_per_class: int | None = None
    random_state: Any = None

    has_labels: ClassVar[bool | None] = None
    in_unit_ball: ClassVar[bool] = False  # its rows are seen in the unit cube first
    scales_columns: ClassVar[bool] = False  # likewise
    parameters: ClassVar[Form] = {
        "n_components": whole(least=1),
        "gaussians_per_class": one_of(None, 1, 2, 4),
    }
    learned: ClassVar[Form] = {
        "library_": optional(one_of(*LIBRARIES)),
        "classes_": optional(labels("c")),
        "released_": _release,
    }

    @property
    def reads_cells(self) -> bool:  # type: ignore[override]
        """Whether a table is read as one number per column."""
        return isinstance(self.bounds, TableBounds)

    def fit(self, X: Any, y: Any = None, groups: Any = None) -> Self:
        """Release what rows can be made from.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,), optional
            Labels, fabricated along with the rows.
        groups : array-like of shape (n_samples,), optional
            IDs of persons, for unit "person"; rows without one are dropped.

        Returns
        -------
        Self
            The fitted estimator.
        """
        self.__dict__.pop("classes_", None)  # of an earlier fit
        self._check_request()
        self.library_ = None
        if self.reads_cells:
            if not (is_table(X) or is_out_of_core(X)):
                raise UnsupportedModeError(
                    "bounds=TableBounds(...) needs a table; for an array give Bounds(...)."
                )
            if y is not None and self._has_numeric_target:
                raise InvalidInputError(
                    "A numeric target is a column of the table: give the whole table, without 'y'."
                )
            self.library_ = library_of(X) if is_table(X) else "pyarrow"
        records, budget = self._begin(X, y, groups)
        if self.classes_ is NO_LABELS:
            del self.classes_
        if self.reads_cells:
            # A model has always had as many features as a record is encoded in.
            self.n_features_in_ = self._reader.encoder.width
            self.__dict__.pop("feature_names_in_", None)
            columns = public_columns(self._table)
            self.released_ = release_table(  # [W]
                records, budget, self._table, columns, self._n_classes, self._target_place
            )
        else:
            scale = IntoUnitCube(self.row_bounds, records.width)
            into_ball = IntoUnitBall(scale.inner_bounds, records.width)
            sums = ClassGaussianSums(  # [F1] the budget divided
                budget,
                records.mapped(scale).mapped(into_ball),
                n_classes=self._n_classes,
                n_components=min(self.n_components, records.width),
                n_parts=self.gaussians_per_class,
            )
            budget.charge()  # [F2] charge all, then draw
            released = sums.draw().in_units_of(scale.inner_bounds)  # [F3] the releases
            self.released_ = {**released.to_record(), "n_rows": records.public_rows}
        self.guarantee_ = budget.guarantee()
        return self

    @property
    def _n_classes(self) -> int:
        return len(self.classes_) if hasattr(self, "classes_") else 1

    @property
    def _has_numeric_target(self) -> bool:
        target = self.bounds.target if isinstance(self.bounds, TableBounds) else None
        return target is not None and target.labels is None

    @property
    def _table(self) -> TableBounds:
        """The bounds of a table, a numeric target among its columns."""
        bounds = self.bounds
        assert isinstance(bounds, TableBounds)  # noqa: S101 - asked of tables only
        if not self._has_numeric_target or bounds.target is None:
            return bounds
        target = bounds.target
        about = {"type": target.type, "lower": target.lower, "upper": target.upper}
        column = Column.from_record(target.name, about)
        return replace(bounds, columns=(*bounds.columns, column), target=None)

    @property
    def _target_place(self) -> int | None:
        return len(self._table.features) - 1 if self._has_numeric_target else None

    @property
    def record_bounds(self) -> Bounds | TableBounds | None:
        """Public bounds of what is read of a record: a numeric target is a column of a table."""
        return self._table if self.reads_cells else self.bounds

    def released_law(self) -> TableLaw:
        """Return the law of rows that follows from what was released of a table.

        Returns
        -------
        TableLaw
            Masses, correlations and classes, by released numbers alone.
        """
        check_is_fitted(self)
        if not self.reads_cells:
            raise UnsupportedModeError("Only a fabricator with a TableBounds has such a law.")
        source, law = _LAWS.get(self, (None, None))
        if law is None or source is not self.released_:
            about = self._table, public_columns(self._table), self._n_classes, self.released_
            law = TableLaw(*about, self._target_place)
            _LAWS[self] = self.released_, law
        return law

    def fabricate(self, n_rows: int | None = None) -> Any:
        """Return the fabricated rows, as a table if the rows seen were one.

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
        if self.reads_cells:
            return self._draw_table(n_rows)
        counts = self.released_["counts"]
        wanted = n_rows or self.released_["n_rows"] or int(np.rint(counts.sum()))
        # At least one row of each Gaussian as long as they last, the others by their counts
        sizes = np.zeros(len(counts), dtype=np.intp)
        sizes[np.argsort(-counts, kind="stable")[:wanted]] = 1
        left = wanted - int(sizes.sum())
        ends = np.rint(np.cumsum(counts / counts.sum()) * left).astype(np.intp)
        sizes = sizes + np.diff(ends, prepend=0)
        generator = check_random_state(self.random_state)
        gaussians = generator.permutation(np.repeat(np.arange(len(counts)), sizes))
        released = CentredGaussians.from_record(self.released_)
        generator = check_random_state(self.random_state)
        drawn = np.empty((len(gaussians), released.basis.shape[1]))
        for number in np.unique(gaussians):
            mine = gaussians == number
            drawn[mine] = released.sample(int(number), int(mine.sum()), generator)
        scaled = released.to_rows(drawn)
        rows = IntoUnitCube(self.row_bounds, scaled.shape[1]).to_rows(scaled)
        codes = released.classes[gaussians]
        return (rows, self.classes_[codes]) if hasattr(self, "classes_") else rows

    def fit_fabricate(self, X: Any, y: Any = None, groups: Any = None) -> Any:
        """Fit, then fabricate.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,), optional
            Labels.
        groups : array-like of shape (n_samples,), optional
            IDs of persons.

        Returns
        -------
        rows, or rows and labels
            As `fabricate` gives them.
        """
        return self.fit(X, y, groups).fabricate()

    def sample(self, n_rows: int) -> Any:
        """Draw any number of rows, as `fabricate` does; costs no further budget.

        Parameters
        ----------
        n_rows : int
            Number of rows.

        Returns
        -------
        rows, or rows and labels
            As `fabricate` gives them.
        """
        return self.fabricate(n_rows)

    def _draw_table(self, n_rows: int | None) -> Any:
        law, generator = self.released_law(), check_random_state(self.random_state)
        cells, codes, order = law.draw(n_rows or law.n_rows, generator)
        values = law.values(cells, order, generator)
        made = self._reader.encoder.from_cells(values, library=self.library_ or "pyarrow")
        if not hasattr(self, "classes_"):
            return made
        target = self._table.target
        name = LABEL if target is None else target.name
        declared = None if target is None else target.type
        return with_column(made, name, self.classes_[codes], declared, None)

    def _check_stored(self, sizes: dict[str, int]) -> None:
        released = self.released_
        if not self.reads_cells:
            if "classes" not in released:
                raise refuse("released_", "Gaussians of the classes")
            if hasattr(self, "classes_") and released["classes"].max(initial=0) >= sizes["c"]:
                raise refuse("released_", "codes of the labels")
            return
        if "columns" not in released:
            raise refuse("released_", "numbers that were released of a table")
        columns = [c.with_values(released["most_values"]) for c in public_columns(self._table)]
        cuts = released["cuts"]
        if len(cuts) != sum(c.is_cut for c in columns) or (cuts > len(EDGES)).any():
            raise refuse("released_", "one row of cuts for each column of numbers")
        if len(released["columns"]) != column_tables(TableCells.of(columns, cuts)).size:
            raise refuse("released_", "counts of the columns")
        alone = {**released, "classes": np.empty(0)}
        law = TableLaw(self._table, columns, self._n_classes, alone, self._target_place)
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
