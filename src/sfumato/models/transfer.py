"""Transfer from a private source to a target with few labels (section 4.2 of the paper).

The released Gaussians of the source say how probable each class is for a target row. From there
expectation-maximisation fits one Gaussian per class to the target, and pseudo labels are improved
in rounds (equations 82 and 83).
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from sfumato.core.arrays import clip_to_finite, to_host
from sfumato.core.constraints import (
    MAX_FLOAT32,
    Form,
    check_parameters,
    flag,
    guarantee,
    labels,
    list_of,
    local,
    model_of,
    numbers,
    one_of,
    optional,
    real,
    record,
    refuse,
    whole,
)
from sfumato.exceptions import InvalidInputError
from sfumato.models.base import PrivateClassifier
from sfumato.models.gaussians import ClassGaussians, ClassGaussianSums, stored_gaussians
from sfumato.models.linear import top_eigenvectors
from sfumato.models.mappings import MembershipClassifier
from sfumato.models.saving import load
from sfumato.privacy.guarantee import Unit
from sfumato.sums.maps import IntoUnitBall, IntoUnitCube
from sfumato.tables.bounds import Bounds, label_places
from sfumato.tables.cells import checked_column, checked_rows, is_table
from sfumato.tables.schema import TableBounds

Array = NDArray[Any]
Codes = NDArray[np.intp]
Gaussians = dict[str, Array]  # counts, means, covariances; of a source also centre, basis, radius
OF_A_SOURCE = ("classes_", "n_source_features_", "source_bounds_", "source_", "source_guarantee_")

# Chosen on rows of USPS and MNIST that no reported accuracy is taken from.
ROUNDS = 15
LABEL_WEIGHT = 5.0  # rows that one labelled row counts for,
LABEL_SHARE = 1 / 250  # or this share of all rows, if that is more
SOURCE_ROWS = 5000.0  # target rows that the source's covariance of a class counts for
POOLED_ROWS = 500.0  # and the pooled covariance, without the source's,
POOLED_SHARE = 1 / 18  # or this share of all rows
SPHERE = 0.15  # standard deviation of a class, by the root mean square length of the rows
MIN_EIGENVALUE = 1e-3  # of the average one
SOURCE, LABELS = "source", "labels"
MIN_ACCURACY = 0.5  # of the moved source on labelled target rows, for it to be the start
UNLABELLED = -1
NOT_PROTECTED = (
    "the changed record is one of the source; the rows and labels of the target are not protected"
)
WARNING = (
    "The target is not protected: the fitted model is made from its raw rows and labels, and "
    "contains projections of single rows. Give it only to people who may see the target."
)
N_FOLDS = 2
MAX_WEIGHT = 0.25  # of a source, next to the target's 1


def _bounds(value: Any, place: str, sizes: dict[str, int]) -> None:
    if not isinstance(value, Bounds):
        raise refuse(place, "public bounds")
    value.ball(sizes["e"])


_moved = local(record(**stored_gaussians()), g="c")
_released = local(
    record(
        centre=numbers("e"), basis=numbers("e", "k"), radius=real(above=0.0), **stored_gaussians()
    ),
    e="e",
    g="c",
)


@dataclass(eq=False, repr=False)
class PrivateTransferClassifier(PrivateClassifier):
    """Transfer by Gaussians of a private source: not the algorithm of the paper.

    The paper's is in `sfumato.papers.cdmma`. This one classifies a target with few labels, helped
    by a private source with many.

    The source releases one Gaussian per class. They label the target's rows. From there the
    Gaussians move to the target (expectation-maximisation), and autoencoders of the classes improve
    the labels in rounds, each row labelled by a model that did not see it. A new row is given to
    the class with the least sum of the standardised errors of autoencoders and, by the weight they
    have earned, of moved Gaussians (in place of the minimum of equation 87).

    Parameters
    ----------
    $shared
        All of these are of the source; its unit is the record. A file of a source has its bounds.
    schedule : tuple of int, default=(5, 10, 15, 20)
        Subspace dimension of the autoencoders in each round.
    n_components : int, default=50
        Private directions in which the source's Gaussians live.
    target_components : int, default=40
        Principal directions of the target in which it is classified.
    use_source : bool, default=True
        False leaves the source out at the target's side: the target-only result to compare with.
    n_jobs : int, optional
        Workers for branches and for batches of queries, see joblib.
    random_state : int, RandomState or None, default=None
        Public randomness: folds and starts of k-means. Never the noise.

    Attributes
    ----------
    $classes
    source_ : dict
        The released Gaussians of the source.
    start_ : {"source", "labels"}
        Whose labels the target began with. The source's, if its Gaussians, moved to the target
        without a label, classify at least half of the labelled rows correctly, and no fewer than
        the means of the other labelled rows do.
    source_weight_ : float
        Weight of the source's Gaussians, moved to the target, in `predict`:
        ``max(0, 2a - 1)² / 4``, a the share of unlabelled target rows that they label as the
        autoencoders do.
    guarantee_ : Guarantee
        That of the source; with a target, on condition that the record is one of the source.
    source_guarantee_ : Guarantee
        What is promised to the people of the source.

    Privacy
    -------
    Unit and relation : a record of the source with its label, replace_one or add_or_remove_one.
        Target rows and labels are not protected, and `fit` warns about it.
    Released : three noisy sums. All else follows from these.
    Sensitivity : 2, √2 and 1.25·√2 (replace) in the unit ball.
    Guarantee : (epsilon, delta) for the record.
    Assumptions and numerics : bounds and label set are public; sums are exact, noise is
        float-safe. Proof: docs/guarantees/transfer.md.

    Notes
    -----
    Source and target must have the same features: map rows of the target (for example images of
    another size) to those of the source.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_digits
    >>> from sfumato import Bounds, PrivateTransferClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> source, target, labels = X[:1000], X[1000:], y[1000:].copy()
    >>> labels[20:] = -1  # few are known
    >>> model = PrivateTransferClassifier(
    ...     epsilon=4.0, delta=1e-5, n_components=20, random_state=0,
    ...     bounds=Bounds(lower=0.0, upper=16.0, labels=range(10)))
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")  # the target is public here
    ...     found = model.fit_predict(source, y[:1000], target, labels)
    >>> bool(np.mean(found == y[1000:]) > 0.8)
    True
    """

    _: KW_ONLY
    schedule: tuple[int, ...] = (5, 10, 15, 20)
    n_components: int = 50
    target_components: int = 40
    use_source: bool = True
    n_jobs: int | None = None
    random_state: Any = None

    offered_units: ClassVar[tuple[Unit, ...]] = (Unit.RECORD,)
    scales_columns: ClassVar[bool] = False  # its rows are seen in the unit cube: `IntoUnitCube`
    in_unit_ball: ClassVar[bool] = False
    loss: ClassVar[str] = "errors"  # scores are no logarithms of probabilities
    parameters: ClassVar[Form] = {
        "schedule": list_of(whole(least=1), kind=(list, tuple)),
        "n_components": whole(least=1),
        "target_components": whole(least=1),
        "use_source": flag(),
    }
    learned: ClassVar[Form] = {
        "n_source_features_": whole("e", least=1),
        "classes_": labels("c"),
        "bounds": optional(lambda *_: None),  # `source_bounds_` is what answers read
        "source_guarantee_": guarantee,
        "target_guarantee_": optional(guarantee),
        "source_": _released,
        "target_": optional(_released),  # of 0.2.0: a target that was released too
        "target_centre_": optional(numbers("d", least=-MAX_FLOAT32, most=MAX_FLOAT32)),
        "target_directions_": optional(numbers("d", "t", least=-2.0, most=2.0)),
        "target_classifier_": optional(model_of("MembershipClassifier")),
        "adapted_": optional(_moved),
        "start_": optional(one_of(SOURCE, LABELS, "shape of the source")),  # the last of 0.2.0
        "source_weight_": optional(real(least=0.0, most=1.0)),
        "source_bounds_": _bounds,
    }

    def fit(
        self,
        source: Any,
        y_source: ArrayLike | None = None,
        target: ArrayLike | None = None,
        y_target: ArrayLike | None = None,
    ) -> Self:
        """Release the source, or read it from a file, and learn to classify the target.

        Parameters
        ----------
        source : array-like of shape (n_source_rows, n_source_features), table or path-like
            Rows of the source; or the file of an estimator that was fitted elsewhere, without a
            target, or a fitted estimator whose source is used again.
        y_source : array-like of shape (n_source_rows,), optional
            Labels of the source's rows.
        target : array-like of shape (n_target_rows, n_target_features), optional
            Without a target only the source's side is made, and `predict` asks the source alone.
        y_target : array-like of shape (n_target_rows,), optional
            Labels of the target's rows, -1 where there is none.

        $self
        """
        self._learn(source, y_source, target, y_target)
        return self

    def fit_predict(
        self, source: Any, y_source: ArrayLike | None, target: ArrayLike, y_target: ArrayLike
    ) -> NDArray[Any]:
        """Fit, and return the labels that the target's rows have in the end.

        A row gets them from models that did not see it, unlike in `predict`. They are not kept:
        a model has no business to hold the labels of the target's people.

        Parameters
        ----------
        source, y_source, target, y_target : array-like
            As in `fit`.

        Returns
        -------
        ndarray of shape (n_target_rows,)
            The labels.
        """
        found = self._learn(source, y_source, target, y_target)
        return np.asarray(self.classes_[found])

    def _learn(self, source: Any, y_source: Any, target: Any, y_target: Any) -> Codes | None:
        """Fit; return the codes of the target's rows, if there is a target."""
        check_parameters(self, self.parameters)
        sums, known = None, {}
        if isinstance(source, str | os.PathLike):
            source = load(source)
        if isinstance(source, BaseEstimator):
            if not isinstance(source, PrivateTransferClassifier) or not hasattr(source, "source_"):
                raise InvalidInputError("'source' must be a fitted PrivateTransferClassifier.")
            known = {name: getattr(source, name) for name in OF_A_SOURCE}
            known["guarantee_"] = known["source_guarantee_"]
            known["n_features_in_"] = known["n_source_features_"]
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)
        self.__dict__.update(known)
        if not known:
            given, budget = self._begin(source, y_source)
            self.source_bounds_, self.n_source_features_ = self.row_bounds, given.width
            records = given.mapped(self._cube)
            records = records.mapped(IntoUnitBall(self._cube.inner_bounds, records.width))
            sums = ClassGaussianSums(  # [T1] the budget divided
                budget,
                records,
                n_classes=len(self.classes_),
                n_components=min(self.n_components, records.width),
                n_parts=1,
            )
        few = None if target is None else self._check_target(target, y_target)
        if sums is not None:  # [T2] everything is checked, then charged, and then drawn
            budget.charge()
            released = sums.draw().in_units_of(self._cube.inner_bounds)  # [T3] the releases
            found = {**vars(released), "radius": np.array(released.radius)}
            self.source_ = {name: each for name, each in found.items() if name != "classes"}
            self.source_guarantee_ = budget.guarantee()  # [T4] post-processing
            self.guarantee_ = self.source_guarantee_
        return None if few is None else self._fit_target(*few)

    @property
    def _cube(self) -> IntoUnitCube:
        """How rows of the source's space are clipped and scaled, by the public bounds."""
        return IntoUnitCube(self.source_bounds_, self.n_source_features_)

    def _check_target(self, target: Any, y_target: Any) -> tuple[Array, Codes]:
        """Check everything about the target; return rows and codes (-1: no label)."""
        rows = self._given_rows(target, reset=True)
        if y_target is None:
            raise InvalidInputError(
                "'y_target' is missing: give one label for each target row, -1 where there is none."
            )
        if rows.shape[1] != self.n_source_features_:
            raise InvalidInputError(
                f"The target has {rows.shape[1]} features, the source {self.n_source_features_}. "
                "Map the rows of the target to those of the source, such as images to one size."
            )
        known = checked_column(self, to_host(y_target), len(rows))
        every_class = None if self.use_source else "a start without the source"
        codes = target_codes(self.classes_, known, every_class=every_class)
        if len(codes) == 1 and codes[0] < 0:
            raise InvalidInputError(
                "The target has one row and no label; a row is labelled by the other rows. Give "
                "at least two."
            )
        return sound_rows(rows), codes

    def _fit_target(self, rows: Array, codes: Codes) -> Codes:
        """Learn to classify the target; return the codes of its rows."""
        warnings.warn(WARNING, stacklevel=5)
        self.guarantee_ = self.source_guarantee_.only_if(NOT_PROTECTED)
        labelled = codes >= 0
        self.target_centre_ = rows.mean(axis=0)
        away = rows - self.target_centre_
        n_kept = min(self.target_components, rows.shape[1])
        self.target_directions_ = top_eigenvectors(away.T @ away, n_kept)[1]
        points = self._target_points(rows)
        known = np.eye(len(self.classes_))[codes] * labelled[:, None]
        there = coordinates_of(self.source_, self._cube.scaled(rows)) if self.use_source else None
        self.start_, self.adapted_ = begin(self.source_, there, points, known)
        found = np.where(labelled, codes, self._adapted_scores(rows).argmax(axis=1))
        generator = check_random_state(self.random_state)
        fit = partial(fit_autoencoders, self, generator, n_layers=1, center=True)
        found = improve_labels(fit, points, found, labelled, self.schedule, generator)
        self.target_classifier_ = fit(points, found, self.schedule[-1])
        self.source_weight_ = 0.0
        if self.use_source:  # earned by agreement with the autoencoders on unlabelled rows
            asked = ~labelled if not labelled.all() else labelled
            answers = self._adapted_scores(rows[asked]).argmax(axis=1)
            agreement = float(np.mean(answers == found[asked]))
            self.source_weight_ = MAX_WEIGHT * max(0.0, 2 * agreement - 1) ** 2
        return found

    # Answers --------------------------------------------------------------------------------

    def terms(self, X: ArrayLike) -> dict[str, NDArray[np.float64]]:
        """Return the errors of each row under each class, one matrix for each term.

        $rows
        dict of ndarray of shape (n_samples, n_classes)
            "target", "source_to_target" and "source". Errors are squared distances, but those of
            Gaussians (both source terms) are minus twice a log-density. Without a target there is
            "source" alone.
        """
        return self._terms(self._rows(X))

    def _terms(self, rows: Array) -> dict[str, NDArray[np.float64]]:
        found = {}
        if hasattr(self, "target_classifier_"):
            rows = sound_rows(rows, self.target_centre_)
            points = self._target_points(rows)
            found["target"] = all_errors(self.target_classifier_, points, len(self.classes_))
            if self.use_source:
                found["source_to_target"] = -2 * self._adapted_scores(rows)
        elif hasattr(self, "target_"):
            coordinates = coordinates_of(self.target_, self._cube.scaled(rows))
            found["target"] = -2 * log_joint(self.target_, coordinates)
        if "target" not in found or self.use_source:
            points = coordinates_of(self.source_, self._cube.scaled(rows))
            found["source"] = -2 * log_joint(self.source_, points)
        return found

    def _scores(self, rows: Array) -> Array:
        """Return minus the sum of standardised errors, those of the source by its weight (87)."""
        errors, *others = self._terms(rows).values()
        if others:
            errors = standardise(errors) + self.source_weight_ * standardise(others[0])
        return errors[:, :1] - errors[:, 1:] if errors.shape[1] == 2 else -errors

    def _rows(self, X: Any) -> Array:
        check_is_fitted(self, "source_")
        return self._given_rows(X)

    def _given_rows(self, X: Any, *, reset: bool = False) -> Array:
        """Return records of the target's space as rows, whose values are left to `clip`."""
        X = to_host(X)
        if isinstance(self.bounds, TableBounds) and is_table(X):
            X = self._reader.rows(X)
        return checked_rows(self, X, reset=reset)

    def _target_points(self, rows: Array) -> Array:
        return np.asarray((rows - self.target_centre_) @ self.target_directions_)

    def _adapted_scores(self, rows: Array) -> Array:
        """Log-scores of the moved Gaussians, in the source's coordinates if they began there."""
        if self.start_ == SOURCE:
            return log_joint(self.adapted_, coordinates_of(self.source_, self._cube.scaled(rows)))
        return log_joint(self.adapted_, self._target_points(rows))

    def _check_stored(self, sizes: dict[str, int]) -> None:
        has_classifier, has_target = hasattr(self, "target_classifier_"), hasattr(self, "target_")
        needed = ["source_weight_"] if has_classifier or has_target else []
        if has_classifier:
            needed += ["target_centre_", "target_directions_"]
            needed += ["adapted_", "start_"] if self.use_source else []
        for name in needed:
            if getattr(self, name, None) is None:
                raise refuse(name, "present for this target")
        if sizes["d"] != sizes["e"]:
            raise refuse("n_source_features_", "the number of features")
        if hasattr(self, "adapted_"):
            at_source = getattr(self, "start_", None) == SOURCE
            began = self.source_["basis"].shape[1] if at_source else sizes.get("t")
            if len(self.adapted_["means"][0]) != began:
                raise refuse("adapted_", "Gaussians in the coordinates that they began in")
        if has_classifier:
            codes = self.target_classifier_.classes_
            if codes.dtype.kind not in "iu" or codes[-1] >= sizes["c"]:
                raise refuse("target_classifier_", "a classifier of codes of the labels")
            if self.target_classifier_.n_features_in_ != sizes["t"]:
                raise refuse("target_classifier_", f"a classifier of rows of {sizes['t']} numbers")


