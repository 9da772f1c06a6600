"""Transfer from private sources to a target with few labels (section 4.2 of the paper).

What is made of the released source at the target stands in `models/transfer_target.py`.
"""

from __future__ import annotations

import copy
import functools
import math
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_softmax
from sklearn.base import ClassifierMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from sfumato.core.arrays import to_host
from sfumato.core.constraints import (
    MAX_FLOAT32,
    Form,
    check_parameters,
    flag,
    labels,
    listed,
    local,
    model_of,
    numbers,
    one_of,
    optional,
    or_none,
    real,
    record,
    refuse,
    whole,
)
from sfumato.exceptions import InvalidInputError
from sfumato.ledger.dataset_budget import DatasetBudget
from sfumato.models.base import PrivateEstimator
from sfumato.models.budget import Budget
from sfumato.models.gaussians import ClassGaussianSums, stored_gaussians, top_eigenvectors
from sfumato.models.mappings import MembershipMapping
from sfumato.models.saving import load, save
from sfumato.models.transfer_target import (
    LABELS,
    NOT_PROTECTED,
    SHAPE,
    SOURCE,
    WARNING,
    Rounds,
    SourceGaussians,
    all_errors,
    autoencoder_parameters,
    begin,
    codes_alone,
    coordinates_of,
    earned_weight,
    from_released,
    log_joint,
    require_every_class,
    sound_rows,
    standardised,
    target_codes,
    voter,
)
from sfumato.privacy.composition import compose
from sfumato.privacy.guarantee import Guarantee, Unit
from sfumato.privacy.parallel import parallel
from sfumato.sums.maps import IntoUnitBall, IntoUnitCube
from sfumato.sums.records import ArrayRecords, Records
from sfumato.tables.bounds import Bounds
from sfumato.tables.cells import checked_column, checked_rows

Array = NDArray[Any]
# A source, or a protected target, before anything is charged: its budget, what it has to pay, and
# what then draws its Gaussians, with their guarantee.
Planned = tuple[Budget, tuple[Any, ...], Callable[[], tuple[SourceGaussians, Guarantee]]]
OF_A_SOURCE = ("classes_", "n_source_features_", "source_bounds_")


@dataclass(frozen=True, eq=False)
class TransferSource:
    """One of several private sources: a table with a budget of its own.

    Parameters
    ----------
    X : array-like of shape (n_rows, n_features)
        Rows.
    y : array-like of shape (n_rows,)
        Labels.
    ledger : DatasetBudget, optional
        Who pays for it; by default nobody.
    epsilon, delta : float, optional
        Its budget; by default those of the estimator.
    """

    X: Any
    y: Any = None
    ledger: Any = None
    epsilon: float | None = None
    delta: float | None = None


def _schedule(value: Any, place: str, sizes: dict[str, int]) -> None:
    if not isinstance(value, list | tuple) or not value:
        raise refuse(place, "a list of dimensions")
    for each in value:
        whole(least=1)(each, place, sizes)


def _bounds(value: Any, place: str, sizes: dict[str, int]) -> None:
    if not isinstance(value, Bounds):
        raise refuse(place, "public bounds")
    value.ball(sizes["e"])


def _promise(value: Any, place: str, sizes: dict[str, int]) -> None:  # noqa: ARG001
    if not isinstance(value, Guarantee):
        raise refuse(place, "a guarantee")


def _counts(value: Any, place: str, sizes: dict[str, int]) -> None:  # noqa: ARG001
    if not isinstance(value, dict) or not all(type(n) is int and n >= 0 for n in value.values()):
        raise refuse(place, "how many rows each term decided")


_moved = record(**stored_gaussians())
_released = record(
    centre=numbers("e"), basis=numbers("e", "k"), radius=real(above=0.0), **stored_gaussians()
)

_further = record(
    source=local(_released, e="e", g="c"),
    adapted=or_none(local(_moved, g="c")),
    start=or_none(one_of(SOURCE, SHAPE, LABELS)),
    weight=real(least=0.0, most=1.0),
)


