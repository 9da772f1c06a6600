"""The private linear classifier, by noisy gradients."""

from __future__ import annotations

import math
from contextlib import nullcontext
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from sfumato.core.arrays import (
    is_accelerated,
    is_foreign_array,
    like,
    to_host,
    to_numpy,
)
from sfumato.core.constraints import (
    Form,
    check_n_scores,
    flag,
    known_bounds,
    labels,
    numbers,
    one_of,
    or_none,
    refuse,
)
from sfumato.exceptions import InvalidInputError, UnsupportedModeError
from sfumato.models.linear.budget import COUNT_SHARE, LinearBudget
from sfumato.models.linear.classifier import LinearPredictions
from sfumato.models.linear.fit import (
    LinearPlan,
    LinearSettings,
    check_steps,
    fit_weights,
    release_projection,
    split_weights,
)
from sfumato.models.private import PrivateEstimator
from sfumato.privacy.guarantee import Guarantee, Relation, Status, Unit
from sfumato.sums.losses import LOSSES, Loss, loss_named
from sfumato.sums.maps import IntoUnitBall, LinearRows
from sfumato.sums.records import Records
from sfumato.tables.bounds import Bounds
from sfumato.tables.cells import check_choice, check_n_components
from sfumato.tables.frames import is_out_of_core
from sfumato.tables.schema import TableBounds

DEFAULT_SHARE = 0.3
FOREIGN = "the array library computes exp and sqrt of a number alike at every place of an array"
SCORED = 4096  # rows that are scored together
FEWER_PASSES = (
    "PrivateGaussianClassifier asks it 1 to 4 times; a smaller 'n_steps' asks it less often."
)
WIDE = 64  # features of a ball that do without a constant
MAX_WHITENED = 2**13  # features: the second moment has their square, its eigenvectors their cube