# What follows from a released source at the target: no row of a source is read here ---------------


def coordinates_of(source: Gaussians, rows: Array) -> Array:
    """Return ``Uᵀ(x - centre) / radius``."""
    return np.asarray((rows - source["centre"]) @ source["basis"] / float(source["radius"]))


def log_joint(source: Gaussians, coordinates: Array) -> Array:
    """``log(n_c / n) + log N(u; mean_c, covariance_c)`` for each row and class."""
    gaussians = ClassGaussians(source["counts"], source["means"], source["covariances"])
    shares = source["counts"] / source["counts"].sum()
    return np.asarray(gaussians.log_densities(coordinates) + np.log(shares))


def left_out_accuracy(rows: Array, known: Array) -> float:
    """Share of labelled rows nearest to the mean of the *other* rows of their class, if any."""
    labelled = known.any(axis=1)
    points, own = rows[labelled], known[labelled]
    codes, counts, sums = own.argmax(axis=1), own.sum(axis=0), own.T @ points
    squares = _squared_distances(points, sums / np.maximum(counts, 1)[:, None])
    squares[:, counts == 0] = np.inf
    others = (sums[codes] - points) / np.maximum(counts[codes] - 1, 1)[:, None]
    alone = counts[codes] == 1
    squares[np.arange(len(codes)), codes] = np.where(
        alone, np.inf, np.sum((points - others) ** 2, axis=1)
    )
    return float(np.mean((squares.argmin(axis=1) == codes) & ~alone))


