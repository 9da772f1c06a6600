"""Fabricated rows: private data that any estimator may be trained on (Definitions 13 and 14)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from sfumato.core.constraints import (
    Form,
    integers,
    labels,
    one_of,
    optional,
    refuse,
    seed,
)
from sfumato.exceptions import InvalidInputError, UnsupportedModeError
from sfumato.models.gaussians import CentredGaussians
from sfumato.privacy.guarantee import Unit
from sfumato.sums.counts import EDGES
from sfumato.sums.elsewhere import is_row_dataset
from sfumato.sums.maps import IntoUnitCube
from sfumato.sums.records import Records
from sfumato.synthetic.engines import PrivateRowsEstimator
from sfumato.synthetic.label_tree import release_tree
from sfumato.synthetic.stored import (
    stored_bins,
    stored_names,
    stored_release,
)
from sfumato.synthetic.tree_masses import LabelTree, ReleasedTree
from sfumato.synthetic.tree_plan import TreePlan, is_tree_worthwhile
from sfumato.synthetic.tree_rows import DeclaredTable
from sfumato.tables.bounds import Bounds
from sfumato.tables.cells import (
    LIBRARIES,
    check_choice,
    check_count,
    checked_column,
    is_out_of_core,
    is_table,
    library_of,
)
from sfumato.tables.schema import TableBounds

METHODS = ("tree", "moments")


LABEL = "label"  # in conditions
CONDITION_SPREAD = 0.05  # of a range, by which Gaussians may miss a condition before it is set
Fixed = tuple[NDArray[np.intp], NDArray[np.float64]]  # places of a row, and what stands there


class Fabricator(PrivateRowsEstimator):
    r"""Make private rows that behave like the rows it has seen.

    .. math:: \tilde Y = A_{\hat Y}(\hat Y), \qquad \hat Y = H^{M-1} Y^+,

    with :math:`Y^+` the private rows of one of three methods: rows drawn from private Gaussians of
    the classes, rows drawn from tables of counts, or rows with noise on each of them (method
    "local"). What is trained on the result costs no further budget.

    Parameters
    ----------
    n_components : int, default=50
        Private directions in which the Gaussians live; capped at the number of features.
    method : {"tree", "moments", "local"}, optional
        "tree" releases tables of counts along a tree of the columns of a table
        and draws rows from them; "moments" draws rows from private Gaussians of the classes;
        "local" puts noise on every single row, which needs no trusted curator and costs most of
        the usefulness. By default "tree" for tables with a `TableBounds`, and "moments" for arrays
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
    epsilon, delta : float, default=1.0, 1e-6
        The budget of the whole fit. ``epsilon=inf`` adds no noise and gives no privacy.
    unit : {"record", "person"}, default="record"
        What is protected: a whole row with its label, or all rows of one ID.
    relation : {"replace_one", "add_or_remove_one"}, default="replace_one"
        The neighbours; "add_or_remove_one" not for the method "local".
    bounds : Bounds or TableBounds
        Public bounds of the rows and the label set; required. With a `TableBounds`, tables are
        taken and tables are given back.
    ledger : DatasetBudget, optional
        The budget that pays; see `sfumato.Ledger`.
    random_state : int, RandomState or None, default=None
        Public randomness: partition, and rows drawn from Gaussians. Never the noise.

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
        Others: the
        fabricated "rows", with the "codes" of their labels.
    library_ : {"pandas", "polars", "pyarrow"} or None
        Whose table was given, and is given back.
    guarantee_ : Guarantee
        The privacy guarantee of the fit.

    Privacy
    -------
    Unit and relation : record with its label, or person, replace_one or add_or_remove_one.
    Released : tables of counts and the edges of cells and of a tree, three or four noisy
        sums, or every row and label with noise. Fitting, clusters, smoothing and drawing see
        released values only.
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
    >>> from sfumato import Bounds
    >>> from sfumato.synthetic.fabricator import Fabricator
    >>> X, y = load_digits(return_X_y=True)
    >>> bounds = Bounds(lower=0.0, upper=16.0, labels=range(10))
    >>> fabricator = Fabricator(
    ...     epsilon=8.0, delta=1e-5, n_components=20, bounds=bounds, random_state=0)
    >>> rows, labels = fabricator.fit_fabricate(X, y)
    >>> forest = RandomForestClassifier(random_state=0).fit(rows, labels)
    >>> rows.shape, bool(forest.score(X, y) > 0.6)
    ((1797, 64), True)
    """

    offered_units: ClassVar[tuple[Unit, ...]] = (Unit.RECORD, Unit.PERSON)
    stored_form: ClassVar[Form] = {
        "unit": one_of("record", "entry", "person"),  # "entry" in files of 0.2.0
        "method": optional(one_of(*METHODS, "local")),  # and "local"
        "method_": optional(one_of(*METHODS, "local")),
        "bins": optional(stored_bins),
        "constraints": stored_names,
        "random_state": seed(),
        "library_": optional(one_of(*LIBRARIES)),
        "classes_": optional(labels("c")),
        "n_smoothing_": optional(integers(None)),  # as this
        "released_": stored_release,
    }

    def __init__(
        self,
        n_components: int = 50,
        *,
        method: str | None = None,
        gaussians_per_class: int | None = None,
        bins: Mapping[str, Sequence[float]] | None = None,
        constraints: Sequence[str] = (),
        epsilon: float = 1.0,
        delta: float = 1e-6,
        unit: str = "record",
        relation: str = "replace_one",
        bounds: Bounds | TableBounds | None = None,
        ledger: Any = None,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.method = method
        self.gaussians_per_class = gaussians_per_class
        self.bins = bins
        self.constraints = constraints
        self.epsilon = epsilon
        self.delta = delta
        self.unit = unit
        self.relation = relation
        self.bounds = bounds
        self.ledger = ledger
        self.random_state = random_state

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
        self.__dict__.pop("method_", None)  # of an earlier fit
        bounds = self._validate_privacy_params()
        if self.method is not None:
            check_choice("method", self.method, METHODS)
        method = self._chosen_method(X)
        is_frame = (is_table(X) or is_out_of_core(X)) and isinstance(self.bounds, TableBounds)
        self.library_ = (library_of(X) if is_table(X) else "pyarrow") if is_frame else None
        self.__dict__.pop("classes_", None)  # of an earlier fit with labels
        self.method_ = method
        if method == "tree":
            records, labels = self._read(self._labelled_places, X, y, groups)
            self._note_labels(labels)
            self._release_tree(records)  # [W1] to [W6]
        else:
            records, labels = self._given(X, y, groups, bounds)
            self._note_labels(labels)
            scale = IntoUnitCube(bounds, records.width)
            released = self._release_gaussians(scale, records, self._n_classes)  # [F1] to [F3]
            self.released_ = {**released.to_record(), "n_rows": records.public_rows}
        return self

    def _given(
        self, X: Any, y: Any, groups: Any, bounds: Bounds
    ) -> tuple[Records, NDArray[Any] | None]:
        """Return records, in memory or elsewhere, and the label set, None without labels."""
        if not (isinstance(X, Records) and is_row_dataset(X)):
            records, labels = self._read(self._rows_and_codes, X, y, groups)
            return records, labels
        records, found = self._records(X, None, bounds)
        return records, None if bounds.labels is None else found

    def _note_labels(self, labels: NDArray[Any] | None) -> None:
        if labels is not None:
            self.classes_ = labels

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
        usual = self.released_["n_rows"] or int(np.rint(counts.sum()))
        sizes = shares_of(counts, n_rows or usual)
        generator = check_random_state(self.random_state)
        return self._draw(generator.permutation(np.repeat(np.arange(len(counts)), sizes)))

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
        released, fixed = self._conditioned(given or {})
        counts = released.gaussians.counts
        generator = check_random_state(self.random_state)
        numbers = generator.choice(len(counts), n_rows, p=counts / counts.sum())
        return self._draw(numbers, released, fixed)

    def _check_stored(self, sizes: dict[str, int]) -> None:
        if self._method == "tree":
            self._check_stored_tree()
            return
        codes = self.released_["codes" if "rows" in self.released_ else "classes"]
        if hasattr(self, "classes_") and codes.max(initial=0) >= sizes["c"]:
            raise refuse("released_", "codes of the labels")

    # The label tree ---------------------------------------------------------------------------

    @property
    def _method(self) -> str:
        return str(getattr(self, "method_", None) or self.method or "moments")

    def _chosen_method(self, X: Any) -> str:
        """Return the method for these rows: a public rule."""
        is_frame = is_table(X) or is_out_of_core(X)
        fits = is_frame and isinstance(self.bounds, TableBounds)
        if self.method == "tree" and not fits:
            raise UnsupportedModeError("method='tree' is for tables with bounds=TableBounds(...).")
        if self.method is not None or not fits:
            return self.method or "moments"
        columns = self._declared_table().columns  # checked before anything is charged
        if self.bins or self.constraints or self._n_is_secret or is_out_of_core(X):
            return "tree"  # a table that is not in memory is a long one
        n_numbers = sum(not column.n_categories for column in columns)
        worthwhile = is_tree_worthwhile(
            len(X), len(columns), n_numbers, epsilon=self.epsilon, delta=self.delta
        )
        return "tree" if worthwhile else "moments"

    def _declared_table(self) -> DeclaredTable:
        assert isinstance(self.bounds, TableBounds)  # noqa: S101 - asked of tables only
        return DeclaredTable.of(self.bounds, bins=self.bins, constraints=self.constraints)

    @property
    def _n_classes(self) -> int:
        return len(self.classes_) if hasattr(self, "classes_") else 1

    def _labelled_places(
        self, X: Any, y: Any
    ) -> tuple[NDArray[np.float64], NDArray[np.intp], NDArray[Any] | None]:
        """Return a place per column, the numbers of labels and the label set."""
        table = self._declared_table()
        _, codes, labels = self._rows_and_codes(X, y)
        return table.places(table.bounds.cells(X)), codes, labels

    def _release_tree(self, records: Records) -> None:
        table = self._declared_table()
        plan = TreePlan.of(
            records, table.columns, self._n_classes, epsilon=self.epsilon, delta=self.delta
        )
        plan.check_memory()
        receipt = self._charge(*plan.mechanisms())  # charge all, then draw
        self.released_ = vars(release_tree(records, plan, receipt))
        self.guarantee_ = self._guarantee(receipt)

    def released_tree(self) -> tuple[DeclaredTable, LabelTree]:
        """Return what is public about the table, and the tree that was released of it.

        Returns
        -------
        table : DeclaredTable
            Cells of the columns and constraints.
        tree : LabelTree
            Masses of the released counts.
        """
        check_is_fitted(self)
        if self._method != "tree":
            raise UnsupportedModeError("Only the method 'tree' has a tree: set method='tree'.")
        table = self._declared_table()
        return table, table.tree(ReleasedTree(**self.released_), self._n_classes)

    def _draw_tree(self, n_rows: int | None, given: Mapping[str, Any]) -> Any:
        table, tree = self.released_tree()
        conditions, code = self._given_label(given)
        generator = check_random_state(self.random_state)
        cells, codes = table.draw(tree, n_rows or tree.n_rows, generator, conditions, code)
        made = self._encoder.from_cells(cells, library=getattr(self, "library_", None) or "pyarrow")
        return (made, self.classes_[codes]) if hasattr(self, "classes_") else made

    def _given_label(self, given: Mapping[str, Any]) -> tuple[dict[str, Any], int | None]:
        """Part conditions into those of columns and the number of the label."""
        conditions, code = dict(given), None
        target = getattr(self.bounds, "target", None)
        for name in (LABEL, *(() if target is None else (target.name,))):
            if hasattr(self, "classes_") and name in conditions:
                (found,) = np.nonzero(self.classes_ == conditions.pop(name))
                if not len(found):
                    raise InvalidInputError(f"'given' has an unknown label: {given[name]!r}.")
                code = int(found[0])
        return conditions, code

    def _check_stored_tree(self) -> None:
        if not isinstance(self.bounds, TableBounds) or "margins" not in self.released_:
            raise refuse("released_", "tables of counts of a table")
        cuts, most = self.released_["cuts"], self.released_["most_values"]
        columns = self._declared_table().columns_with(most)
        if len(cuts) != sum(c.is_cut for c in columns) or (cuts > len(EDGES)).any():
            raise refuse("released_", "one row of cuts for each column of numbers")
        tree = self.released_tree()[1]
        if len(self.released_["margins"]) != sum(tree.fine.sizes) * tree.n_classes:
            raise refuse("released_", "counts of the columns")
        pairs, seconds = self.released_["tree"], self.released_["seconds"]
        cells, n_columns = np.array(tree.cells.sizes), len(tree.cells.sizes)
        if pairs.shape != (n_columns - 1, 2) or (np.vstack([pairs, seconds]) >= n_columns).any():
            raise refuse("released_", "a tree of the columns")
        counts = (("pairs", _joint(cells, pairs)), ("more_pairs", _joint(cells, seconds)))
        if (
            any(len(self.released_[name]) != n * tree.n_classes for name, n in counts)
            or len(tree.order) != n_columns
            or len(set(seconds[:, 0].tolist())) != len(seconds)
            or not {*map(tuple, seconds.tolist())} <= {each[:2] for each in tree.second_parents}
        ):
            raise refuse("released_", "counts of the columns and of the pairs of a tree")

    # Before the release -----------------------------------------------------------------------

    def _rows_and_codes(
        self, X: Any, y: Any
    ) -> tuple[NDArray[np.float64], NDArray[np.intp], NDArray[Any] | None]:
        """Return rows, the numbers of labels and the label set, None without labels."""
        rows = self._check_rows(X)
        if y is None:
            return rows, np.zeros(len(rows), dtype=np.intp), None
        return rows, *self.row_bounds.clip_labels(checked_column(self, y, len(rows)))

    # After the release ------------------------------------------------------------------------

    def _conditioned(self, given: Mapping[str, Any]) -> tuple[CentredGaussians, Fixed]:
        """Return the Gaussians under conditions, and what rows have at which places."""
        released = CentredGaussians.from_record(self.released_)
        conditions, code = self._given_label(given)
        fixed = np.empty(0, dtype=np.intp), np.empty(0)
        if conditions and not isinstance(self.bounds, TableBounds):
            raise UnsupportedModeError("Conditions ('given') on columns are for tables.")
        if conditions:
            fixed = self._declared_table().encoded(conditions, self._encoder)
            released = released.given(*fixed, CONDITION_SPREAD)
        if code is not None:
            counts = np.where(released.classes == code, released.gaussians.counts, 0.0)
            released = replace(released, gaussians=replace(released.gaussians, counts=counts))
        return released, fixed

    def _draw(
        self,
        numbers: NDArray[np.intp],
        released: CentredGaussians | None = None,
        fixed: Fixed | None = None,
    ) -> Any:
        """Draw one row from the Gaussian of each number."""
        released = released or CentredGaussians.from_record(self.released_)
        generator = check_random_state(self.random_state)
        drawn = np.empty((len(numbers), released.basis.shape[1]))
        for number in np.unique(numbers):
            mine = numbers == number
            drawn[mine] = released.sample(int(number), int(mine.sum()), generator)
        scaled = released.to_rows(drawn)
        rows = IntoUnitCube(self.row_bounds, scaled.shape[1]).to_rows(scaled)
        if isinstance(self.bounds, TableBounds):
            scores = self._encoder.are_scores
            rows[:, scores] = scaled[:, scores]  # clipped, rare categories would gain
        if fixed is not None:
            rows[:, fixed[0]] = fixed[1]
        return self._answer(rows, released.classes[numbers])

    def _answer(self, rows: NDArray[np.float64], codes: NDArray[np.intp]) -> Any:
        table: Any = rows
        library = getattr(self, "library_", None)  # a stored model may come without it
        if library is not None:
            table = self._encoder.inverse_transform(rows, library=library)
        return (table, self.classes_[codes]) if hasattr(self, "classes_") else table


def _joint(cells: NDArray[np.intp], pairs: NDArray[np.intp]) -> int:
    """Cells of all pairs together."""
    return int((cells[pairs[:, 0]] * cells[pairs[:, 1]]).sum())


def shares_of(counts: NDArray[np.float64], n_rows: int) -> NDArray[np.intp]:
    """Divide `n_rows` by the private counts, at least one row a Gaussian as long as they last."""
    sizes = np.zeros(len(counts), dtype=np.intp)
    sizes[np.argsort(-counts, kind="stable")[:n_rows]] = 1
    left = n_rows - int(sizes.sum())
    ends = np.rint(np.cumsum(counts / counts.sum()) * left).astype(np.intp)
    return np.asarray(sizes + np.diff(ends, prepend=0))
