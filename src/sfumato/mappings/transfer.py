"""Transfer from a private source to a target with few labels (section 4.2 of the paper)."""

from __future__ import annotations

import os
import warnings
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from sfumato.bounds import Bounds, label_places
from sfumato.exceptions import InvalidInputError, UnsupportedModeError
from sfumato.guarantee import Guarantee, Mode
from sfumato.hulls.rows import check_count
from sfumato.kernels.arrays import is_foreign, to_numpy
from sfumato.mappings.answers import sound_rows
from sfumato.mappings.parameters import check_kappa, check_ratio
from sfumato.mappings.printed import fit_source_to_target, target_subspace
from sfumato.mappings.protection import TargetRelease, for_either_record
from sfumato.mappings.source import PAPER_LAYERS
from sfumato.mappings.start import TransferStart
from sfumato.mappings.stored import STORED_TRANSFER, check_transfer
from sfumato.mappings.target import Rounds, first_errors
from sfumato.moments.pca import top_eigenvectors
from sfumato.persistence import load, save
from sfumato.persistence.forms import Form
from sfumato.private import checked_rows

__all__ = ["PrivateTransferClassifier"]

Array = NDArray[Any]
UNLABELLED = -1
NOT_PROTECTED = (
    "the changed record is one of the source; the rows and labels of the target are not protected"
)
WARNING = (
    "The target is not protected: the fitted model is made of its raw rows and labels, and holds "
    "projections of single rows. Give it to nobody who may not see the target, or use "
    "protect_target=True."
)
SOURCE_ATTRIBUTES = (
    "classes_",
    "n_features_in_",
    "n_source_features_",
    "source_",
    "source_bounds_",
    "source_classifier_",
    "source_directions_",
    "source_guarantee_",
    "source_mode_",
)