def adapt(rows: Array, scores: Array, known: Array, covariances: Array | None = None) -> Gaussians:
    """Fit one Gaussian per class to the target rows by expectation-maximisation, from first scores.

    Means follow the target. Each covariance is drawn towards the source's, where it is given, and
    towards the one pooled over the classes else.
    """
    pooled_rows = max(POOLED_ROWS, POOLED_SHARE * len(rows))
    prior = pooled_rows if covariances is None else SOURCE_ROWS
    labelled = known.any(axis=1)
    for _ in range(ROUNDS):
        weights = softmax(scores, axis=1)
        weights[labelled] = max(LABEL_WEIGHT, LABEL_SHARE * len(known)) * known[labelled]
        weights = np.maximum(weights, 1e-12)
        counts = weights.sum(axis=0)
        means = (weights.T @ rows) / counts[:, None]
        scatters = np.array([(w[:, None] * rows).T @ rows for w in weights.T])
        scatters -= counts[:, None, None] * (means[:, :, None] * means[:, None, :])
        shapes = scatters.sum(axis=0) / counts.sum() if covariances is None else covariances
        drawn = (scatters + prior * shapes) / (counts + prior)[:, None, None]
        values, axes = np.linalg.eigh(drawn)  # small eigenvalues are raised: it can be inverted
        least = MIN_EIGENVALUE * np.maximum(values.mean(axis=1, keepdims=True), 1e-300)
        raised = axes * np.maximum(values, least)[:, None, :]
        definite = raised @ np.swapaxes(axes, 1, 2)
        found = {"counts": counts, "means": means, "covariances": definite}
        scores = log_joint(found, rows)
    return found