class PrivateLinearClassifier(LinearPredictions, PrivateEstimator):
    """``argmax_c (W a)_c`` with private weights W of rows a in the unit ball, all classes jointly.

    Parameters
    ----------
    loss : {"softmax", "huber", "hinge"}, default="softmax"
        See `LinearClassifier`. Softmax is one joint loss whatever the number of classes; huber
        and hinge sum one loss per class. The corner of the hinge is rounded over ``1 ± 0.05``.
    n_components : int or None, default=None
        Private principal components to classify in; None keeps the features as they are.
    whiten : bool or None, default=None
        Scale the components by the released second moment so that their variances become about
        equal, and each projected row to length 1. None: up to 8,192 features, where it was better
        on every set measured.
    pca_share : float or None, default=None
        Share of ``mu²`` that goes to the second moment, 0.3 if None; not used without
        `n_components` or `whiten`.
    huber_width : float, default=0.5
        Half the width of the rounding for ``loss="huber"``.
    fit_intercept : bool or None, default=None
        Append a constant to each row: ``a = [z; 1] / √2``. None: unless whitened rows can do
        without, by public facts: at least 64 features with a norm alone, or a table with
        categories, of which a row has exactly one.
    n_steps : int, default=240
        Gradients that are released.
    learning_rate : float or None, default=None
        Step along the mean gradient; None for a public rule from the noise alone.
    momentum : float, default=0.9
        Share of the last move that is made again.
    max_gradient_norm : float, default=0.1
        Largest length of a row's gradient; longer ones are shortened.
    epsilon, delta : float, default=1.0, 1e-6
        The budget of the whole fit. ``epsilon=inf`` gives no noise and no privacy.
    unit : {"record", "person"}, default="record"
        One whole row with its label is protected, or all rows of a person.
    relation : {"replace_one", "add_or_remove_one"}, default="replace_one"
        Which data sets count as neighbours.
    bounds : Bounds
        Public bounds of the rows and the label set; required.
    ledger : DatasetBudget, optional
        The budget that pays; see `sfumato.Ledger`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The public label set, sorted.
    coef_ : ndarray of shape (1 or n_classes, n_features or n_components)
        Weights of a row in the unit ball, after `projection_` where there is one.
    intercept_ : ndarray of shape (1 or n_classes,)
        Weights of the constant; zeros without one.
    projection_ : ndarray of shape (n_features, n_components) or None
        The public projection of the rows.
    guarantee_ : Guarantee
        The privacy guarantee of the fit.

    Privacy
    -------
    Unit and relation : record, label included, or person; replace_one or add_or_remove_one.
    Released : with components or whitening, the noisy second moment; then `n_steps` noisy
        gradients (and, where the number of rows is secret, the size of each class with noise).
    Sensitivity : of a gradient ``2 L`` (replace) or L (add or remove), L the longest slopes of a
        row: √2 for softmax, ``√n_scores`` for huber and hinge, 1 for two classes, and at most
        `max_gradient_norm`.
    Guarantee : mu-GDP, all releases composed.
    Assumptions and numerics : bounds and label set are public, and where the number of rows is
        secret, that there are at most 2**26 of them. Gradients are exact sums, and noise is
        float-safe. Proof: docs/guarantees/linear-classifier.md.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sfumato import Bounds, PrivateLinearClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> bounds = Bounds(norm=80.0, labels=range(10))
    >>> model = PrivateLinearClassifier(epsilon=8.0, delta=1e-5, bounds=bounds)
    >>> bool(model.fit(X, y).score(X, y) > 0.6)
    True
    """

    guarantee_: Guarantee

    offered_units: ClassVar[tuple[Unit, ...]] = (Unit.RECORD, Unit.PERSON)
    joins_rows: ClassVar[bool] = True
    stored_form: ClassVar[Form] = {
        "bounds": known_bounds,
        "classes_": labels("c"),
        "projection_": or_none(numbers("d", "k")),
        "coef_": numbers("s", "w"),
        "intercept_": numbers("s"),
        "fit_intercept": or_none(flag()),
        "whiten": or_none(flag()),
        "loss": one_of(*LOSSES),
    }

    def __init__(
        self,
        *,
        loss: str = "softmax",
        n_components: int | None = None,
        whiten: bool | None = None,
        pca_share: float | None = None,
        huber_width: float = 0.5,
        fit_intercept: bool | None = None,
        n_steps: int = 240,
        learning_rate: float | None = None,
        momentum: float = 0.9,
        max_gradient_norm: float = 0.1,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        unit: str = "record",
        relation: str = "replace_one",
        bounds: Bounds | TableBounds | None = None,
        ledger: Any = None,
    ) -> None:
        self.loss = loss
        self.n_components = n_components
        self.whiten = whiten
        self.pca_share = pca_share
        self.huber_width = huber_width
        self.fit_intercept = fit_intercept
        self.n_steps = n_steps
        self.learning_rate = learning_rate
        self.momentum = momentum
        self.max_gradient_norm = max_gradient_norm
        self.epsilon = epsilon
        self.delta = delta
        self.unit = unit
        self.relation = relation
        self.bounds = bounds
        self.ledger = ledger

    def fit(
        self, X: ArrayLike | Records, y: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> Self:
        """Learn private weights.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or Records
            Rows; a tensor of another array library stays on its device. Records bring their labels
            along.
        y : array-like of shape (n_samples,)
            Labels.
        groups : array-like of shape (n_samples,), optional
            IDs of persons, for unit "person"; rows without one are dropped.

        Returns
        -------
        Self
            The fitted estimator.
        """
        records, plan = self.plan(X, y, groups)
        releases = plan.mechanisms()
        self._warn_of_passes(records, int(self.n_steps), FEWER_PASSES)
        receipt = self._charge(*releases)  # everything charged, then drawn
        device = None if is_out_of_core(X) else X
        # An accelerator need not wait for noise: what is paid for is drawn meanwhile.
        ahead = is_accelerated(device)
        with plan.prefetch_noise(records.width) if ahead else nullcontext():
            projection = release_projection(records, plan, receipt, device)  # [L3] second moment
            rows = records.mapped(plan.row_map(records.width, projection))
            weights = fit_weights(rows, plan, receipt)  # [L7] no row is read from here on
        self.projection_ = to_host(projection)
        self.coef_, self.intercept_ = split_weights(weights, intercept=self._has_constant)
        self.guarantee_ = self._guarantee(receipt)
        if is_foreign_array(device):
            self._require_place_independence()
        return self

    def _check_stored(self, sizes: dict[str, int]) -> None:
        check_n_scores(sizes)
        if sizes["w"] != sizes.get("k", sizes["d"]):
            raise refuse("coef_", "one weight for each number of a mapped row")

    def plan(
        self, X: ArrayLike | Records, y: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> tuple[Records, LinearPlan]:
        """Check everything that a fit would refuse, and divide its budget; nothing is charged.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or Records
            As for `fit`.
        y : array-like of shape (n_samples,)
            As for `fit`.
        groups : array-like of shape (n_samples,), optional
            As for `fit`.

        Returns
        -------
        tuple of Records and LinearPlan
            The records, rows in the unit ball, and the releases of a fit.
        """
        bounds = self._validate_privacy_params()
        labels = y if is_out_of_core(y) else to_host(y)
        records, self.classes_ = self._labelled_unit_records(  # [L1] unit ball
            X, labels, bounds, groups
        )
        records = records.group_by_person()  # rows of a person are bounded together
        is_secret = Relation(self.relation) is Relation.ADD_OR_REMOVE_ONE
        max_rows = self._max_rows if is_secret else records.max_rows
        self._check_settings()
        loss = loss_named(self.loss, len(self.classes_), huber_width=self.huber_width)
        longest = min(self.max_gradient_norm, loss.slope_bound)  # no slope of the loss is longer
        settings = self._settings(records.width, longest)
        return records, LinearPlan.of(  # [L2] the budget divided
            self._budget(loss, records.width),
            settings,
            max_rows,
            is_secret=records.public_rows is None,
        )

    def _settings(self, n_features: int, max_gradient_norm: float) -> LinearSettings:
        return LinearSettings(
            n_components=self._components_kept(n_features),
            whiten=self._whitens,
            intercept=self._has_constant,
            n_steps=int(self.n_steps),
            learning_rate=self.learning_rate,
            momentum=self.momentum,
            max_gradient_norm=max_gradient_norm,
        )

    def _require_place_independence(self) -> None:
        if self.guarantee_.status is Status.PROVED:
            self.guarantee_ = self.guarantee_.with_status(Status.CONDITIONAL, FOREIGN)

    # Rows -----------------------------------------------------------------------------------

    def _scores(self, X: ArrayLike) -> Any:
        check_is_fitted(self)
        rows = self._check_rows(X, reset=False)
        into_ball = IntoUnitBall(self.row_bounds, self.n_features_in_)
        projection = None if self.projection_ is None else like(rows, self.projection_)
        row_map = LinearRows(self.n_features_in_, self._has_constant, projection, self._whitens)
        constant = [self.intercept_[:, None]] if self._has_constant else []
        weights = like(rows, np.ascontiguousarray(np.hstack([self.coef_, *constant]).T))
        n_rows = int(rows.shape[0])
        scores = np.empty((n_rows, len(self.coef_)))
        for start in range(0, n_rows, SCORED):
            part = slice(start, min(start + SCORED, n_rows))
            scores[part] = to_numpy(row_map(into_ball(rows[part, :])) @ weights)
        return scores

    @property
    def keeps_tensors(self) -> bool:
        """Whether rows of another array library stay where they are."""
        return not getattr(self.bounds, "has_ranges", False)

    # Settings -------------------------------------------------------------------------------

    def _check_settings(self) -> None:
        check_steps(self.n_steps, self.max_gradient_norm)
        check_choice("loss", self.loss, LOSSES)
        if len(self.classes_) < 2:
            raise InvalidInputError(
                "The label set has only one class; a classifier needs at least two."
            )
        if not 0 <= self.momentum < 1:
            raise InvalidInputError(f"'momentum' must lie in [0, 1). Got {self.momentum} instead.")
        if self.learning_rate is not None and not 0 < self.learning_rate < math.inf:
            raise InvalidInputError(
                f"'learning_rate' must be positive or None. Got {self.learning_rate} instead."
            )
        if self.delta == 0 and math.isfinite(self.epsilon):
            raise UnsupportedModeError("Gaussian noise needs a positive 'delta'.")

    @property
    def _whitens(self) -> bool:
        if self.whiten is not None:
            return bool(self.whiten)
        return self.n_features_in_ <= MAX_WHITENED

    @property
    def _has_constant(self) -> bool:
        """Whether rows get a constant: as asked for, or by public facts.

        Rows around zero need one. Rows of a ball have a mean of their own, and encoded categories
        add up to a constant, unless rows are moved to the centre of a box.
        """
        if self.fit_intercept is not None:
            return bool(self.fit_intercept)
        if not self._whitens or self.row_bounds.ball(self.n_features_in_)[0].any():
            return True
        if isinstance(self.bounds, TableBounds):
            return not any(f.categories is not None and not f.ordered for f in self.bounds.features)
        bounds = self.row_bounds
        return bounds.norm is None or bounds.lower is not None or self.n_features_in_ < WIDE

    def _budget(self, loss: Loss, n_features: int) -> LinearBudget:
        kept = self._components_kept(n_features)
        projects = self._whitens or kept < n_features
        share = self._share() if projects else 0.0
        counted = COUNT_SHARE if self._counts else 0.0
        if not share + counted < 1:
            raise InvalidInputError(
                f"'pca_share' must lie below {1 - counted:g} with this "
                f"'relation', which counts the rows as well. Got {share}."
            )
        return LinearBudget(
            epsilon=float(self.epsilon),
            delta=float(self.delta),
            relation=Relation(self.relation),
            loss=loss,
            projection_share=share,
            n_features=n_features,
            person=self.person_unit,
        )

    @property
    def _counts(self) -> bool:
        has_votes = self.person_unit is None or self.person_unit.averages
        return not (has_votes and Relation(self.relation) is Relation.REPLACE_ONE)

    def _share(self) -> float:
        share = DEFAULT_SHARE if self.pca_share is None else float(self.pca_share)
        if not 0 < share < 1:
            raise InvalidInputError(f"'pca_share' must lie in (0, 1) or be None. Got {share}.")
        return share

    def _components_kept(self, n_features: int) -> int:
        if self.n_components is None:
            return n_features
        return check_n_components(self.n_components, n_features)