@dataclass(eq=False, repr=False)
class PrivateTransferClassifier(ClassifierMixin, PrivateEstimator):
    """Transfer by Gaussians of a private source: not the algorithm of the paper.

    The paper's is in `sfumato.papers.cdmma`. This one classifies a target with few labels, helped
    by one private source with many, or several.

    The source releases one Gaussian per class. They label the target's rows, or, where source and
    target have different features, the shape of their means does. From there the Gaussians move to
    the target (expectation-maximisation), and autoencoders of the classes improve the labels in
    rounds, each row labelled by a model that did not see it. A new row is given to the class with
    the least sum of the standardised errors of autoencoders and, by the weight they have earned,
    of moved Gaussians, those of every source (transfer and multi-task learning, equation 87).

    Parameters
    ----------
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

    _: KW_ONLY
    schedule: tuple[int, ...] = (5, 10, 15, 20)
    n_layers: int = 1
    inducing_ratio: float = 0.5
    kappa: float = 0.1
    n_components: int = 50
    target_components: int = 40
    cross_fit: bool = True
    use_source: bool = True
    protect_target: bool = False
    target_epsilon: float | None = None
    target_delta: float | None = None
    target_ledger: Any = None
    n_jobs: int | None = None
    verbose: bool = False
    random_state: Any = None

    offered_units: ClassVar[tuple[Unit, ...]] = (Unit.RECORD,)
    scales_columns: ClassVar[bool] = False  # its rows are seen in the unit cube: `IntoUnitCube`
    in_unit_ball: ClassVar[bool] = False
    has_labels: ClassVar[bool | None] = True
    parameters: ClassVar[Form] = {
        "schedule": _schedule,
        "n_layers": whole(least=1),
        "inducing_ratio": MembershipMapping.parameters["inducing_ratio"],
        "kappa": MembershipMapping.parameters["kappa"],
        "n_components": whole(least=1),
        "target_components": whole(least=1),
        "cross_fit": flag(),
        "use_source": flag(),
        "protect_target": flag(),
        "target_epsilon": or_none(real(above=0.0, most=math.inf)),
        "target_delta": or_none(real(least=0.0, below=1.0)),
    }
    learned: ClassVar[Form] = {
        "n_source_features_": whole("e", least=1),
        "classes_": labels("c"),
        "bounds": optional(lambda *_: None),  # `source_bounds_` is what answers read
        "source_guarantee_": _promise,
        "target_guarantee_": optional(_promise),
        "source_": local(_released, e="e", g="c"),
        "more_sources_": optional(listed(_further)),
        "source_guarantees_": optional(listed(_promise)),
        "target_": optional(local(_released, e="e", g="c")),
        "target_centre_": optional(numbers("d", least=-MAX_FLOAT32, most=MAX_FLOAT32)),
        "target_directions_": optional(numbers("d", "t", least=-2.0, most=2.0)),
        "target_classifier_": optional(model_of("MembershipClassifier")),
        "adapted_": optional(local(_moved, g="c")),
        "start_": optional(one_of(SOURCE, SHAPE, LABELS)),
        "source_weight_": optional(real(least=0.0, most=1.0)),
        "labels_": optional(lambda *_: None),  # the target's own, read by nothing here
        "winners_": optional(_counts),
        "source_bounds_": _bounds,
    }

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
        check_parameters(self, self.parameters)
        self._forget()
        sources = self._plan_sources(source, y_source)
        few = None if target is None else self._plan_target(target, y_target)
        own = [] if few is None or few[2] is None else [few[2]]
        _charge_together([*own, *sources])  # [T2] everything charged, then drawn
        drawn = [draw() for _, _, draw in sources]
        self._keep_sources([each for each, _ in drawn], [promise for _, promise in drawn])
        return None if few is None else self._fit_target(*few)

    def _fit_elsewhere(self, source_file: Any, target: Any, y_target: Any) -> Any:
        check_parameters(self, self.parameters)
        files = list(source_file) if isinstance(source_file, list | tuple) else [source_file]
        parties = [_released_source(each) for each in files]
        if not parties:
            raise InvalidInputError("'source_file' names no source.")
        _require_alike(parties)
        self._forget()
        for name in OF_A_SOURCE:
            setattr(self, name, getattr(parties[0], name))
        self._keep_sources(
            [each.source_ for each in parties], [each.source_guarantee_ for each in parties]
        )
        few = self._plan_target(target, y_target)
        _charge_together([] if few[2] is None else [few[2]])
        return self._fit_target(*few)

    def _forget(self) -> None:
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)

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
        for name in OF_A_SOURCE:
            setattr(alone, name, getattr(self, name))
        alone._keep_sources([self.source_], [self.source_guarantee_])
        alone.n_features_in_ = self.n_source_features_
        save(alone, path)

    # Releases -------------------------------------------------------------------------------

    def _plan_sources(self, source: Any, y_source: Any) -> list[Planned]:
        """Check everything about the sources, and divide their budgets; nothing is charged."""
        several = [source] if isinstance(source, TransferSource) else source
        is_source = (
            [isinstance(each, TransferSource) for each in several]
            if isinstance(several, list | tuple)
            else []
        )
        if not any(is_source):
            return [self.plan_source(source, y_source)]
        if not all(is_source):
            raise InvalidInputError(
                "Several sources are a list of TransferSource, and nothing else."
            )
        if y_source is not None or self.ledger is not None:
            raise InvalidInputError(
                "Each TransferSource has labels and a ledger of its own; leave 'y_source' and the "
                "estimator's ledger out."
            )
        payers = [self._payer(each.ledger, each.epsilon, each.delta) for each in several]
        pairs = zip(payers, several, strict=True)
        planned = [payer.plan_source(each.X, each.y) for payer, each in pairs]
        _require_alike(payers)
        self.__dict__.update({k: v for k, v in vars(payers[0]).items() if k.endswith("_")})
        return planned

    def _payer(self, ledger: Any, epsilon: float | None, delta: float | None) -> Self:
        """Return a copy with a budget of its own."""
        payer = copy.copy(self)
        payer.ledger = ledger
        payer.epsilon = self.epsilon if epsilon is None else epsilon
        payer.delta = self.delta if delta is None else delta
        return payer

    def plan_source(self, source: Any, y_source: Any) -> Planned:
        """Divide the budget of one source between a few sums; nothing is charged.

        Parameters
        ----------
        source : array-like of shape (n_rows, n_features)
            Its rows.
        y_source : array-like of shape (n_rows,)
            Their labels.

        Returns
        -------
        tuple
            The budget, what it has to pay, and what then draws the Gaussians and their guarantee.
        """
        given, budget = self._begin(source, y_source)
        self.source_bounds_, self.n_source_features_ = self.row_bounds, given.width
        scale = IntoUnitCube(self.row_bounds, given.width)
        sums = self._sums(budget, self._in_ball(given.mapped(scale)))  # [T1] the budget divided
        # [T3] the releases, [T4] post-processing
        return budget, budget.calibrate(), lambda: self._drawn(sums)

    def _in_ball(self, scaled: Records) -> Records:
        inner = IntoUnitCube(self.source_bounds_, self.n_source_features_).inner_bounds
        return scaled.mapped(IntoUnitBall(inner, scaled.width))

    def _sums(self, budget: Budget, records: Records) -> ClassGaussianSums:
        return ClassGaussianSums(
            budget,
            records,
            n_classes=len(self.classes_),
            n_components=min(self.n_components, records.width),
            n_parts=1,
        )

    def _drawn(self, sums: ClassGaussianSums) -> tuple[SourceGaussians, Guarantee]:
        inner = IntoUnitCube(self.source_bounds_, self.n_source_features_).inner_bounds
        return from_released(sums.draw().in_units_of(inner)), sums.budget.guarantee()

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

    def _plan_target(
        self, target: Any, y_target: Any
    ) -> tuple[Array, NDArray[np.intp], Planned | None]:
        """Check everything about the target; return rows, codes (-1: no label) and its release."""
        rows = self._given_rows(target, reset=True)
        if y_target is None:
            raise InvalidInputError(
                "'y_target' is missing: give one label for each target row, -1 where there is none."
            )
        known = checked_column(self, to_host(y_target), len(rows))
        codes = target_codes(self.classes_, known, may_be_unknown=self.protect_target)
        if not self.protect_target:
            if not (self.use_source and self._common_features()):
                require_every_class(codes, len(self.classes_), "a start without the source")
            elif len(codes) == 1 and codes[0] < 0 and self.cross_fit:
                raise InvalidInputError(
                    "The target is one row without a label; with 'cross_fit' no row is labelled by "
                    "itself. Give at least two rows."
                )
            return sound_rows(rows), codes, None
        if not self._common_features():
            raise InvalidInputError(
                "protect_target=True needs source and target with the same features. Got "
                f"{self.n_source_features_} and {self.n_features_in_} features."
            )
        payer = self._payer(self.target_ledger, self.target_epsilon, self.target_delta)
        payer.__dict__["has_labels"] = False  # its labels may be anything, and are coded below
        given, budget = payer._begin(target)
        sums = self._sums(budget, given)  # [T9] the target's budget divided

        def draw() -> tuple[SourceGaussians, Guarantee]:
            scaled = self._source_rows(rows)
            scored = self._codes_alone(scaled)  # each row by itself
            # Replacing one record changes one row and one code.
            coded = np.where(codes >= 0, codes, scored)
            sums.records = self._in_ball(ArrayRecords(scaled, coded, relation=self.relation))
            return self._drawn(sums)

        return rows, codes, (budget, budget.calibrate(), draw)  # [T10] charged with the source

    def _codes_alone(self, scaled: Array) -> NDArray[np.intp]:
        """Return the class of each scaled row by the released sources, by that row alone."""
        inner = IntoUnitCube(self.source_bounds_, self.n_source_features_).inner_bounds
        centre, radius = inner.ball(self.n_source_features_)
        sources = [each["source"] for each in self._active_sources()]
        # Public bounds on the distance of a scaled row from each released centre.
        reaches = [
            (radius + float(np.linalg.norm(centre - each["centre"]))) * (1 + 2.0**-20)
            for each in sources
        ]
        return codes_alone(sources, scaled, reaches)

    # Target ---------------------------------------------------------------------------------

    def _fit_target(
        self, rows: Array, codes: NDArray[np.intp], planned: Planned | None
    ) -> NDArray[np.intp] | None:
        """Learn to classify the target; return the codes of its rows, unless it is protected."""
        if planned is not None:
            self.target_, promise = planned[2]()
            self.target_guarantee_: Guarantee | None = promise
            self.guarantee_ = for_either_record(self.source_guarantee_, promise)
            self.source_weight_ = 1.0 if self.use_source else 0.0
            for each in getattr(self, "more_sources_", ()):
                each["weight"] = self.source_weight_
            return None
        warnings.warn(WARNING, stacklevel=5)
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
        for each in self._active_sources() if self.use_source else nobody:
            are_common = each["source"] is not None and self._common_features()
            there = self._source_points(rows, each["source"]) if are_common else None
            each["start"], each["adapted"] = begin(each["source"], there, points, known)
            self._keep_moved(each)
        # First labels by all sources that are heard; by the first one where none is.
        every = self._active_sources()
        heard = [each for each in every if each["start"] == SOURCE] or every[:1]
        scores = [log_softmax(self._adapted_scores(rows, each), axis=1) for each in heard]
        found = np.where(labelled, codes, np.sum(scores, axis=0).argmax(axis=1))
        rounds = Rounds(
            tuple(self.schedule),
            self.cross_fit,
            points.shape[1],
            autoencoder_parameters(self, n_layers=self.n_layers, center=True),
            check_random_state(self.random_state),
        )
        found = rounds.run(points, found, labelled)
        self.target_classifier_ = rounds.model(points, found, self.schedule[-1])
        asked = ~labelled if not labelled.all() else labelled
        for each in self._active_sources() if self.use_source else ():
            answers = self._adapted_scores(rows[asked], each).argmax(axis=1)
            each["weight"] = earned_weight(answers, found[asked])
            self._keep_moved(each)
        return found

    def _keep_moved(self, found: dict[str, Any]) -> None:
        """Hold what became of the first source at the target; further ones hold their own."""
        if found["source"] is self.source_ or found["source"] is None:
            self.start_, self.adapted_ = found["start"], found["adapted"]
            self.source_weight_ = found.get("weight", 0.0)

    def _active_sources(self) -> list[dict[str, Any]]:
        """Return what is held of each source: released, moved, start, weight."""
        first: dict[str, Any] = {
            "source": self.source_,
            "adapted": getattr(self, "adapted_", None),
            "start": getattr(self, "start_", None),
            "weight": getattr(self, "source_weight_", 0.0),
        }
        return [first, *getattr(self, "more_sources_", ())]

    def _given_rows(self, X: Any, *, reset: bool = False) -> Array:
        """Return records of the target's space as rows, whose values are left to `clip`."""
        X = to_host(X)
        if self.bounds is not None and self._reader.has_own(X):
            X = self._reader.rows(X)
        may_be_empty = reset and self.protect_target and self._n_is_secret
        return checked_rows(self, X, reset=reset, may_be_empty=may_be_empty)

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
        rows = self._given_rows(X)
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
        for number, each in enumerate(self._active_sources(), start=1):
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

    def _check_stored(self, sizes: dict[str, int]) -> None:
        has_classifier = hasattr(self, "target_classifier_")
        needed: set[str] = set()
        if has_classifier or hasattr(self, "target_"):
            needed = {"source_weight_"}
            if has_classifier:
                needed |= {"target_centre_", "target_directions_"}
                needed |= {"adapted_", "start_"} if self.use_source else set()
        elif sizes["d"] != sizes["e"]:
            raise refuse("n_source_features_", "the number of features, where there is no target")
        missing = sorted(name for name in needed if getattr(self, name, None) is None)
        if missing:
            raise refuse(missing[0], "there, for this target")
        for each in self._active_sources() if hasattr(self, "adapted_") else ():
            if each["adapted"] is None:
                raise refuse("more_sources_", "moved to this target")
            order = len(each["adapted"]["means"][0])
            began = each["source"]["basis"].shape[1] if each["start"] == SOURCE else sizes["t"]
            if order != began:
                raise refuse("adapted_", "Gaussians in the coordinates that they began in")
        if not has_classifier:
            if hasattr(self, "target_") and sizes["d"] != sizes["e"]:
                raise refuse("target_", "that of a target with the features of the source")
            return
        codes = self.target_classifier_.classes_
        if codes.dtype.kind not in "iu" or codes[-1] >= sizes["c"]:
            raise refuse("target_classifier_", "a classifier of codes of the labels")
        given = sizes.get("t", sizes["e"])
        if self.target_classifier_.n_features_in_ != given:
            raise refuse("target_classifier_", f"a classifier of rows of {given} numbers")


