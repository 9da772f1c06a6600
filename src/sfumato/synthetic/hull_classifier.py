"""The private classifier of the nearest hull (Definitions 12 and 15)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from importlib import import_module
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from sfumato.core.arrays import Array, cast, like, namespace_of
from sfumato.core.constraints import (
    Form,
    integers,
    labels,
    model_of,
    one_of,
    optional,
    or_none,
    whole,
)
from sfumato.exceptions import InvalidInputError
from sfumato.models.base import PrivateEstimator
from sfumato.models.gaussians import CentredGaussians, ClassGaussianSums
from sfumato.models.hull_search import Branch, RowGroups, fit_branches
from sfumato.models.hulls import AffineHullClassifier, wide_hull
from sfumato.models.rows import PRECISIONS
from sfumato.privacy.composition import compose
from sfumato.privacy.guarantee import Unit
from sfumato.sums.maps import IntoUnitBall, IntoUnitCube

BRANCH_OF_DRAWN_ROWS = 1000
DEFAULT_SAMPLES = 2000
MAX_SAMPLES = 80_000  # of all Gaussians together
MIN_SAMPLES = 4  # of a Gaussian, per direction


def _asked(method: Callable[..., Any]) -> Callable[..., Any]:
    """Ask the hulls of private rows what this method of theirs answers."""

    @functools.wraps(method)
    def answer(self: Any, X: ArrayLike, **options: Any) -> NDArray[Any]:
        found: NDArray[Any] = self._answers(method.__name__, X, **options)
        return found

    return answer


class HullAnswers(ClassifierMixin, PrivateEstimator):
    """Base of classifiers by hulls of private rows: what they answer, and how they are merged."""

    scales_columns: ClassVar[bool] = False  # rows are seen in the unit cube
    learned: ClassVar[Form] = {
        "classes_": labels("c"),
        "classifier_": model_of("AffineHullClassifier", n_features_in_="d", classes_="c"),
        "n_smoothing_": optional(integers(None)),  # of rows that were smoothed
    }

    hull_components: int
    device: str | None
    classes_: NDArray[Any]
    classifier_: AffineHullClassifier

    def _hull_settings(self) -> dict[str, Any]:
        """Return the settings of hulls; refuse a device that PyTorch does not have here."""
        try:
            if self.device is not None:
                import_module("torch").empty(0, device=self.device)
        except (ImportError, RuntimeError, AssertionError, TypeError):
            raise InvalidInputError(
                "'device' must be one that PyTorch has on this machine, or None. "
                f"Got {self.device!r}."
            ) from None
        shared = {name: getattr(self, name) for name in ("n_layers", "dtype", "n_jobs")}
        return {"n_components": self.hull_components, **shared}

    def _answers(self, method: str, X: ArrayLike, **options: Any) -> NDArray[Any]:
        """Ask the hulls about rows, in the coordinates of the hulls."""
        queries = self._queries(self._rows(X))
        return np.asarray(getattr(self.classifier_, method)(queries, **options))

    def _queries(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return rows in the coordinates of the hulls; printed ones have those of the data."""
        return np.asarray(IntoUnitCube(self.row_bounds, rows.shape[1]).scaled(rows))

    predict = _asked(AffineHullClassifier.predict)
    distances = _asked(AffineHullClassifier.distances)
    decision_function = _asked(AffineHullClassifier.decision_function)
    matching_score = _asked(AffineHullClassifier.matching_score)
    predict_proba = _asked(AffineHullClassifier.predict_proba)

    def merge(self, *others: HullAnswers) -> Self:
        """Return the classifier with the hulls of all parties, class by class (104).

        The guarantee of the result is for a person who may have records at every party: the
        promises add up. Where each person is at one party only, the largest of them holds.

        Parameters
        ----------
        *others : PrivateAffineHullClassifier
            Fitted by other parties with the same bounds.

        Returns
        -------
        PrivateAffineHullClassifier
            The merged classifier.
        """
        parties: list[HullAnswers] = [self, *others]
        for party in parties:
            check_is_fitted(party)
            if (party.bounds, party.unit) != (self.bounds, self.unit):
                raise InvalidInputError("Only classifiers of the same bounds and unit are merged.")
        merged: Self = clone(self)
        merged.n_features_in_ = self.n_features_in_
        merged.classifier_ = self.classifier_.merge(*(party.classifier_ for party in others))
        merged.classes_ = merged.classifier_.classes_
        merged.guarantee_ = compose(*(party.guarantee_ for party in parties))
        return merged


