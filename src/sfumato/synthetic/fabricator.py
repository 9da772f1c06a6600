"""Fabricated rows: private data that any estimator may be trained on (Definitions 13 and 14)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Self

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
    TableCells,
    parse_constraints,
    public_columns,
)
from sfumato.synthetic.label_tree import LabelTree, is_tree_worthwhile, release_tree
from sfumato.tables.cells import (
    LIBRARIES,
    check_choice,
    check_count,
    is_out_of_core,
    is_table,
    library_of,
)
from sfumato.tables.schema import TableBounds

METHODS = ("tree", "moments")
LABEL = "label"  # in conditions
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
    kinds = {"rows": _ROWS, "margins": _TREE}
    known = [kind for name, kind in kinds.items() if isinstance(value, dict) and name in value]
    (known[0] if known else _GAUSSIANS)(value, place, sizes)


@dataclass(eq=False, repr=False)
class Fabricator(PrivateEstimator):
    r"""Make private rows that behave like the rows it has seen.

    Rows are drawn from tables of counts along a tree of the columns, or from private Gaussians of
    the classes. What is trained on the result costs no further budget.

    Parameters
    ----------
    n_components : int, default=50
        Private directions in which the Gaussians live; capped at the number of features.
    method : {"tree", "moments"}, optional
        "tree" releases tables of counts along a tree of the columns of a table
        and draws rows from them; "moments" draws rows from private Gaussians of the classes.
        By default "tree" for tables with a `TableBounds`, and "moments" for arrays
        and for tables of numbers whose public number of rows is too small for the noise of
        counts.
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
        columns ("margins"), of "pairs" of the "tree" and of "more_pairs" of columns and "seconds"
        parents, the "noise" of columns and of pairs.
        Method "moments": "counts", "means" and "covariances" of Gaussians,
        the "classes" they belong to, and the "centre", "basis" and "radius" of their coordinates.
    library_ : {"pandas", "polars", "pyarrow"} or None
        Whose table was given, and is given back.
    guarantee_ : Guarantee
        The privacy guarantee of the fit.

    Privacy
    -------
    Unit and relation : record with its label, or person, replace_one or add_or_remove_one.
    Released : tables of counts and the edges of cells and of a tree, or three or four noisy
        sums. Fitting and drawing see released values only.
    Sensitivity : √(2L) for L tables of counts and 2 for a score (replace), or 2, √2,
        1.25·√2 and 1.25·√2 in the unit ball.
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
        return self._method == "tree"

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
        may_be_few = not (self.bins or self.constraints or self._n_is_secret or is_out_of_core(X))
        if is_frame and self.method is None and may_be_few:  # a public rule
            are_numbers = [feature.is_number for feature in bounds.features]  # type: ignore[union-attr]
            sizes = len(X), len(are_numbers), sum(are_numbers)
            if not is_tree_worthwhile(*sizes, epsilon=self.epsilon, delta=self.delta):
                method = "moments"
        self.method_ = method
        records, budget = self._begin(X, y, groups)
        if self.classes_ is NO_LABELS:
            del self.classes_
        if method == "tree" and isinstance(bounds, TableBounds):
            # A model has always had as many features as a record is encoded in.
            self.n_features_in_ = self._reader.encoder.width
            self.__dict__.pop("feature_names_in_", None)
            columns, _ = self._declared()
            self.released_ = release_tree(records, budget, bounds, columns, self._n_classes)  # [W]
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

    def _declared(self) -> tuple[Any, tuple[Constraint, ...]]:
        """Return cells of the columns and constraints, checked before anything is charged."""
        assert isinstance(self.bounds, TableBounds)  # noqa: S101 - asked of tables only
        known = {f.name: None if f.is_number else f.categories for f in self.bounds.features}
        columns = public_columns(self.bounds, self.bins)
        return columns, parse_constraints(self.constraints, known)

    def released_tree(self) -> LabelTree:
        """Return the tree that was released of a table.

        Returns
        -------
        LabelTree
            Masses of the released counts, in cells of the columns.
        """
        check_is_fitted(self)
        if self._method != "tree":
            raise UnsupportedModeError("Only the method 'tree' has a tree: set method='tree'.")
        assert isinstance(self.bounds, TableBounds)  # noqa: S101 - as it was fitted
        columns, constraints = self._declared()
        return LabelTree(self.bounds, columns, self._n_classes, self.released_, constraints)

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
            As many as were seen under "replace_one", about as many else.
        labels : ndarray
            Only where labels were given.
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
        features = {f.name: (i, f) for i, f in enumerate(self.bounds.features)}
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
        tree = self.released_tree()
        wanted, code = self._conditions(given)
        generator = check_random_state(self.random_state)
        fixed = {place: tree.cells.cell_of(place, value) for place, value in wanted.items()}
        drawn, codes = tree.draw(n_rows or tree.n_rows, generator, fixed, code)
        cells = tree.values(drawn, generator, wanted)
        library = getattr(self, "library_", None) or "pyarrow"
        made = self._reader.encoder.from_cells(cells, library=library)
        return (made, self.classes_[codes]) if hasattr(self, "classes_") else made

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
        return (table, self.classes_[codes]) if hasattr(self, "classes_") else table

    def _check_stored(self, sizes: dict[str, int]) -> None:
        released = self.released_
        if self._method != "tree":
            codes = released["codes" if "rows" in released else "classes"]
            if hasattr(self, "classes_") and codes.max(initial=0) >= sizes["c"]:
                raise refuse("released_", "codes of the labels")
            return
        if not isinstance(self.bounds, TableBounds) or "margins" not in released:
            raise refuse("released_", "tables of counts of a table")
        columns = [c.with_values(released["most_values"]) for c in self._declared()[0]]
        cuts = released["cuts"]
        if len(cuts) != sum(c.is_cut for c in columns) or (cuts > len(EDGES)).any():
            raise refuse("released_", "one row of cuts for each column of numbers")
        if len(released["margins"]) != sum(TableCells.of(columns, cuts).sizes) * self._n_classes:
            raise refuse("released_", "counts of the columns")
        tree = self.released_tree()
        pairs, seconds = released["tree"], released["seconds"]
        cells, n_columns = np.array(tree.cells.sizes), len(columns)
        if pairs.shape != (n_columns - 1, 2) or (np.vstack([pairs, seconds]) >= n_columns).any():
            raise refuse("released_", "a tree of the columns")
        if (
            any(
                len(released[name])
                != (cells[each[:, 0]] * cells[each[:, 1]]).sum() * tree.n_classes
                for name, each in (("pairs", pairs), ("more_pairs", seconds))
            )
            or len(tree.order) != n_columns
            or len(set(seconds[:, 0].tolist())) != len(seconds)
            or not {*map(tuple, seconds.tolist())} <= {each[:2] for each in tree.second_parents}
        ):
            raise refuse("released_", "counts of the columns and of the pairs of a tree")