def _squared_distances(rows: Array, centres: Array) -> Array:
    squares = np.einsum("ij,ij->i", rows, rows)[:, None] + np.einsum("ij,ij->i", centres, centres)
    return np.asarray(np.maximum(squares - 2 * rows @ centres.T, 0.0))


def begin(
    source: Gaussians, there: Array | None, points: Array, known: Array
) -> tuple[str, Gaussians]:
    """Bring the source's Gaussians, or those of the labels, to the target; say whose they are.

    They are fitted to `there`, the target's rows in the coordinates of the source (None without a
    source), or to `points`, the rows in their own. `known` is one-hot for labelled rows.
    """
    if there is not None:
        scores, labelled = log_joint(source, there), known.any(axis=1)
        # Without labels of every class there is nothing else to start from. Else the source must,
        # moved without a label, get more labelled rows right than the means of the others do.
        is_heard = not known.any(axis=0).all()
        if not is_heard:
            moved = adapt(there, scores, np.zeros_like(known), source["covariances"])
            answers = log_joint(moved, there[labelled]).argmax(axis=1)
            right = float(np.mean(answers == known[labelled].argmax(axis=1)))
            is_heard = right >= max(MIN_ACCURACY, left_out_accuracy(points, known))
        if is_heard:
            return SOURCE, adapt(there, scores, known, source["covariances"])
    means = (known.T @ points) / known.sum(axis=0)[:, None]
    square = max(float(np.einsum("ij,ij->", points, points)) / len(points), 1e-300)
    scores = -_squared_distances(points, means) / (2 * SPHERE**2 * square)  # round classes
    return LABELS, adapt(points, scores, known, None)