def _released_source(file: Any) -> PrivateTransferClassifier:
    party = load(file)
    is_source = isinstance(party, PrivateTransferClassifier) and hasattr(party, "source_")
    if not is_source or hasattr(party, "more_sources_"):
        raise InvalidInputError("'source_file' contains no source that `export_source` wrote.")
    return party  # type: ignore[no-any-return]


def _require_alike(parties: Sequence[Any]) -> None:
    """Refuse sources of other labels, features, bounds, unit or relation than the first."""
    first = parties[0]
    for each in parties[1:]:
        alike = (
            np.array_equal(each.classes_, first.classes_)
            and each.n_source_features_ == first.n_source_features_
            and each.source_bounds_ == first.source_bounds_
            and (each.unit, each.relation) == (first.unit, first.relation)
        )
        if not alike:
            raise InvalidInputError(
                "Several sources must have the same features, bounds, label set, unit and "
                "relation. Map the rows of each to common features before it is released."
            )


def _charge_together(planned: Sequence[Planned]) -> None:
    """Charge all, after each ledger was asked once for all of it: none has paid for nothing."""
    ledgers = {id(budget.ledger): budget.ledger for budget, *_ in planned}
    for ledger in ledgers.values() if len(planned) > 1 else ():
        own = [(budget, events) for budget, events, _ in planned if budget.ledger is ledger]
        if isinstance(ledger, DatasetBudget):
            asked = [event for _, events in own for event in events]
            ledger.ask(*asked, unit=own[0][0].unit, relation=own[0][0].records.relation)
    for budget, events, _ in planned:
        budget.pay(*events)


