"""Transfer from a private source to a target with few labels (section 4.2 of the paper)."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_softmax
from sklearn.base import ClassifierMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from sfumato.core.arrays import to_host
from sfumato.core.constraints import Form
from sfumato.exceptions import InvalidInputError
from sfumato.models.gaussians import top_eigenvectors
from sfumato.models.private import PrivateEstimator, checked_rows
from sfumato.models.saving import load, save
from sfumato.models.transfer.checks import (
    TransferSource,
    check_parameters,
    check_source,
    check_target,
    planned_sources,
    require_alike,
)
from sfumato.models.transfer.gaussians import (
    SourceGaussians,
    codes_alone,
    coordinates_of,
    log_joint,
)
from sfumato.models.transfer.protection import (
    TargetRelease,
    for_any_source,
    for_either_record,
    paid,
)
from sfumato.models.transfer.source import PlannedSource, planned_sums, source_reach
from sfumato.models.transfer.start import SOURCE, begin
from sfumato.models.transfer.stored import STORED_TRANSFER, active_sources, check_transfer
from sfumato.models.transfer.target import (
    NOT_PROTECTED,
    WARNING,
    Rounds,
    all_errors,
    autoencoder_parameters,
    earned_weight,
    sound_rows,
    standardised,
    voter,
)
from sfumato.privacy.guarantee import Guarantee
from sfumato.sums.maps import IntoUnitCube
from sfumato.tables.bounds import Bounds
from sfumato.tables.schema import TableBounds

Array = NDArray[Any]
SOURCE_ATTRIBUTES = ("classes_", "n_source_features_", "source_bounds_")


class PrivateTransferClassifier(ClassifierMixin, PrivateEstimator):
    """Classify a target with few labels, helped by one private source with many, or several.

    The source releases one Gaussian per class. They label the target's rows, or, where source and
    target have different features, the shape of their means does. From there the Gaussians move to
    the target (expectation-maximisation), and autoencoders of the classes improve the labels in
    rounds, each row labelled by a model that did not see it. A new row is given to the class with
    the least sum of the standardised errors of autoencoders and, by the weight they have earned,
    of moved Gaussians, those of every source (transfer and multi-task learning, equation 87).

    Parameters
    ----------
    schedule : tuple of int, default=(5, 10, 15, 20)
        Subspace dimension of the autoencoders in each round.
    n_layers : int, default=1
        Layers of the target's autoencoders.
    inducing_ratio : float, default=0.5
        Largest number of inducing points, as a share of the rows, r_max.
    kappa : float, default=0.1
        See `MembershipMapping`.
    n_components : int, default=50
        Private directions in which the source's Gaussians live.
    target_components : int, default=40
        Principal directions of the target in which it is classified.
    cross_fit : bool, default=True
        Label each target row by a model that did not see it.
    use_source : bool, default=True
        False leaves the source out at the target's side: the target-only result to compare with.
    protect_target : bool, default=False
        Protect the records of the target too, by a release of their own: see Notes.
    target_epsilon, target_delta : float, optional
        The target's own budget; by default `epsilon` and `delta`.
    target_ledger : DatasetBudget, optional
        Who pays for the target.
    epsilon, delta : float, default=1.0, 1e-6
        The source's budget. ``epsilon=inf`` adds no noise and gives no privacy.
    unit : {"record"}, default="record"
        What is protected in the source: a whole row with its label.
    relation : {"replace_one", "add_or_remove_one"}, default="replace_one"
        The neighbours.
    bounds : Bounds
        Public bounds of the source's rows and the label set; required by `fit`. `fit_target`
        reads them from the file.
    ledger : DatasetBudget, optional
        Who pays for the source; see `sfumato.Ledger`.
    n_jobs : int, optional
        Workers for branches and for batches of queries, see joblib.
    verbose : bool, default=False
        Show progress bars.
    random_state : int, RandomState or None, default=None
        Public randomness: folds and starts of k-means. Never the noise.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The public label set, sorted.
    source_ : dict
        The released Gaussians of the source.
    start_ : {"source", "shape of the source", "labels"}
        Whose labels the target began with. The source's, if its Gaussians, moved to the target
        without a label, classify at least half of the labelled rows correctly, and no fewer than
        the means of the other labelled rows do.
    source_weight_ : float
        Weight of the source's Gaussians, moved to the target, in `predict`:
        ``max(0, 2a - 1)² / 4``, a the share of unlabelled target rows that they label as the
        autoencoders do.
    guarantee_ : Guarantee
        What is promised for any one record. With a protected target: the weaker of the two below,
        for a record of either; it also says what applies to a person who is in both. With a target
        that is not protected: that of the source, on condition that the record is one of the
        source.
    source_guarantee_ : Guarantee
        What is promised to the people of the source; of several, to those of any.
    source_guarantees_ : list of Guarantee
        Of several sources, that of each.
    more_sources_ : list of dict
        Of several sources, the second and further ones: released, moved, their start and weight.
    target_guarantee_ : Guarantee or None
        What is promised to the people of the target, if anything.

    Privacy
    -------
    Unit and relation : a record of the source with its label, replace_one or add_or_remove_one.
        Target rows and labels are not protected, and
        `fit` warns about it, unless `protect_target` gives them a budget of their own.
    Released : three noisy sums. All else follows from these.
    Sensitivity : 2, √2 and 1.25·√2 (replace) in the unit ball.
    Guarantee : (epsilon, delta) for the record. Protected target: (target_epsilon, target_delta)
        for one of its records; a person in both sets has the composition of both.
    Assumptions and numerics : bounds and label set are public; sums are exact, noise is
        float-safe. Proof: docs/guarantees/transfer.md.

    Notes
    -----
    With `protect_target` each target row is labelled by the released source, or by its own label,
    row by row, and one Gaussian per class is released from rows and labels. Source and target must
    have the same features then, and `bounds` must be valid for both. No autoencoder is fitted.

    If you know how target features correspond to source features (for example images of another
    size), map the target's rows yourself; that is worth far more than aligning unlike features.

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

    scales_columns: ClassVar[bool] = False  # its rows are seen in the unit cube: `IntoUnitCube`
    stored_form: ClassVar[Form] = STORED_TRANSFER

    source_: SourceGaussians
    source_guarantee_: Guarantee
    target_guarantee_: Guarantee | None

    def __init__(
        self,
        *,
        schedule: tuple[int, ...] = (5, 10, 15, 20),
        n_layers: int = 1,
        inducing_ratio: float = 0.5,
        kappa: float = 0.1,
        n_components: int = 50,
        target_components: int = 40,
        cross_fit: bool = True,
        use_source: bool = True,
        protect_target: bool = False,
        target_epsilon: float | None = None,
        target_delta: float | None = None,
        target_ledger: Any = None,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        unit: str = "record",
        relation: str = "replace_one",
        bounds: Bounds | TableBounds | None = None,
        ledger: Any = None,
        n_jobs: int | None = None,
        verbose: bool = False,
        random_state: Any = None,
    ) -> None:
        self.schedule = schedule
        self.n_layers = n_layers
        self.inducing_ratio = inducing_ratio
        self.kappa = kappa
        self.n_components = n_components
        self.target_components = target_components
        self.cross_fit = cross_fit
        self.use_source = use_source
        self.protect_target = protect_target
        self.target_epsilon = target_epsilon
        self.target_delta = target_delta
        self.target_ledger = target_ledger
        self.epsilon = epsilon
        self.delta = delta
        self.unit = unit
        self.relation = relation
        self.bounds = bounds
        self.ledger = ledger
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    def fit(
        self,
        source: ArrayLike | Sequence[TransferSource],
        y_source: ArrayLike | None = None,
        target: ArrayLike | None = None,
        y_target: ArrayLike | None = None,
    ) -> Self:
        """Release the source and, where a target is given, learn to classify it.

        Parameters
        ----------
        source : array-like of shape (n_source_rows, n_source_features), or list of TransferSource
            Rows of the source; or several sources, each with labels and a ledger of its own.
        y_source : array-like of shape (n_source_rows,), optional
            Labels of the source, where it is one.
        target : array-like of shape (n_target_rows, n_target_features), optional
            Without a target only the source's side is made, and `predict` asks the source alone.
        y_target : array-like of shape (n_target_rows,), optional
            Labels of the target's rows, -1 where there is none.

        Returns
        -------
        Self
            The fitted estimator.
        """
        self._fit(source, y_source, target, y_target)
        return self

    def fit_predict(
        self,
        source: ArrayLike | Sequence[TransferSource],
        y_source: ArrayLike | None,
        target: ArrayLike,
        y_target: ArrayLike,
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
            The labels; with `protect_target` those that `predict` gives.
        """
        return self._labels(self._fit(source, y_source, target, y_target), target)

    def fit_target(self, source_file: Any, target: ArrayLike, y_target: ArrayLike) -> Self:
        """Learn to classify a target with a source that was released elsewhere.

        Parameters
        ----------
        source_file : path-like or list of path-like
            What `export_source` wrote; several files for several sources.
        target : array-like of shape (n_target_rows, n_target_features)
            Rows of the target.
        y_target : array-like of shape (n_target_rows,)
            Labels of the target's rows, -1 where there is none.

        Returns
        -------
        Self
            The fitted estimator.
        """
        self._fit_elsewhere(source_file, target, y_target)
        return self

    def fit_predict_target(
        self, source_file: Any, target: ArrayLike, y_target: ArrayLike
    ) -> NDArray[Any]:
        """Do as `fit_target`, and return the labels that the target's rows have in the end.

        Parameters
        ----------
        source_file : path-like or list of path-like
            What `export_source` wrote; several files for several sources.
        target, y_target : array-like
            As in `fit_target`.

        Returns
        -------
        ndarray of shape (n_target_rows,)
            The labels, as `fit_predict` gives them.
        """
        return self._labels(self._fit_elsewhere(source_file, target, y_target), target)

    def _fit(
        self, source: Any, y_source: Any, target: Any, y_target: Any
    ) -> NDArray[np.intp] | None:
        check_parameters(self)
        self._forget()
        sources = planned_sources(self, source, y_source)
        few = None if target is None else check_target(self, target, y_target)
        receipts = paid(sources, few and few[2])  # everything charged, then drawn
        drawn = [each.draw(receipt) for each, receipt in zip(sources, receipts, strict=True)]
        self._keep_sources([each for each, _ in drawn], [promise for _, promise in drawn])
        return None if few is None else self._fit_target(*few)

    def plan_source(self, source: Any, y_source: Any) -> PlannedSource:
        """Check one source and divide its budget; nothing is charged.

        Parameters
        ----------
        source : array-like of shape (n_rows, n_features)
            Its rows.
        y_source : array-like of shape (n_rows,)
            Their labels.

        Returns
        -------
        PlannedSource
            What it would release.
        """
        return planned_sums(self, *check_source(self, source, y_source))

    def _keep_sources(
        self, sources: Sequence[SourceGaussians], guarantees: Sequence[Guarantee]
    ) -> None:
        """Hold what was released of each source, and the promise for a record of any of them."""
        self.source_ = sources[0]
        if len(sources) > 1:
            empty = {"adapted": None, "start": None, "weight": 0.0}
            self.more_sources_ = [{"source": each, **empty} for each in sources[1:]]
            self.source_guarantees_ = list(guarantees)
        self.source_guarantee_ = for_any_source(guarantees)
        self.guarantee_ = self.source_guarantee_

    def _fit_elsewhere(self, source_file: Any, target: Any, y_target: Any) -> Any:
        check_parameters(self)
        files = list(source_file) if isinstance(source_file, list | tuple) else [source_file]
        parties = [_released_source(each) for each in files]
        if not parties:
            raise InvalidInputError("'source_file' names no source.")
        require_alike(parties)
        self._forget()
        for name in SOURCE_ATTRIBUTES:
            setattr(self, name, getattr(parties[0], name))
        self._keep_sources(
            [each.source_ for each in parties], [each.source_guarantee_ for each in parties]
        )
        return self._fit_target(*check_target(self, target, y_target))

    def _labels(self, found: NDArray[np.intp] | None, target: Any) -> NDArray[Any]:
        return self.predict(target) if found is None else np.asarray(self.classes_[found])

    def export_source(self, path: str | os.PathLike[str]) -> None:
        """Write what was released of the source, and its guarantee, to one file.

        Nothing of a target is in it, and no row of the source.

        Parameters
        ----------
        path : path-like
            The file to write; `fit_target` reads it at another place.
        """
        check_is_fitted(self, "source_")
        if hasattr(self, "more_sources_"):
            raise InvalidInputError("Each of several sources writes a file of its own.")
        alone: PrivateTransferClassifier = clone(self).set_params(target_ledger=None, ledger=None)
        for name in SOURCE_ATTRIBUTES:
            setattr(alone, name, getattr(self, name))
        alone._keep_sources([self.source_], [self.source_guarantee_])
        alone.n_features_in_ = self.n_source_features_
        save(alone, path)

    def _check_stored(self, sizes: dict[str, int]) -> None:
        check_transfer(self, sizes)

    def _forget(self) -> None:
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)

    def _fit_target(
        self, rows: Array, codes: NDArray[np.intp], protected: TargetRelease | None
    ) -> NDArray[np.intp] | None:
        """Learn to classify the target; return the codes of its rows, unless it is protected."""
        if protected is not None:
            self._fit_protected(rows, codes, protected)
            return None
        warnings.warn(WARNING, stacklevel=4)
        self.guarantee_ = self.source_guarantee_.only_if(NOT_PROTECTED)
        self.target_guarantee_ = None
        labelled = codes >= 0
        self.target_centre_ = rows.mean(axis=0)
        away = rows - self.target_centre_
        n_kept = min(self.target_components, rows.shape[1])
        self.target_directions_ = top_eigenvectors(away.T @ away, n_kept)[1]
        points = self._target_points(rows)
        known = np.eye(len(self.classes_))[codes] * labelled[:, None]
        nobody: list[dict[str, Any]] = [{"source": None}]
        for each in active_sources(self) if self.use_source else nobody:
            are_common = each["source"] is not None and self._common_features()
            there = self._source_points(rows, each["source"]) if are_common else None
            each["start"], each["adapted"] = begin(each["source"], there, points, known)
            self._keep_moved(each)
        found = np.where(labelled, codes, self._first_labels(rows))
        rounds = self._rounds(points.shape[1])
        found = rounds.run(points, found, labelled)
        self.target_classifier_ = rounds.model(points, found, self.schedule[-1])
        asked = ~labelled if not labelled.all() else labelled
        for each in active_sources(self) if self.use_source else ():
            answers = self._adapted_scores(rows[asked], each).argmax(axis=1)
            each["weight"] = earned_weight(answers, found[asked])
            self._keep_moved(each)
        return found

    def _keep_moved(self, found: dict[str, Any]) -> None:
        """Hold what became of the first source at the target; further ones hold their own."""
        if found["source"] is self.source_ or found["source"] is None:
            self.start_, self.adapted_ = found["start"], found["adapted"]
            self.source_weight_ = found.get("weight", 0.0)

    def _first_labels(self, rows: Array) -> NDArray[np.intp]:
        """Codes by all sources that are heard; by the first one where none is."""
        every = active_sources(self)
        heard = [each for each in every if each["start"] == SOURCE] or every[:1]
        scores = [log_softmax(self._adapted_scores(rows, each), axis=1) for each in heard]
        return np.asarray(np.sum(scores, axis=0).argmax(axis=1))

    def _fit_protected(
        self, rows: Array, codes: NDArray[np.intp], protected: TargetRelease
    ) -> None:
        scaled = self._source_rows(rows)
        sources = [each["source"] for each in active_sources(self)]
        reaches = [
            source_reach(each, self.source_bounds_, self.n_source_features_) for each in sources
        ]
        scored = codes_alone(sources, scaled, reaches)  # each row by itself
        self.target_, self.target_guarantee_ = protected.run(
            scaled, np.where(codes >= 0, codes, scored)
        )
        self.guarantee_ = for_either_record(self.source_guarantee_, self.target_guarantee_)
        self.source_weight_ = 1.0 if self.use_source else 0.0
        for each in getattr(self, "more_sources_", ()):
            each["weight"] = self.source_weight_

    def _rounds(self, width: int) -> Rounds:
        return Rounds(
            tuple(self.schedule),
            self.cross_fit,
            width,
            autoencoder_parameters(self, n_layers=self.n_layers, center=True),
            check_random_state(self.random_state),
        )

    # Answers --------------------------------------------------------------------------------

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the label of the class with the least combined error.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows of the target's space, or of the source's where no target was given.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels.
        """
        found = self._combined(self.terms(X)).argmin(axis=1)
        return np.asarray(self.classes_[found])

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return minus the combined error of each class; with two classes, their difference.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            Scores; the second shape for more than two classes.
        """
        errors = self._combined(self.terms(X))
        return errors[:, 0] - errors[:, 1] if errors.shape[1] == 2 else -errors

    def terms(self, X: ArrayLike) -> dict[str, NDArray[np.float64]]:
        """Return the errors of each row under each class, one matrix for each term.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        dict of ndarray of shape (n_samples, n_classes)
            "target", "source_to_target" and "source". Errors are squared distances, but those of
            Gaussians (both source terms) are minus twice a log-density. "source" needs features in
            common; without a target it is all there is.
        """
        check_is_fitted(self, "source_")
        check = self._check_rows if self.bounds is not None else partial(checked_rows, self)
        rows = check(to_host(X), reset=False)
        found = {}
        if hasattr(self, "target_classifier_"):
            rows = sound_rows(rows, self.target_centre_)
            points = self._target_points(rows)
            found["target"] = all_errors(self.target_classifier_, points, len(self.classes_))
            for name, each in self._named_sources() if self.use_source else ():
                found[f"source_to_target{name}"] = -2 * self._adapted_scores(rows, each)
        elif hasattr(self, "target_"):  # the target's own release
            coordinates = coordinates_of(self.target_, self._source_rows(rows))
            found["target"] = -2 * log_joint(self.target_, coordinates)
        if "target" not in found or (self.use_source and self._common_features()):
            for name, each in self._named_sources():
                points = self._source_points(rows, each["source"])
                found[f"source{name}"] = -2 * log_joint(each["source"], points)
        return found

    def _named_sources(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield each source with what its terms are called by: nothing, " 2", " 3" and so on."""
        for number, each in enumerate(active_sources(self), start=1):
            yield "" if number == 1 else f" {number}", each

    def winners(self, X: ArrayLike) -> dict[str, int]:
        """Count the rows that each term decides.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        dict of str to int
            Rows by term.
        """
        terms = self.terms(X)
        together = self._combined(terms).argmin(axis=1)
        alone = next(iter(terms.values())).argmin(axis=1)
        agreeing = int(np.sum(alone == together))
        others = "sources" if hasattr(self, "more_sources_") else voter(terms)
        return {next(iter(terms)): agreeing, others: len(together) - agreeing}

    def _combined(self, terms: dict[str, Array]) -> Array:
        """The sum of standardised errors, those of the sources by their weights (87)."""
        if len(terms) == 1:
            return next(iter(terms.values()))
        if "target" not in terms:  # no target: all sources have the same weight
            return np.asarray(np.sum([standardised(each) for each in terms.values()], axis=0))
        total = standardised(terms["target"])
        for name, each in self._named_sources():
            total = total + each["weight"] * standardised(terms[voter(terms) + name])
        return total

    def _common_features(self) -> bool:
        return bool(self.n_source_features_ == self.n_features_in_)

    def _source_rows(self, rows: Array) -> Array:
        """Clip and scale rows of the source's space by the public bounds."""
        return IntoUnitCube(self.source_bounds_, self.n_source_features_).scaled(rows)

    def _source_points(self, rows: Array, source: SourceGaussians) -> Array:
        return coordinates_of(source, self._source_rows(rows))

    def _target_points(self, rows: Array) -> Array:
        return np.asarray((rows - self.target_centre_) @ self.target_directions_)

    def _adapted_scores(self, rows: Array, heard: dict[str, Any]) -> Array:
        """Log-scores of the moved Gaussians, in the source's coordinates if they began there."""
        if heard["start"] == SOURCE:
            return log_joint(heard["adapted"], self._source_points(rows, heard["source"]))
        return log_joint(heard["adapted"], self._target_points(rows))


def _released_source(file: Any) -> PrivateTransferClassifier:
    party = load(file)
    is_source = isinstance(party, PrivateTransferClassifier) and hasattr(party, "source_")
    if not is_source or hasattr(party, "more_sources_"):
        raise InvalidInputError("'source_file' contains no source that `export_source` wrote.")
    return party  # type: ignore[no-any-return]