# Rounds of pseudo labels ------------------------------------------------------------------------


def fit_autoencoders(
    owner: Any,
    generator: np.random.RandomState,
    rows: Array,
    codes: Codes,
    n_components: int,
    *,
    width: int | None = None,
    **parameters: Any,
) -> MembershipClassifier:
    """Fit one classifier; a class that lost all its rows is absent from its `classes_`."""
    names = {"inducing_ratio", "kappa", "n_jobs"} & vars(owner).keys()
    shared = {name: getattr(owner, name) for name in names} | parameters
    seed = generator.randint(2**31 - 1)
    model = MembershipClassifier(n_components, dtype="float32", random_state=seed, **shared)
    model.__dict__["_width"] = width  # for this fit
    model.fit(rows, codes)
    del model.__dict__["_width"]
    return model


def improve_labels(
    fit: Callable[[Array, Codes, int], MembershipClassifier],
    rows: Array,
    codes: Codes,
    labelled: NDArray[np.bool_],
    schedule: Sequence[int],
    generator: np.random.RandomState,
    cross_fit: bool = True,
) -> Codes:
    """Return the codes after all rounds of the schedule; those of labelled rows stay.

    With `cross_fit` a row gets its label from a model that did not see the row. As printed the
    model is fitted on the very rows that it labels, and confirms itself.
    """
    folds = np.zeros(len(rows), dtype=np.intp)
    if cross_fit:
        folds = generator.permutation(np.arange(len(rows)) % N_FOLDS)
    for n_components in schedule:
        found = codes.copy()
        for fold in np.unique(folds[~labelled]):
            asked = ~labelled & (folds == fold)
            learned = labelled | (folds != fold) if cross_fit else np.full(len(codes), True)
            model = fit(rows[learned], codes[learned], n_components)
            found[asked] = model.classes_[model.errors(rows[asked]).argmin(axis=1)]
        codes = found
    return codes


