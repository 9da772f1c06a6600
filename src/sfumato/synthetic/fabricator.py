"""Fabricated rows: private data that any estimator may be trained on (Definitions 13 and 14)."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
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
from sfumato.models.base import NO_LABELS, Array, PrivateEstimator
from sfumato.models.gaussians import CentredGaussians, ClassGaussianSums, stored_gaussians
from sfumato.sums.grid import MAX_ROWS
from sfumato.sums.maps import IntoUnitBall, IntoUnitCube
from sfumato.sums.statistics import EDGES
from sfumato.synthetic.cells import (
    MAX_FINE_VALUES,
    MAX_VALUES,
    Constraint,
    parse_constraints,
    public_columns,
)
from sfumato.synthetic.table_law import TableLaw, column_tables, release_table
from sfumato.tables.bounds import Bounds
from sfumato.tables.cells import (
    LIBRARIES,
    check_choice,
    check_count,
    is_out_of_core,
    is_table,
    library_of,
)
from sfumato.tables.columns import type_of
from sfumato.tables.schema import Column, TableBounds

METHODS = ("tree", "moments")
LABEL = "label"  # in conditions
# Laws of fitted models, so that one is built once however often rows are drawn.
_LAWS: WeakKeyDictionary[Any, tuple[Any, TableLaw]] = WeakKeyDictionary()
CONDITION_SPREAD = 0.05  # of a range, by which Gaussians may miss a condition before it is set


def _texts(value: Any, place: str, sizes: dict[str, int]) -> None:  # noqa: ARG001
    if not isinstance(value, list | tuple) or not all(isinstance(each, str) for each in value):
        raise refuse(place, "a list of texts such as 'start <= end'")


def _bins(value: Any, place: str, sizes: dict[str, int]) -> None:  # noqa: ARG001
    for edges in value.values() if isinstance(value, Mapping) else [None]:
        listed = edges if isinstance(edges, list | tuple | np.ndarray) else [None]
        if not all(isinstance(each, int | float) and math.isfinite(each) for each in listed):
            raise refuse(place, "numbers, the edges of cells, by names of columns")


_number = or_none(whole(least=1, most=MAX_ROWS))
_GAUSSIANS = record(
    centre=numbers("d"),
    basis=numbers("d", "k"),
    radius=real(above=0.0),
    classes=integers("g"),
    n_rows=_number,
    **stored_gaussians(),
)
_ROWS = record(rows=numbers("n", "d"), codes=integers("n"))  # of a file of 0.2.0
_TREE = record(
    cuts=numbers(None, None, least=0.0),
    columns=numbers(None),
    moment=numbers(None, None),
    tree=integers(None, 2),
    pairs=numbers(None),
    noise=numbers(3, least=0.0),
    n_rows=_number,
    most_values=whole(least=MAX_VALUES, most=MAX_FINE_VALUES),
)

_OLD_TREE = record(  # of a file of 0.2.0
    cuts=numbers(None, None, least=0.0),
    margins=numbers(None),
    pairs=numbers(None),
    tree=integers(None, None),
    noise=numbers(2, least=0.0),
    n_rows=_number,
    seconds=integers(None, 2),
    more_pairs=numbers(None),
    n_parts=whole(least=0, most=2**20),
    most_values=whole(least=MAX_VALUES, most=MAX_FINE_VALUES),
)


def _release(value: Any, place: str, sizes: dict[str, int]) -> None:
    kinds = {"rows": _ROWS, "columns": _TREE, "margins": _OLD_TREE}
    known = [kind for name, kind in kinds.items() if isinstance(value, dict) and name in value]
    (known[0] if known else _GAUSSIANS)(value, place, sizes)


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
    method : {"tree", "moments"}, optional
        "tree" is for tables with a `TableBounds`, and their default; "moments" draws rows from
        private Gaussians of the classes, and is the default of arrays.
    gaussians_per_class : {1, 2, 4}, optional
        Gaussians that make up a class; by default as many as epsilon, the number of rows (where it
        is public), of labels and of `n_components` allow.
    bins : dict of str to sequence of float, optional
        Method "tree": public edges of the cells of columns of numbers; by default the edges are
        released.
    constraints : sequence of str, default=()
        Method "tree": public constraints that fabricated rows meet, ``"a <= b"``,
        ``"total == a + b"`` or ``"if a == x then b == y"``.
    random_state : int, RandomState or None, default=None
        Public randomness: the draw of rows. Never the noise.
    $shared

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, where some were given.
    method_ : str
        The method that was used.
    released_ : dict
        What `fabricate` needs. Method "tree": "cuts" of columns of numbers, noisy counts of
        "columns" by class, the "moment" of scores, the pairs of the "tree" and the counts of these
        "pairs", and the "noise" of the three.
        Method "moments": "counts", "means" and "covariances" of Gaussians,
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
    method: str | None = None
    gaussians_per_class: int | None = None
    bins: Mapping[str, Sequence[float]] | None = None
    constraints: Sequence[str] = ()
    random_state: Any = None

    has_labels: ClassVar[bool | None] = None
    in_unit_ball: ClassVar[bool] = False  # its rows are seen in the unit cube first
    scales_columns: ClassVar[bool] = False  # likewise
    parameters: ClassVar[Form] = {
        "n_components": whole(least=1),
        "method": optional(one_of(*METHODS, "local")),  # "local" in files of 0.2.0; `fit` refuses
        "gaussians_per_class": one_of(None, 1, 2, 4),
        "bins": optional(_bins),
        "constraints": _texts,
        "unit": one_of("record", "entry", "person"),  # "entry" in files of 0.2.0
    }
    learned: ClassVar[Form] = {
        "method_": optional(one_of(*METHODS, "local")),
        "library_": optional(one_of(*LIBRARIES)),
        "classes_": optional(labels("c")),
        "n_smoothing_": optional(integers(None)),  # of a file of 0.2.0
        "released_": _release,
    }

    @property
    def reads_cells(self) -> bool:  # type: ignore[override]
        """Whether a table is read as one number per column."""
        return self._method == "tree" and isinstance(self.bounds, TableBounds)

    @property
    def _method(self) -> str:
        return str(getattr(self, "method_", None) or self.method or "moments")

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
        for name in ("method_", "classes_"):  # of an earlier fit
            self.__dict__.pop(name, None)
        self._check_request()  # before it chooses a method
        if self.method is not None:
            check_choice("method", self.method, METHODS)
        bounds = self.bounds
        is_frame = (is_table(X) or is_out_of_core(X)) and isinstance(bounds, TableBounds)
        self.library_ = (library_of(X) if is_table(X) else "pyarrow") if is_frame else None
        if self.method == "tree" and not is_frame:
            raise UnsupportedModeError("method='tree' is for tables with bounds=TableBounds(...).")
        method = self.method or ("tree" if is_frame else "moments")
        if method == "tree" and y is not None and self._has_numeric_target:
            raise InvalidInputError(
                "A numeric target is a column of the table: give the whole table, without 'y'."
            )
        self.method_ = method
        records, budget = self._begin(X, y, groups)
        if self.classes_ is NO_LABELS:
            del self.classes_
        if method == "tree" and isinstance(bounds, TableBounds):
            # A model has always had as many features as a record is encoded in.
            self.n_features_in_ = self._reader.encoder.width
            self.__dict__.pop("feature_names_in_", None)
            columns, _ = self._declared()
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

    def _declared(self) -> tuple[Any, tuple[Constraint, ...]]:
        """Return cells of the columns and constraints, checked before anything is charged."""
        features = self._table.features
        known = {f.name: None if f.is_number else f.categories for f in features}
        columns = public_columns(self._table, self.bins)
        return columns, parse_constraints(self.constraints, known)

    def released_law(self) -> TableLaw:
        """Return the law of rows that follows from what was released of a table.

        Returns
        -------
        TableLaw
            Masses, correlations and classes, by released numbers alone.
        """
        check_is_fitted(self)
        if self._method != "tree":
            raise UnsupportedModeError("Only the method 'tree' has a law of tables.")
        source, law = _LAWS.get(self, (None, None))
        if law is None or source is not self.released_:
            released = self.released_
            if "margins" in released:
                warnings.warn(
                    "This model was stored by 0.2.0: its rows keep the columns by label, but not "
                    "the pairs of its tree. Fit it again to keep pairs.",
                    stacklevel=2,
                )
                shared = {name: released[name] for name in ("cuts", "n_rows", "most_values")}
                noise = np.array([released["noise"][0], 0.0, 0.0])
                none = {"moment": np.zeros((0, 0)), "tree": np.empty((0, 2), dtype=np.intp)}
                counts = {"columns": released["margins"], "pairs": np.empty(0), "noise": noise}
                released = {**shared, **none, **counts}
            columns, constraints = self._declared()
            about = self._table, columns, self._n_classes, released, constraints
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
        if n_rows is not None:
            check_count("n_rows", n_rows)
        if self._method == "tree":
            return self._draw_tree(n_rows, {})
        if "rows" in self.released_:  # of a file of 0.2.0
            return self._answer(self.released_["rows"].copy(), self.released_["codes"])
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
        return self._draw(gaussians, CentredGaussians.from_record(self.released_))

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

    def sample(self, n_rows: int, given: Mapping[str, Any] | None = None) -> Any:
        """Draw any number of rows, labels at their private shares; costs no further budget.

        Parameters
        ----------
        n_rows : int
            Number of rows.
        given : mapping of str to object, optional
            Values of some columns of a table that all rows are to have, and under the name of the
            target (or "label") their label. The method "tree" meets them exactly; "moments" draws
            the other columns from its Gaussians given these.

        Returns
        -------
        rows, or rows and labels
            As `fabricate` gives them.
        """
        check_is_fitted(self)
        check_count("n_rows", n_rows)
        if self._method == "tree":
            return self._draw_tree(n_rows, given or {})
        if "rows" in self.released_:
            raise UnsupportedModeError("A row was made for each row: call fabricate().")
        released = CentredGaussians.from_record(self.released_)
        wanted, code = self._conditions(given or {})
        places, values = np.empty(0, dtype=np.intp), np.empty(0)
        if wanted:  # conditions as numbers of an encoded record, and their places in it
            features, encoder = self.bounds.features, self._reader.encoder  # type: ignore[union-attr]
            cells = np.full((1, len(features)), np.nan)
            cells[0, list(wanted)] = list(wanted.values())
            (row,) = encoder.transform(encoder.from_cells(cells))
            widths = [1 if f.is_number else len(f.categories or ()) for f in features]
            owners = np.repeat(
                np.arange(len(widths)), np.add(widths, [f.missing for f in features])
            )
            (places,) = np.nonzero(np.isin(owners, list(wanted)))
            values = row[places]
            released = released.given(places, values, CONDITION_SPREAD)
        counts = released.gaussians.counts
        if code is not None:
            counts = np.where(released.classes == code, counts, 0.0)
            released = replace(released, gaussians=replace(released.gaussians, counts=counts))
        generator = check_random_state(self.random_state)
        gaussians = generator.choice(len(counts), n_rows, p=counts / counts.sum())
        return self._draw(gaussians, released, places, values)

    def _conditions(self, given: Mapping[str, Any]) -> tuple[dict[int, float], int | None]:
        """Return the cells of public values by place of their column, and the number of a label."""
        conditions, code = dict(given), None
        target = getattr(self.bounds, "target", None)
        for name in (LABEL, *(() if target is None else (target.name,))):
            if hasattr(self, "classes_") and name in conditions:
                (found,) = np.nonzero(self.classes_ == conditions.pop(name))
                if not len(found):
                    raise InvalidInputError(f"'given' has an unknown label: {given[name]!r}.")
                code = int(found[0])
        if not conditions:
            return {}, code
        if not isinstance(self.bounds, TableBounds):
            raise UnsupportedModeError("Conditions ('given') on columns are for tables.")
        known = self._table if self._method == "tree" else self.bounds
        features = {f.name: (i, f) for i, f in enumerate(known.features)}
        wanted = {}
        for name, value in conditions.items():
            if name not in features:
                raise InvalidInputError(f"'given' names no column of the table: {name!r}.")
            place, feature = features[name]
            if feature.categories is not None:
                if value not in feature.categories:
                    raise InvalidInputError(f"{value!r} is not a category of the column {name!r}.")
                wanted[place] = float(feature.categories.index(value))
            elif not isinstance(value, int | float) or not feature.lower <= value <= feature.upper:
                raise InvalidInputError(f"{value!r} is outside the range of the column {name!r}.")
            else:
                wanted[place] = float(feature.scaled(np.array([float(value)]))[0])
        return wanted, code

    def _draw_tree(self, n_rows: int | None, given: Mapping[str, Any]) -> Any:
        law, (wanted, code) = self.released_law(), self._conditions(given)
        generator, number = check_random_state(self.random_state), n_rows or law.n_rows
        fixed = {place: law.cells.cell_of(place, value) for place, value in wanted.items()}
        if given:
            cells, codes, order = law.draw_given(number, generator, fixed, code)
        else:
            cells, codes, order = law.draw(number, generator)
        library = getattr(self, "library_", None) or "pyarrow"
        values = law.values(cells, order, generator, wanted)
        made = self._reader.encoder.from_cells(values, library=library)
        return self._with_labels(made, codes)

    def _with_labels(self, table: Any, codes: NDArray[np.intp]) -> Any:
        """Return a table with the column of its labels."""
        if not hasattr(self, "classes_"):
            return table
        target = getattr(self.bounds, "target", None)
        name = LABEL if target is None else target.name
        return with_column(table, name, self.classes_[codes], getattr(target, "type", None))

    def _draw(
        self,
        gaussians: NDArray[np.intp],
        released: CentredGaussians,
        places: NDArray[np.intp] | slice = slice(0),
        values: Array | float = 0.0,
    ) -> Any:
        """Draw one row from the Gaussian of each number; at some places it has these values."""
        generator = check_random_state(self.random_state)
        drawn = np.empty((len(gaussians), released.basis.shape[1]))
        for number in np.unique(gaussians):
            mine = gaussians == number
            drawn[mine] = released.sample(int(number), int(mine.sum()), generator)
        scaled = released.to_rows(drawn)
        rows = IntoUnitCube(self.row_bounds, scaled.shape[1]).to_rows(scaled)
        if isinstance(self.bounds, TableBounds):
            scores = self._reader.encoder.are_scores
            rows[:, scores] = scaled[:, scores]  # clipped, rare categories would gain
        rows[:, places] = values
        return self._answer(rows, released.classes[gaussians])

    def _answer(self, rows: Array, codes: NDArray[np.intp]) -> Any:
        table: Any = rows
        library = getattr(self, "library_", None)  # a stored model may come without it
        if library is not None:
            table = self._reader.encoder.inverse_transform(rows, library=library)
            return self._with_labels(table, codes)
        return (table, self.classes_[codes]) if hasattr(self, "classes_") else table

    def _check_stored(self, sizes: dict[str, int]) -> None:
        released = self.released_
        if self._method != "tree":
            codes = released["codes" if "rows" in released else "classes"]
            if hasattr(self, "classes_") and codes.max(initial=0) >= sizes["c"]:
                raise refuse("released_", "codes of the labels")
            return
        if not isinstance(self.bounds, TableBounds) or not {"columns", "margins"} & set(released):
            raise refuse("released_", "numbers that were released of a table")
        columns = [c.with_values(released["most_values"]) for c in self._declared()[0]]
        cuts, target = released["cuts"], self._target_place
        if len(cuts) != sum(c.is_cut for c in columns) or (cuts > len(EDGES)).any():
            raise refuse("released_", "one row of cuts for each column of numbers")
        counts = column_tables(columns, cuts, self._n_classes, target)
        if len(released["margins" if "margins" in released else "columns"]) != counts.size:
            raise refuse("released_", "counts of the columns")
        if "margins" in released:
            return
        law = self.released_law()
        tree, n_features = released["tree"], len(law.features)
        width = len(law.latents) if len(columns) > 1 else 0
        if released["moment"].shape != (width, width):
            raise refuse("released_", "a moment of the columns")
        is_tree = len(tree) in (0, n_features - 1) and (tree < n_features).all()
        pairs = law.pair_tables(tuple(map(tuple, tree.tolist()))).size if len(tree) else 0
        spans = not len(tree) or sum(pair >= 0 for _, _, pair in law.order) == len(tree)
        if not is_tree or not spans or len(released["pairs"]) != pairs:
            raise refuse("released_", "counts of the pairs of a tree")


def with_column(table: Any, name: str, values: NDArray[Any], declared: str | None = None) -> Any:
    """Return a table with one more column, behind the others."""
    import pyarrow

    column = pyarrow.array(values.tolist())
    column = column if declared is None else column.cast(type_of(declared))
    library = library_of(table)
    if library == "pandas":
        table[name] = column.to_pandas()
        return table
    if library == "polars":
        import polars

        return table.with_columns(polars.Series(name, column))
    return table.append_column(name, column)