def for_any_source(guarantees: Sequence[Guarantee]) -> Guarantee:
    """State one promise for a record of any of several sources.

    guarantees: One per source.
    Returns: The weakest, on condition that a person has records in one source only.
    """
    if len(guarantees) == 1:
        return guarantees[0]
    total = functools.reduce(compose, guarantees)
    figures = ", ".join(map(_figures, guarantees))
    return parallel(  # [T11]
        *guarantees,
        condition=f"a person has records in one source only (the sources have {figures}); one with "
        f"records in all of them is promised {_figures(total)}",
    )


def for_either_record(source: Guarantee, target: Guarantee) -> Guarantee:
    """State one promise for a record of the source and for one of the target.

    A record is in one of the two sets, so the larger epsilon and delta hold for any one record.
    """
    return parallel(
        source,
        target,
        condition=f"the record is one of the source ({_figures(source)}) or one of the target "
        f"({_figures(target)}), not one of both: a person with records in both is promised "
        f"{_figures(compose(source, target))}",
    )


def _figures(guarantee: Guarantee) -> str:
    """Return epsilon and delta in few digits, never below what they are."""
    epsilon = math.inf if guarantee.epsilon is None else guarantee.epsilon
    shown = epsilon if math.isinf(epsilon) else math.ceil(epsilon * 1e4) / 1e4
    return f"epsilon {shown:.10g} at delta {guarantee.delta:.10g}"