def all_errors(model: MembershipClassifier, rows: Array, n_classes: int) -> Array:
    """Errors under every class; infinite for one that has no rows left."""
    found = np.full((len(rows), n_classes), np.inf)
    found[:, model.classes_] = model.errors(rows)
    return found


def sound_rows(rows: Array, default: Array | None = None) -> Array:
    """Return rows of a public target; one with missing numbers becomes the default or the mean."""
    whole = np.asarray(np.isfinite(rows).all(axis=1))
    if default is None:
        default = rows[whole].mean(axis=0) if whole.any() else np.zeros(rows.shape[1])
    return np.asarray(clip_to_finite(np.where(whole[:, None], rows, default)))


def target_codes(classes: Array, labels: Array, *, every_class: str | None = None) -> Codes:
    """Return the place of each label in the public set, -1 for none.

    `every_class` is what needs a labelled row of each class, if anything does.
    """
    if (label_places(classes, np.array([UNLABELLED, str(UNLABELLED)], object)) >= 0).any():
        raise InvalidInputError("-1 marks a target row without label; it cannot be a label.")
    places = label_places(classes, labels)
    marked = label_places(np.array([UNLABELLED]), labels) == 0
    if not (marked | (places >= 0)).all():
        raise InvalidInputError("'y_target' contains a label that the source does not have.")
    missing = len(classes) - len(np.unique(places[places >= 0]))
    if every_class is not None and missing:
        raise InvalidInputError(
            f"{missing} of {len(classes)} classes have no labelled target row; {every_class} needs "
            "at least one for each."
        )
    return places


def standardise(errors: Array) -> Array:
    """Errors of each row less their mean over the classes, by their standard deviation."""
    finite = np.isfinite(errors)
    worst = np.where(finite, errors, -np.inf).max(axis=1, keepdims=True)
    filled = np.where(finite, errors, worst)
    away = filled - filled.mean(axis=1, keepdims=True)
    spread = away.std(axis=1, keepdims=True)
    return np.asarray(away / np.where(spread > 0, spread, 1.0))
