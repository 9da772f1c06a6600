"""Fabricated rows: private data that any estimator may be trained on (Definitions 13 and 14)."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from sfumato.bounds import Bounds
from sfumato.exceptions import InvalidInputError, UnsupportedModeError
from sfumato.guarantee import Relation
from sfumato.hulls.engines import ENGINES, BranchedRows, PrivateRowsEstimator
from sfumato.hulls.partition import PARTITIONS
from sfumato.hulls.public_rules import BranchPlan, PublicScale
from sfumato.hulls.rows import check_count
from sfumato.hulls.smoothing import MOST_PASSES
from sfumato.kernels.arrays import to_numpy
from sfumato.moments.gaussians import CentredGaussians, ClassGaussians, stored_gaussians
from sfumato.persistence.forms import (
    Form,
    integers,
    labels,
    numbers,
    one_of,
    optional,
    real,
    record,
    refuse,
    seed,
    whole,
)
from sfumato.sums.grid import MOST_ROWS
from sfumato.tables import TableForm, is_table
from sfumato.tables.encoding import TableEncoding
from sfumato.tables.form import PUBLIC_TYPES

__all__ = ["Fabricator"]

BRANCH_OF_DRAWN_ROWS = 1000


def _stored_bounds(value: Any, place: str, sizes: dict[str, int]) -> None:  # noqa: ARG001
    """Bounds of columns; how they fit those of a table is asked of the whole model."""
    if not isinstance(value, Bounds):
        raise refuse(place, "public bounds")


def _stored_table(value: Any, place: str, sizes: dict[str, int]) -> None:
    form = TableForm.from_dict(value)
    sizes["e"] = form.n_numbers
    if len(form.columns) != sizes["d"] or len(form.is_category) != sizes["e"]:
        raise refuse(place, f"a table of {sizes['d']} columns")
    if form.library in sys.modules:
        form.decode(np.zeros((1, sizes["e"])))


_gaussians = record(
    centre=numbers("e"),
    basis=numbers("e", "k"),
    radius=real(above=0.0),
    classes=integers("g"),
    n_rows=optional(whole(least=1, most=MOST_ROWS)),
    **stored_gaussians(),
)
_rows = record(rows=numbers("n", "e"), codes=integers("n"))


def _stored_release(value: Any, place: str, sizes: dict[str, int]) -> None:
    sizes.setdefault("e", sizes["d"])
    (_rows if isinstance(value, dict) and "rows" in value else _gaussians)(value, place, sizes)


class Fabricator(PrivateRowsEstimator):
    r"""Make private rows that behave like the rows it has seen.

    .. math:: \tilde Y = A_{\hat Y}(\hat Y), \qquad \hat Y = H^{M-1} Y^+,

    with :math:`Y^+` the private rows of one of three engines: rows drawn from private Gaussians of
    the classes (unit "record"), rows with noise on each of them (engine "local"), or noise on
    every entry (unit "entry"). What is trained on the result costs no further budget.

    Parameters
    ----------
    n_components : int, default=20
        Subspace dimension n of the smoothing hulls.
    engine : {"moments", "local"}, default="moments"
        With unit "record": "moments" draws rows from private Gaussians of the classes; "local"
        puts noise on every single row, which needs no trusted curator and costs most of the
        use. Not used with unit "entry".
    pca_components : int, default=50
        Private directions in which the Gaussians live; capped at the number of features.
    gaussians_per_class : {1, 2, 4}, optional
        Gaussians that make up a class; by default as many as epsilon, the number of rows (where it
        is public), of labels and of `pca_components` allow.
    branch_size : int, optional
        Rows that are smoothed together; by default chosen from epsilon, `entry_bound` and the
        number of features.
    partition : {"kmeans", "random"}, optional
        How private rows are cut into branches; by default chosen along with `branch_size`.
    n_smoothing : int, optional
        Passes M of the smoother; by default 2, or 1 where the noise is small, and none for rows
        drawn from Gaussians.
    smoothing_ratio : float, optional
        Stop at the first pass whose error is at most this share of that of the first pass.
    categories : dict of str to sequence, optional
        Public list of the possible values of each column of a table that does not hold numbers.
        With unit "record" only.
    types : dict of str to str, or str, optional
        Public type of every other column of a table, by its Arrow name, such as "double", "int64"
        or "bool"; or one name for all of them. Required for a table. Each cell is read as the type
        of its column, and one that is not is missing. "public" declares that the types of the
        table are public knowledge, though a single cell can change them; the guarantee says so.
    epsilon, delta : float, default=1.0, 1e-6
        The budget of the whole fit, for one record or for one entry. ``epsilon=inf`` adds no
        noise and gives no privacy.
    unit : {"record", "entry"}, default="record"
        What is protected: a whole row with its label, or one number of one row.
    relation : {"replace_one", "add_or_remove_one"}, default="replace_one"
        The neighbours; "add_or_remove_one" for the engine "moments" only.
    mode : {"strict", "paper"}, default="strict"
        "paper" (unit "entry" only) clusters the raw rows and stops by their error, as printed.
        That keeps no promise; the guarantee says so.
    bounds : Bounds
        Public bounds of the rows and the label set; required. For a table with categories, a box
        gives one number for each column of numbers. Unit "entry" needs a box.
    entry_bound : float, optional
        The largest protected change d of one entry; by default any change inside the box.
    atom : bool, default=False
        With unit "entry", publish each entry exactly with probability `delta`, as the paper does.
    ledger : DatasetBudget, optional
        Who pays; see `sfumato.Ledger`.
    device : str, optional
        A PyTorch device such as "cuda" on which rows are smoothed; NumPy else.
    n_jobs : int, optional
        Workers for branches, see joblib.
    verbose : bool, default=False
        Show a progress bar.
    random_state : int, RandomState or None, default=None
        Public randomness: partition, and rows drawn from Gaussians. Never the noise.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, where some were given.
    released_ : dict
        What `fabricate` needs. Engine "moments": "counts", "means" and "covariances" of Gaussians,
        the "classes" they belong to, and the "centre", "basis" and "radius" of their coordinates.
        Others: the
        fabricated "rows", with the "codes" of their labels.
    n_smoothing_ : ndarray of shape (n_branches,)
        Passes of the smoother for each branch. Drawn rows are smoothed when they are drawn, each
        branch by `n_smoothing` passes at most, so for them it is set by `fabricate` and `sample`.
    table_ : dict or None
        Names and types of the columns of a table.
    guarantee_ : Guarantee
        What is promised.

    Privacy
    -------
    Unit and relation : record with its label, replace_one or add_or_remove_one; or one entry,
        changed by at most d, where labels and class sizes are public.
    Released : record: three or four noisy sums, or every row and label with noise. Entry: every
        entry with noise. Clusters, smoothing and drawing see released values only.
    Sensitivity : record: 2, √2, 1.25·√2 and 1.25·√2 (replace) in the unit ball; entry: d.
    Guarantee : (epsilon, delta) for the unit; at entry level the figure for a whole record is
        stated beside it. Mode "paper": refuted.
    Assumptions and numerics : bounds, label set, and names, types and categories of the columns
        of a table are public; sums are exact, noise is float-safe.
        Proof: docs/guarantees/fabrication.md.

    See Also
    --------
    PrivateAffineHullClassifier : Hulls on such rows.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from sfumato import Bounds
    >>> from sfumato.hulls.fabrication import Fabricator
    >>> X, y = load_digits(return_X_y=True)
    >>> bounds = Bounds(lower=0.0, upper=16.0, labels=range(10))
    >>> fabricator = Fabricator(
    ...     epsilon=8.0, delta=1e-5, pca_components=20, bounds=bounds, random_state=0)
    >>> rows, labels = fabricator.fit_fabricate(X, y)
    >>> forest = RandomForestClassifier(random_state=0).fit(rows, labels)
    >>> rows.shape, bool(forest.score(X, y) > 0.6)
    ((1797, 64), True)
    """

    # The time of a pass grows with the square of the branch, its use beyond this hardly.
    largest_branch: ClassVar[int] = 3000

    stored_form: ClassVar[Form] = {
        "unit": one_of("record", "entry"),
        "engine": one_of(*ENGINES),
        "mode": one_of("strict", "paper"),
        "random_state": seed(),
        "bounds": _stored_bounds,
        "table_": optional(_stored_table),
        "classes_": optional(labels("c")),
        "n_smoothing_": optional(integers(None)),
        "released_": _stored_release,
        "n_smoothing": optional(whole(most=MOST_PASSES)),
        "smoothing_ratio": optional(real(least=0.0)),
        "n_components": whole(least=1),
        "partition": optional(one_of(*PARTITIONS)),
        "branch_size": optional(whole(least=1)),
    }

    def __init__(
        self,
        n_components: int = 20,
        *,
        engine: str = "moments",
        pca_components: int = 50,
        gaussians_per_class: int | None = None,
        branch_size: int | None = None,
        partition: str | None = None,
        n_smoothing: int | None = None,
        smoothing_ratio: float | None = None,
        categories: Mapping[str, Sequence[Any]] | None = None,
        types: Mapping[str, str] | str | None = None,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        unit: str = "record",
        relation: str = "replace_one",
        mode: str = "strict",
        bounds: Bounds | None = None,
        entry_bound: float | None = None,
        atom: bool = False,
        ledger: Any = None,
        device: str | None = None,
        n_jobs: int | None = None,
        verbose: bool = False,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.engine = engine
        self.pca_components = pca_components
        self.gaussians_per_class = gaussians_per_class
        self.branch_size = branch_size
        self.partition = partition
        self.n_smoothing = n_smoothing
        self.smoothing_ratio = smoothing_ratio
        self.categories = categories
        self.types = types
        self.epsilon = epsilon
        self.delta = delta
        self.unit = unit
        self.relation = relation
        self.mode = mode
        self.bounds = bounds
        self.entry_bound = entry_bound
        self.atom = atom
        self.ledger = ledger
        self.device = device
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Release what rows can be made from.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,), optional
            Labels, fabricated along with the rows.

        Returns
        -------
        Self
            The fitted estimator.
        """
        bounds = self._check_promise()
        rows, bounds = self._numbers(X, bounds)
        codes, labels = self._codes(rows, y, bounds)
        self.__dict__.pop("classes_", None)  # of an earlier fit with labels
        if labels is not None:
            self.classes_ = labels
        self._warn_if_weak(len(rows))
        scale = PublicScale(bounds, rows.shape[1])
        n_classes = 1 if labels is None else len(labels)

        if self._draws_rows:
            released = self._release_gaussians(scale, rows, codes, n_classes)  # [F1] to [F3]
            is_public = self.relation == Relation.REPLACE_ONE
            self.released_ = _as_dict(released, len(rows) if is_public else None)
        else:
            private, codes = self._release_rows(scale, rows, codes, n_classes)  # [F4] to [F8]
            passes = self._passes(private)
            fabricated = self._in_order(private, self._fabricated(private, passes))
            self.released_ = {"rows": scale.to_rows(fabricated), "codes": codes}
        return self

    def fabricate(self) -> Any:
        """Give the fabricated rows, as a table if the rows seen were one.

        Returns
        -------
        rows : ndarray or table
            As many as were seen under "replace_one", about as many else.
        labels : ndarray
            Only where labels were given.
        """
        check_is_fitted(self)
        if not self._draws_rows:
            return self._answer(self.released_["rows"].copy(), self.released_["codes"])
        counts = self.released_["counts"]
        sizes = _shares_of(counts, self.released_["n_rows"] or int(np.rint(counts.sum())))
        generator = check_random_state(self.random_state)
        return self._draw(generator.permutation(np.repeat(np.arange(len(counts)), sizes)))

    def fit_fabricate(self, X: Any, y: Any = None) -> Any:
        """Fit, then fabricate.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,), optional
            Labels.

        Returns
        -------
        rows, or rows and labels
            As `fabricate` gives them.
        """
        return self.fit(X, y).fabricate()

    def sample(self, n_rows: int) -> Any:
        """Draw any number of rows, labels at their private shares; costs no further budget.

        Parameters
        ----------
        n_rows : int
            Number of rows; with the engine "moments" only.

        Returns
        -------
        rows, or rows and labels
            As `fabricate` gives them.
        """
        check_is_fitted(self)
        check_count("n_rows", n_rows)
        if not self._draws_rows:
            raise UnsupportedModeError(
                "Only unit 'record' with engine 'moments' can draw more rows; this one has made "
                "one row for each row it has seen: call fabricate()."
            )
        counts = self.released_["counts"]
        generator = check_random_state(self.random_state)
        return self._draw(generator.choice(len(counts), n_rows, p=counts / counts.sum()))

    def _check_stored(self, sizes: dict[str, int]) -> None:
        if self._draws_rows != ("counts" in self.released_):
            raise refuse("released_", "what this unit and engine release")
        codes = self.released_["classes" if self._draws_rows else "codes"]
        if hasattr(self, "classes_") and codes.max(initial=0) >= sizes["c"]:
            raise refuse("released_", "codes of the labels")
        self._encoded_bounds().ball(sizes["e"])

    # Before the release -----------------------------------------------------------------------

    def _numbers(self, X: Any, bounds: Bounds) -> tuple[NDArray[np.float64], Bounds]:
        """Check the rows; a table becomes numbers, and its bounds follow."""
        self.table_: dict[str, Any] | None = None
        if not is_table(X):
            if self.categories:
                raise InvalidInputError("'categories' are for tables with named columns only.")
            return self._check_rows(X), bounds
        if self.categories and self._is_entry:
            raise InvalidInputError(
                "'categories' need unit 'record': a category is several entries of a row, and the "
                "promise for one entry would not cover it. Leave such columns out."
            )
        form = TableForm.of(X, self.categories, self.types)
        encoded = form.encoded_bounds(bounds)
        rows = self._check_rows(form.encode(X), bounds=encoded)
        self.table_ = form.to_dict()
        self.feature_names_in_ = np.array(form.columns, dtype=object)
        self.n_features_in_ = len(form.columns)
        return rows, encoded

    def _public_facts(self) -> tuple[str, ...]:
        if self.table_ is None:
            return super()._public_facts()
        found = "types of the columns found in the table"
        declared = "names, types and categories of the columns"
        facts = (declared, found) if self.types == PUBLIC_TYPES else (declared,)
        return super()._public_facts() + facts

    def _codes(
        self, rows: NDArray[np.float64], y: Any, bounds: Bounds
    ) -> tuple[NDArray[np.intp], NDArray[Any] | None]:
        if y is None:
            return np.zeros(len(rows), dtype=np.intp), None
        return self._check_labels(rows, y, bounds)

    # After the release ------------------------------------------------------------------------

    def _in_order(self, private: BranchedRows, groups: Sequence[Any]) -> NDArray[np.float64]:
        """Put fabricated rows back to the places of the rows that they stand for."""
        rows = np.empty(private.rows.shape)
        for place, group in zip(private.places, groups, strict=True):
            rows[place] = to_numpy(group)
        return rows

    def _draw(self, numbers: NDArray[np.intp]) -> Any:
        """Draw one row from the Gaussian of each number."""
        released = _from_dict(self.released_)
        generator = check_random_state(self.random_state)
        drawn = np.empty((len(numbers), released.basis.shape[1]))
        for number in np.unique(numbers):
            mine = numbers == number
            drawn[mine] = released.sample(int(number), int(mine.sum()), generator)
        drawn = self._smoothed(drawn, numbers)
        scaled = released.to_rows(drawn)
        rows = PublicScale(self._encoded_bounds(), scaled.shape[1]).to_rows(scaled)
        scores = self._category_scores()
        rows[:, scores] = scaled[:, scores]  # clipped, rare categories would gain
        return self._answer(rows, released.classes[numbers])

    def _category_scores(self) -> NDArray[np.bool_] | slice:
        """Which columns of numbers are scores of categories, of a table or of an encoded one."""
        if self.table_ is not None:
            return TableForm.from_dict(self.table_).is_category
        if hasattr(self, "encoding_"):  # written by `sfumato.pipeline`
            return TableEncoding.from_dict(self.encoding_).form.is_category
        return slice(0)

    def _smoothed(
        self, drawn: NDArray[np.float64], numbers: NDArray[np.intp]
    ) -> NDArray[np.float64]:
        if not self._passes():
            return drawn
        # Coordinates of mean square about 1, the scale for which hulls are made.
        unit = np.sqrt(drawn.shape[1])
        plan = BranchPlan(self.branch_size or BRANCH_OF_DRAWN_ROWS, self.partition or "random")
        private = BranchedRows(drawn * unit, *self._cut(drawn, numbers, plan))
        smoothed = self._in_order(private, self._fabricated(private, self._passes()))
        return np.asarray(smoothed / unit)

    def _encoded_bounds(self) -> Bounds:
        assert self.bounds is not None  # noqa: S101 - checked by fit
        if self.table_ is None:
            return self.bounds
        return TableForm.from_dict(self.table_).encoded_bounds(self.bounds)

    def _answer(self, rows: NDArray[np.float64], codes: NDArray[np.intp]) -> Any:
        table = rows if self.table_ is None else TableForm.from_dict(self.table_).decode(rows)
        return (table, self.classes_[codes]) if hasattr(self, "classes_") else table


def _shares_of(counts: NDArray[np.float64], n_rows: int) -> NDArray[np.intp]:
    """Divide `n_rows` by the private counts, at least one row a Gaussian as long as they last."""
    sizes = np.zeros(len(counts), dtype=np.intp)
    sizes[np.argsort(-counts, kind="stable")[:n_rows]] = 1
    left = n_rows - int(sizes.sum())
    ends = np.rint(np.cumsum(counts / counts.sum()) * left).astype(np.intp)
    return np.asarray(sizes + np.diff(ends, prepend=0))


def _as_dict(released: CentredGaussians, n_rows: int | None) -> dict[str, Any]:
    return {
        "centre": released.centre,
        "basis": released.basis,
        "radius": released.radius,
        "classes": released.classes,
        "n_rows": n_rows,
        **vars(released.gaussians),
    }


def _from_dict(record: Mapping[str, Any]) -> CentredGaussians:
    gaussians = ClassGaussians(record["counts"], record["means"], record["covariances"])
    return CentredGaussians(
        record["centre"], record["basis"], record["radius"], gaussians, record["classes"]
    )