class PrivateTransferClassifier(ClassifierMixin, TransferStart):
    """Classify a target with few labels, helped by a private source with many.

    The source releases one Gaussian a class. They label the target's rows, or, where source and
    target have different features, the shape of their means does. From there the Gaussians move to
    the target (expectation-maximisation), and autoencoders of the classes improve the labels in
    rounds, each row labelled by a model that did not see it. A new row is given to the class with
    the least sum of the standardised errors of autoencoders and, by the weight they have earned,
    of moved Gaussians.

    Parameters
    ----------
    schedule : tuple of int, default=(5, 10, 15, 20)
        Subspace dimension of the autoencoders in each round.
    n_layers : int, optional
        Layers of the target's autoencoders; by default 1, and 5 in mode "paper".
    inducing_ratio : float, default=0.5
        Most inducing points as a share of the rows, r_max.
    kappa : float, default=0.1
        See `MembershipMapping`.
    pca_components : int, default=50
        Private directions in which the source's Gaussians live.
    target_components : int, default=40
        Principal directions of the target in which it is classified; not used in mode "paper".
    cross_fit : bool, optional
        Label each target row by a model that did not see it; by default True, and False in mode
        "paper".
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
    unit : {"record", "entry"}, default="record"
        What is protected in the source: a whole row with its label, or one number of one row.
    relation : {"replace_one", "add_or_remove_one"}, default="replace_one"
        The neighbours; "add_or_remove_one" for unit "record" only.
    mode : {"strict", "paper"}, default="strict"
        "paper" (unit "entry" only): Algorithms 5 and 6 and equations (79) to (87) as printed.
    bounds : Bounds
        Public bounds of the source's rows and the label set; required by `fit`. `fit_target`
        reads them from the file.
    entry_bound : float, optional
        The largest protected change d of one entry; by default any change inside the box.
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
        The released Gaussians of the source (mode "strict").
    start_ : {"source", "shape of the source", "labels"}
        Whose labels the target began with. The source's, if its Gaussians, moved to the target
        without a label, get at least half of the labelled rows right, and no fewer than the means
        of the other labelled rows do.
    source_weight_ : float
        Weight of the source's Gaussians, moved to the target, in `predict`:
        ``max(0, 2a - 1)² / 4``, a the share of unlabelled target rows that they label as the
        autoencoders do.
    guarantee_ : Guarantee
        What is promised for any one record. With a protected target: the weaker of the two below,
        for a record of either; it also says what holds for a person who is in both. With a target
        that is not protected: that of the source, on condition that the record is one of the
        source.
    source_guarantee_ : Guarantee
        What is promised to the people of the source.
    target_guarantee_ : Guarantee or None
        What is promised to the people of the target, if anything.

    Privacy
    -------
    Unit and relation : a record of the source with its label, replace_one or add_or_remove_one; or
        one of its entries, changed by at most d. Target rows and labels are not protected, and
        `fit` warns of it, unless `protect_target` gives them a budget of their own.
    Released : record: three noisy sums. Entry: every entry with noise. All else follows from these.
    Sensitivity : record: 2, √2 and 1.25·√2 (replace) in the unit ball; entry: d.
    Guarantee : (epsilon, delta) for the unit; at entry level the figure for a whole record is
        stated beside it. Protected target: (target_epsilon, target_delta) for one of its records;
        a person in both sets has the composition of both.
    Assumptions and numerics : bounds and label set are public; sums are exact, noise is
        float-safe. Proof: docs/guarantees/transfer.md.

    Notes
    -----
    With `protect_target` each target row is labelled by the released source, or by its own label,
    row by row, and the same sums as for the source are released from rows and labels: one
    Gaussian a class. Source and target must have the same features then, and `bounds` must hold
    for both. No autoencoder is fitted.

    If you know how target features correspond to source features (images of another size, say),
    map the target's rows yourself; that is worth far more than the alignment of unlike features.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_digits
    >>> from sfumato import Bounds, PrivateTransferClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> source, target, labels = X[:1000], X[1000:], y[1000:].copy()
    >>> labels[20:] = -1  # few are known
    >>> model = PrivateTransferClassifier(
    ...     epsilon=4.0, delta=1e-5, pca_components=20, random_state=0,
    ...     bounds=Bounds(lower=0.0, upper=16.0, labels=range(10)))
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")  # the target is public here
    ...     found = model.fit_predict(source, y[:1000], target, labels)
    >>> bool(np.mean(found == y[1000:]) > 0.8)
    True
    """

    stored_form: ClassVar[Form] = STORED_TRANSFER

    def __init__(
        self,
        *,
        schedule: tuple[int, ...] = (5, 10, 15, 20),
        n_layers: int | None = None,
        inducing_ratio: float = 0.5,
        kappa: float = 0.1,
        pca_components: int = 50,
        target_components: int = 40,
        cross_fit: bool | None = None,
        use_source: bool = True,
        protect_target: bool = False,
        target_epsilon: float | None = None,
        target_delta: float | None = None,
        target_ledger: Any = None,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        unit: str = "record",
        relation: str = "replace_one",
        mode: str = "strict",
        bounds: Bounds | None = None,
        entry_bound: float | None = None,
        ledger: Any = None,
        n_jobs: int | None = None,
        verbose: bool = False,
        random_state: Any = None,
    ) -> None:
        self.schedule = schedule
        self.n_layers = n_layers
        self.inducing_ratio = inducing_ratio
        self.kappa = kappa
        self.pca_components = pca_components
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
        self.mode = mode
        self.bounds = bounds
        self.entry_bound = entry_bound
        self.ledger = ledger
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    def fit(
        self,
        source: ArrayLike,
        y_source: ArrayLike,
        target: ArrayLike | None = None,
        y_target: ArrayLike | None = None,
    ) -> Self:
        """Release the source and, where a target is given, learn to classify it.

        Parameters
        ----------
        source : array-like of shape (n_source_rows, n_source_features)
            Rows of the source.
        y_source : array-like of shape (n_source_rows,)
            Labels of the source.
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
        self, source: ArrayLike, y_source: ArrayLike, target: ArrayLike, y_target: ArrayLike
    ) -> NDArray[Any]:
        """Fit, and give the labels that the target's rows have in the end.

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
        source_file : path-like
            What `export_source` wrote.
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
        """Do as `fit_target`, and give the labels that the target's rows have in the end.

        Parameters
        ----------
        source_file : path-like
            What `export_source` wrote.
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
        self._check_parameters()
        self._forget()
        checked = self._check_source(source, y_source)
        few = None if target is None else self._check_target(target, y_target)
        self._release_source(*checked)
        return None if few is None else self._fit_target(*few)

    def _fit_elsewhere(self, source_file: Any, target: Any, y_target: Any) -> Any:
        self._check_parameters()
        party = load(source_file)
        if not isinstance(party, PrivateTransferClassifier) or not hasattr(party, "source_mode_"):
            raise InvalidInputError("'source_file' holds no source that `export_source` wrote.")
        if party.source_mode_ != self.mode:
            raise InvalidInputError(
                f"The source was released in mode {party.source_mode_!r}, this classifier has mode "
                f"{str(self.mode)!r}."
            )
        self._forget()
        self._take_source(party)
        return self._fit_target(*self._check_target(target, y_target))

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
        check_is_fitted(self, "source_mode_")
        alone: PrivateTransferClassifier = clone(self).set_params(target_ledger=None, ledger=None)
        alone._take_source(self)
        alone.n_features_in_ = self.n_source_features_
        save(alone, path)

    def _check_stored(self, sizes: dict[str, int]) -> None:
        check_transfer(self, sizes)

    def _take_source(self, party: PrivateTransferClassifier) -> None:
        for name in SOURCE_ATTRIBUTES:
            if hasattr(party, name):
                setattr(self, name, getattr(party, name))
        self.guarantee_ = party.source_guarantee_

    def _forget(self) -> None:
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)

    def _check_parameters(self) -> None:
        check_ratio(self.inducing_ratio)
        check_kappa(self.kappa)
        check_count("target_components", self.target_components)
        if self.protect_target and self.mode == Mode.PAPER:
            raise UnsupportedModeError("'protect_target' is offered in mode 'strict' only.")
        if self.n_layers is not None:
            check_count("n_layers", self.n_layers)
        for n_components in self.schedule:
            check_count("schedule", n_components)

    def _fit_target(
        self, rows: Array, codes: NDArray[np.intp], protected: TargetRelease | None
    ) -> NDArray[np.intp] | None:
        """Learn to classify the target; give the codes of its rows, unless it is protected."""
        if protected is not None:
            self._fit_protected(rows, codes, protected)
            return None
        warnings.warn(WARNING, stacklevel=4)
        self.guarantee_ = self.source_guarantee_.only_if(NOT_PROTECTED)
        self.target_guarantee_: Guarantee | None = None
        if self.mode == Mode.PAPER:
            return self._fit_printed(rows, codes)
        labelled = codes >= 0
        self.target_centre_ = rows.mean(axis=0)
        self.target_directions_ = _principal(rows - self.target_centre_, self.target_components)
        points = self._target_points(rows)
        known = np.eye(len(self.classes_))[codes] * labelled[:, None]
        found = np.where(labelled, codes, self._adapt(rows, points, known).argmax(axis=1))
        rounds = self._rounds(points.shape[1])
        found = rounds.run(points, found, labelled)
        self.target_classifier_ = rounds.model(points, found, self.schedule[-1])
        self.source_weight_ = self._earned_weight(rows, found, labelled)
        return found

    def _fit_printed(self, rows: Array, codes: NDArray[np.intp]) -> NDArray[np.intp]:
        """Equations (79) to (87) as printed."""
        labelled = codes >= 0
        if not self._common_features():
            n_kept = min(len(self.source_directions_), rows.shape[1])
            self.target_directions_ = target_subspace(rows, n_kept)
        points = self._printed_points(rows)
        rounds = self._rounds(self.n_source_features_)
        first = first_errors(rounds, points, codes, labelled).argmin(axis=1)
        found = rounds.run(points, np.where(labelled, codes, first), labelled)
        self.target_classifier_ = rounds.model(points, found, self.schedule[-1])
        self.source_to_target_ = fit_source_to_target(  # (84) to (86)
            self.source_classifier_, self._in_source_space(points), found, rounds.generator
        )
        return found

    def _fit_protected(
        self, rows: Array, codes: NDArray[np.intp], protected: TargetRelease
    ) -> None:
        scored = self._source_scores(rows).argmax(axis=1)  # each row by itself
        self.target_, self.target_guarantee_ = protected.run(
            self._source_rows(rows), np.where(codes >= 0, codes, scored)
        )
        self.guarantee_ = for_either_record(self.source_guarantee_, self.target_guarantee_)
        self.source_weight_ = 1.0 if self.use_source else 0.0

    def _rounds(self, width: int) -> Rounds:
        is_paper = self.mode == Mode.PAPER
        usual_layers = PAPER_LAYERS if is_paper else 1
        return Rounds(
            tuple(self.schedule),
            (not is_paper) if self.cross_fit is None else self.cross_fit,
            width,
            self._autoencoders() | {"n_layers": self.n_layers or usual_layers},
            check_random_state(self.random_state),
        )

    # Checks ---------------------------------------------------------------------------------

    def _check_target(
        self, target: Any, y_target: Any
    ) -> tuple[Array, NDArray[np.intp], TargetRelease | None]:
        """Check everything about the target, before anything is charged.

        Gives its rows, the codes of its labels, -1 for none, and the plan of its own release.
        """
        given = to_numpy(target) if is_foreign(target) else target
        # An error about a value would tell that such a row is there.
        if self.protect_target:
            rows = self._check_rows(given)
        else:
            rows = checked_rows(self, given, reset=True)
            whole = rows[np.isfinite(rows).all(axis=1)]
            rows = sound_rows(rows, whole.mean(axis=0) if len(whole) else np.zeros(rows.shape[1]))
        given_codes = self._target_codes(rows, y_target)
        self._require_start(given_codes)
        planned = TargetRelease.plan(self, rows) if self.protect_target else None
        return rows, given_codes, planned

    def _target_codes(self, rows: Array, y_target: Any) -> NDArray[np.intp]:
        """Give the place of each label in the set, -1 for none; a protected one may be anything."""
        if y_target is None:
            raise InvalidInputError(
                "'y_target' is missing: give one label for each target row, -1 where there is none."
            )
        labels = self._check_column(rows, to_numpy(y_target) if is_foreign(y_target) else y_target)
        if (
            label_places(self.classes_, np.array([UNLABELLED, str(UNLABELLED)], object)) >= 0
        ).any():
            raise InvalidInputError("-1 marks a target row without label; it cannot be a label.")
        places = label_places(self.classes_, labels)
        marked = label_places(np.array([UNLABELLED]), labels) == 0
        if not self.protect_target and not (marked | (places >= 0)).all():
            raise InvalidInputError("'y_target' holds a label that the source does not have.")
        return places

    def _require_start(self, codes: NDArray[np.intp]) -> None:
        """Refuse a target that lacks labels of every class, the source's features, or rows."""
        labelled = codes[codes >= 0]
        if self.protect_target:
            self._require_common_features("protect_target=True")
        elif self.mode == Mode.PAPER:
            self._require_labels(labelled, "mode 'paper'")
        elif not (self.use_source and self._common_features()):
            self._require_labels(labelled, "a start without the source")
        elif len(codes) == 1 and not len(labelled) and self.cross_fit is not False:
            raise InvalidInputError(
                "The target is one row without a label; with 'cross_fit' no row is labelled by "
                "itself. Give at least two rows."
            )

    def _require_common_features(self, what: str) -> None:
        if not self._common_features():
            raise InvalidInputError(
                f"{what} needs source and target with the same features. Got "
                f"{self.n_source_features_} and {self.n_features_in_} features."
            )


def _principal(away: Array, n_components: int) -> Array:
    """Leading principal directions as columns."""
    n_kept = min(n_components, away.shape[1])
    return top_eigenvectors(away.T @ away, n_kept)[1]