@dataclass(eq=False, repr=False)
class PrivateAffineHullClassifier(HullAnswers):
    r"""Assign a point the label of the class whose hull of private rows has the nearest image.

    .. math:: \hat c(y) = \arg\min_c \|y - W_c(y)\|, \qquad W_c \text{ fitted on private rows only.}

    Parameters
    ----------
    n_components : int, default=50
        Private directions in which the Gaussians live; capped at the number of features.
    hull_components : int, default=20
        Subspace dimension n of the hulls; capped by the rank of each branch.
    n_layers : int, default=5
        Number of layers L; one is often as accurate and five times as fast.
    gaussians_per_class : {1, 2, 4}, optional
        Gaussians that make up a class; by default as many as epsilon, the number of rows (where it
        is public), of labels and of `n_components` allow.
    samples_per_gaussian : int, optional
        Rows drawn from each of them; by default 2000, and fewer where there are more than 40
        Gaussians, so that they are 80,000 together, but never below 4 per direction. The work
        grows with their number squared.
    branch_size : int, optional
        Rows per branch; by default about 1000.
    dtype : {"float64", "float32"}, default="float64"
        Precision of the stored hulls and of their answers.
    device : str, optional
        A PyTorch device such as "cuda" on which hulls are fitted and evaluated; NumPy otherwise.
    n_jobs : int, optional
        Workers for branches and for batches of queries, see joblib.
    random_state : int, RandomState or None, default=None
        Public randomness: rows drawn from Gaussians. Never the noise.
    $shared

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels that have hulls, sorted.
    classifier_ : AffineHullClassifier
        The hulls, in the coordinates of the unit cube for a box and of the rows else.
    guarantee_ : Guarantee
        The privacy guarantee of the fit.

    Privacy
    -------
    Unit and relation : record with its label, replace_one or add_or_remove_one.
    Released : three or four noisy sums. Rows are drawn from released Gaussians, and hulls are
        fitted to them.
    Sensitivity : 2, √2, 1.25·√2 and 1.25·√2 (replace) in the unit ball.
    Guarantee : (epsilon, delta) for the record.
    Assumptions and numerics : bounds and label set are public; sums are exact, noise is
        float-safe. Proof: docs/guarantees/hull-classifier.md.

    See Also
    --------
    GaussianFabricator : The private rows themselves.
    AffineHullClassifier : The same without privacy.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sfumato import Bounds, PrivateAffineHullClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> bounds = Bounds(lower=0.0, upper=16.0, labels=range(10))
    >>> model = PrivateAffineHullClassifier(
    ...     n_layers=1, epsilon=8.0, delta=1e-5, n_components=20, samples_per_gaussian=200,
    ...     bounds=bounds, random_state=0)
    >>> bool(model.fit(X, y).score(X, y) > 0.7)
    True
    """

    n_components: int = 50
    _: KW_ONLY
    hull_components: int = 20
    n_layers: int = 5
    gaussians_per_class: int | None = None
    samples_per_gaussian: int | None = None
    branch_size: int | None = None
    dtype: str = "float64"
    device: str | None = None
    n_jobs: int | None = None
    random_state: Any = None

    offered_units: ClassVar[tuple[Unit, ...]] = (Unit.RECORD,)
    has_labels: ClassVar[bool | None] = True
    in_unit_ball: ClassVar[bool] = False  # its rows are seen in the unit cube first
    parameters: ClassVar[Form] = {
        "n_components": whole(least=1),
        "hull_components": whole(least=1),
        "n_layers": whole(least=1),
        "gaussians_per_class": one_of(None, 1, 2, 4),
        "samples_per_gaussian": or_none(whole(least=1)),
        "branch_size": or_none(whole(least=1)),
        "dtype": one_of(*PRECISIONS),
    }

    def fit(self, X: Any, y: ArrayLike | None = None) -> Self:
        """Release private rows and fit one wide hull a class on them.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or Federation
            Rows.
        y : array-like of shape (n_samples,)
            Labels.

        Returns
        -------
        Self
            The fitted estimator.
        """
        shared = self._hull_settings()
        records, budget = self._begin(X, y)
        scale = IntoUnitCube(self.row_bounds, records.width)
        into_ball = IntoUnitBall(scale.inner_bounds, records.width)
        sums = ClassGaussianSums(  # [H1] the budget divided
            budget,
            records.mapped(scale).mapped(into_ball),
            n_classes=len(self.classes_),
            n_components=min(self.n_components, records.width),
            n_parts=self.gaussians_per_class,
        )
        budget.charge()
        released = sums.draw().in_units_of(scale.inner_bounds)  # [H2] the releases
        self.guarantee_ = budget.guarantee()
        private = self._drawn(released)  # [H3] post-processing from here on
        branches = fit_branches(private.groups(self.device), **shared)
        branches = [_lifted(branch, released) for branch in branches]
        self.classes_ = self.classes_[np.unique(private.classes)]
        self.classifier_ = hulls_of_branches(
            branches, private, self.classes_, self.n_features_in_, **shared
        )
        return self

    def _drawn(self, released: CentredGaussians) -> BranchedRows:
        """Draw rows from every Gaussian, in coordinates of mean square about 1, and cut them."""
        generator = check_random_state(self.random_state)
        n_gaussians, k = released.means.shape
        shared = max(MAX_SAMPLES // n_gaussians, MIN_SAMPLES * k)
        n_rows = self.samples_per_gaussian or min(DEFAULT_SAMPLES, shared)
        drawn = [released.sample(number, n_rows, generator) for number in range(n_gaussians)]
        n_cuts = -(-n_rows // (self.branch_size or BRANCH_OF_DRAWN_ROWS))
        # Rows are drawn independently, so that every n-th of them is as good as a random choice.
        places = [
            np.arange(number * n_rows + first, (number + 1) * n_rows, n_cuts)
            for number in range(n_gaussians)
            for first in range(n_cuts)
        ]
        classes = np.repeat(released.classes, n_cuts).tolist()
        return BranchedRows(np.concatenate(drawn) * np.sqrt(k), places, classes)


@dataclass(frozen=True)
class BranchedRows:
    """Rows cut into branches, each of one class.

    rows (n_rows, n_features): Private rows.
    places: Which rows make each branch.
    classes: Class code of each branch.
    """

    rows: NDArray[np.float64]
    places: list[NDArray[np.intp]]
    classes: list[int]

    def groups(self, device: str | None) -> Sequence[Array]:
        """Return the rows of each branch, on an accelerator if one is named."""
        return RowGroups(on_device(self.rows, device), self.places)


def on_device(rows: NDArray[np.float64], device: str | None) -> Array:
    """Return rows as an array of PyTorch on a device; without one they stay as they are."""
    return rows if device is None else import_module("torch").as_tensor(rows, device=device)


def hulls_of_branches(
    branches: list[Branch],
    private: BranchedRows,
    labels: NDArray[Any],
    n_features: int,
    **parameters: Any,
) -> AffineHullClassifier:
    """Wrap fitted branches into the classifier without privacy, one wide hull a class."""
    classifier = AffineHullClassifier(**parameters)
    classifier.hulls_ = []
    for code in np.unique(private.classes):
        mine = [i for i, owner in enumerate(private.classes) if owner == code]
        classifier.hulls_.append(wide_hull([branches[i] for i in mine], **parameters))
    classifier.classes_ = labels
    classifier.n_features_in_ = n_features
    return classifier


def _lifted(branch: Branch, released: CentredGaussians) -> Branch:
    """Move a branch from the coordinates ``√k Uᵀ(x - c)/r`` to those of x; distances follow."""
    xp = namespace_of(branch["mean"])
    dtype = "float32" if branch["inducing"].dtype == xp.float32 else "float64"
    unit = released.radius / float(np.sqrt(released.basis.shape[1]))
    directions = like(branch["mean"], released.basis)
    basis = directions
    for factor in branch["basis"]:
        basis = basis @ cast(factor, "float64")
    image, sums = branch["coefficients"][..., :-2], branch["coefficients"][..., -2:]
    return {
        **branch,
        "mean": like(branch["mean"], released.centre) + unit * (directions @ branch["mean"]),
        "basis": [cast(basis, dtype)],
        "deviations": branch["deviations"] * unit,
        "coefficients": xp.concat([image * unit, sums], axis=-1),
    }
