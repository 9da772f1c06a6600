"""The private linear classifier: three ways to a private minimiser, one class."""

from __future__ import annotations

import math
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from sfumato.bounds import Bounds
from sfumato.exceptions import InvalidInputError, UnsupportedModeError
from sfumato.guarantee import Guarantee, Mode, Relation, Status
from sfumato.kernels.arrays import is_foreign, like, namespace_of, to_numpy
from sfumato.margins.linear import LinearPredictions
from sfumato.margins.linear_budget import COUNT_SHARE, LinearBudget
from sfumato.margins.linear_fit import (
    SOLVERS,
    LinearPlan,
    LinearSettings,
    fit_weights,
    release_projection,
)
from sfumato.margins.linear_printed import fit_as_printed, printed_scores
from sfumato.margins.losses import LOSSES, Loss, loss_named
from sfumato.margins.rows import MOST_MINIMISED, LinearRows
from sfumato.moments.pca import check_n_components
from sfumato.persistence.forms import (
    Form,
    flag,
    known_bounds,
    labels,
    numbers,
    one_of,
    one_score_for_two,
    or_none,
    refuse,
)
from sfumato.private import PrivateEstimator
from sfumato.sums.grid import MOST_ROWS
from sfumato.sums.maps import IntoUnitBall
from sfumato.sums.records import Records

__all__ = ["PrivateLinearClassifier"]

USUAL_SHARE = 0.3
PRINTED_SHARE = 0.5
FOREIGN = "the array library computes exp and sqrt of a number alike at every place of an array"
SCORED = 4096  # rows that are scored together
MOST_WHITENED = 5000  # features: the second moment has their square, its eigenvectors their cube


class PrivateLinearClassifier(LinearPredictions, PrivateEstimator):
    """``argmax_c (W a)_c`` with private weights W of rows a in the unit ball, all classes jointly.

    Parameters
    ----------
    loss : {"softmax", "huber", "hinge"}, default="softmax"
        See `LinearClassifier`. Softmax is one joint loss whatever the number of classes; huber
        and hinge sum one loss a class. The corner of the hinge is rounded over ``1 ± 0.05``.
    solver : {"noisy-gd", "objective", "output"}, default="noisy-gd"
        "noisy-gd": gradient descent on all rows with noise on each gradient; the most accurate
        wherever it was measured. "objective": the minimiser of a sum of losses with a random
        linear term (not for the hinge). "output": the minimiser with noise, for any loss.
    n_components : int or None, default=None
        Private principal components to classify in; None keeps the features as they are.
    whiten : bool or None, default=None
        Scale the components by the released second moment so that their variances become about
        equal, and each projected row to length 1. None: with "noisy-gd" and up to 5,000
        features, where it was better on every set measured.
    pca_share : float or None, default=None
        Share of ``mu²`` that goes to the second moment, 0.3 if None; not used without
        `n_components` or `whiten`. In mode "paper" the share of epsilon, a half if None.
    regularization : float or None, default=None
        Strong convexity of the objective; None takes a multiple of the noise on the gradient,
        which needs no number of rows. Not used by "noisy-gd". In mode "paper" n lambda, with
        lambda 0.01 if None.
    huber_width : float, default=0.5
        Half the width of the rounding for ``loss="huber"``.
    fit_intercept : bool, default=True
        Append a constant to each row: ``a = [z; 1] / √2``.
    n_steps : int, default=240
        Gradients that "noisy-gd" releases.
    learning_rate : float or None, default=None
        Its step along the mean gradient; None for a public rule from the noise alone.
    momentum : float, default=0.9
        Share of the last move that is made again.
    clip : float, default=0.1
        Largest length of a row's slopes; longer ones are scaled back.
    epsilon, delta : float, default=1.0, 1e-6
        The budget of the whole fit. ``epsilon=inf`` gives no noise and no privacy; ``delta=0`` pure
        epsilon, for solvers "objective" and "output" without components.
    unit : {"record"}, default="record"
        One whole row with its label is protected.
    relation : {"replace_one", "add_or_remove_one"}, default="replace_one"
        The neighbours.
    mode : {"strict", "paper"}, default="strict"
        "paper" is DPML, and DPDR-DPML with `n_components`, as printed: one Huber machine a class.
    bounds : Bounds
        Public bounds of the rows and the label set; required.
    ledger : DatasetBudget, optional
        Who pays; see `sfumato.Ledger`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The public label set, sorted.
    weights_ : ndarray of shape (1 or n_classes, n_weights)
        W, the weight of the constant last.
    projection_ : ndarray of shape (n_features, n_components) or None
        The public projection of the rows.
    guarantee_ : Guarantee
        What is promised.

    Privacy
    -------
    Unit and relation : record, label included; replace_one or add_or_remove_one.
    Released : with components, the noisy second moment; then, by solver, the minimiser of a
        perturbed objective, the minimiser plus noise, or `n_steps` noisy gradients (and, where
        the number of rows is secret, the size of each class with noise).
    Sensitivity : of a gradient ``2 L`` (replace) or L (add or remove), L the longest slopes of a
        row: √2 for softmax, ``√n_scores`` for huber and hinge, 1 for two classes, and at most
        `clip` for "noisy-gd"; of the minimiser that divided by the strong convexity.
    Guarantee : objective perturbation by its loss bound, the others mu-GDP; all releases composed.
    Assumptions and numerics : bounds and label set are public, and where the number of rows is
        secret, that there are at most 2**26 of them (2**22 for "objective" and "output"). Gradients
        are exact sums, by how much minimisers are missed is bounded and paid for, noise is
        float-safe. Proofs: docs/guarantees/linear-classifier.md.

    References
    ----------
    Wang et al., Differentially private support vector machines with knowledge aggregation,
    Computers, Materials & Continua 78(3), 2024 (mode "paper").

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

    offered_modes: ClassVar[tuple[Mode, ...]] = (Mode.STRICT, Mode.PAPER)

    guarantee_: Guarantee

    stored_form: ClassVar[Form] = {
        "bounds": known_bounds,
        "classes_": labels("c"),
        "projection_": or_none(numbers("d", "k")),
        "weights_": numbers("s", "w"),
        "fit_intercept": flag(),
        "whiten": or_none(flag()),
        "mode": one_of("strict", "paper"),
        "solver": one_of(*SOLVERS),
        "loss": one_of(*LOSSES),
    }

    def __init__(
        self,
        *,
        loss: str = "softmax",
        solver: str = "noisy-gd",
        n_components: int | None = None,
        whiten: bool | None = None,
        pca_share: float | None = None,
        regularization: float | None = None,
        huber_width: float = 0.5,
        fit_intercept: bool = True,
        n_steps: int = 240,
        learning_rate: float | None = None,
        momentum: float = 0.9,
        clip: float = 0.1,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        unit: str = "record",
        relation: str = "replace_one",
        mode: str = "strict",
        bounds: Bounds | None = None,
        ledger: Any = None,
    ) -> None:
        self.loss = loss
        self.solver = solver
        self.n_components = n_components
        self.whiten = whiten
        self.pca_share = pca_share
        self.regularization = regularization
        self.huber_width = huber_width
        self.fit_intercept = fit_intercept
        self.n_steps = n_steps
        self.learning_rate = learning_rate
        self.momentum = momentum
        self.clip = clip
        self.epsilon = epsilon
        self.delta = delta
        self.unit = unit
        self.relation = relation
        self.mode = mode
        self.bounds = bounds
        self.ledger = ledger

    def fit(self, X: ArrayLike | Records, y: ArrayLike | None = None) -> Self:
        """Learn private weights.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or Records
            Rows; a tensor of another array library stays on its device with "noisy-gd". Records
            bring their labels along.
        y : array-like of shape (n_samples,)
            Labels.

        Returns
        -------
        Self
            The fitted estimator.
        """
        if self.mode == Mode.PAPER:
            return self._fit_as_printed(X, y)
        records, plan = self.plan(X, y)
        receipt = self._prepay(*plan.mechanisms())  # everything charged, then drawn
        self.projection_ = release_projection(records, plan, receipt, X)  # [L3] second moment
        rows = records.mapped(plan.row_map(records.width, self.projection_))
        self.weights_ = fit_weights(rows, plan, receipt)  # [L7] no row is read from here on
        self.guarantee_ = self._guarantee(receipt)
        if is_foreign(X) and self.solver == "noisy-gd":
            self._require_place_independence()
        return self

    def _check_stored(self, sizes: dict[str, int]) -> None:
        one_score_for_two(sizes)
        constant = bool(self.fit_intercept) and self.mode != Mode.PAPER
        if sizes["w"] != sizes.get("k", sizes["d"]) + constant:
            raise refuse("weights_", "one weight for each number of a mapped row")

    def plan(
        self, X: ArrayLike | Records, y: ArrayLike | None = None
    ) -> tuple[Records, LinearPlan]:
        """Check everything that a fit would refuse, and divide its budget; nothing is charged.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or Records
            As for `fit`.
        y : array-like of shape (n_samples,)
            As for `fit`.

        Returns
        -------
        tuple of Records and LinearPlan
            The records, rows in the unit ball, and the releases of a fit.
        """
        bounds = self._check_promise()
        if isinstance(X, Records) and self.solver != "noisy-gd":
            raise UnsupportedModeError(
                f"solver={self.solver!r} needs all rows in memory; use solver='noisy-gd'."
            )
        labels = to_numpy(y) if is_foreign(y) else y
        records, self.classes_ = self._labelled_unit_records(X, labels, bounds)  # [L1] unit ball
        self._check_settings()
        loss = loss_named(self.loss, len(self.classes_), huber_width=self.huber_width)
        is_secret = Relation(self.relation) is Relation.ADD_OR_REMOVE_ONE
        return records, LinearPlan.of(  # [L2] the budget divided
            self._budget(loss, records.width),
            self._settings(records.width),
            self._most_rows if is_secret else records.most_rows,
            is_secret=is_secret,
        )

    def _settings(self, n_features: int) -> LinearSettings:
        return LinearSettings(
            solver=self.solver,
            n_components=self._components_kept(n_features),
            whiten=self._whitens,
            intercept=bool(self.fit_intercept),
            n_steps=int(self.n_steps),
            learning_rate=self.learning_rate,
            momentum=self.momentum,
            clip=self.clip,
        )

    def _require_place_independence(self) -> None:
        if self.guarantee_.status is Status.PROVED:
            self.guarantee_ = self.guarantee_.with_status(Status.CONDITIONAL, FOREIGN)

    def _fit_as_printed(self, X: Any, y: Any) -> Self:
        bounds = self._check_promise()
        rows = self._check_rows(X)
        codes, self.classes_ = self._check_labels(rows, y, bounds)
        self._check_settings()
        self._warn_if_weak(len(rows))
        loss = loss_named(self.loss, len(self.classes_), huber_width=self.huber_width)
        fit_as_printed(self, rows, codes, loss, self._share(PRINTED_SHARE))
        return self

    # Rows -----------------------------------------------------------------------------------

    def _scores(self, X: ArrayLike) -> Any:
        check_is_fitted(self)
        rows = self._check_rows(X, reset=False)
        if self.mode == Mode.PAPER:
            return printed_scores(self, rows)
        assert self.bounds is not None  # noqa: S101 - checked by fit
        into_ball = IntoUnitBall(self.bounds, self.n_features_in_)
        row_map = LinearRows(
            self.n_features_in_, self.fit_intercept, self.projection_, self._whitens
        )
        weights = like(rows, np.ascontiguousarray(self.weights_.T))
        n_rows = int(rows.shape[0])
        scores = np.empty((n_rows, len(self.weights_)))
        for start in range(0, n_rows, SCORED):
            part = slice(start, min(start + SCORED, n_rows))
            scores[part] = to_numpy(row_map(into_ball(rows[part, :])) @ weights)
        return scores

    def _check_rows(self, X: Any, *, reset: bool = True, bounds: Bounds | None = None) -> Any:
        if not is_foreign(X) or self.solver != "noisy-gd" or self.mode == Mode.PAPER:
            rows = to_numpy(X) if is_foreign(X) else X
            return super()._check_rows(rows, reset=reset, bounds=bounds)
        is_secret = reset and Relation(self.relation) is Relation.ADD_OR_REMOVE_ONE
        if X.ndim != 2 or 0 in X.shape[is_secret:]:
            raise InvalidInputError(f"Rows must form a 2-D array. Got {X.ndim} dimensions.")
        if reset:
            self._check_number(int(X.shape[0]))
            self.n_features_in_ = int(X.shape[1])
        elif X.shape[1] != self.n_features_in_:
            raise InvalidInputError(
                f"X has {X.shape[1]} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input."
            )
        xp = namespace_of(X)
        return X if xp.isdtype(X.dtype, "real floating") else xp.astype(X, xp.float64)

    # Settings -------------------------------------------------------------------------------

    def _check_settings(self) -> None:
        for name, value, choices in (("loss", self.loss, LOSSES), ("solver", self.solver, SOLVERS)):
            if value not in choices:
                allowed = ", ".join(map(repr, choices))
                raise InvalidInputError(f"'{name}' must be one of {allowed}. Got {value!r}.")
        if len(self.classes_) < 2:
            raise InvalidInputError(
                "The label set holds one class; a classifier needs at least two."
            )
        if self.loss == "hinge" and "objective" in (self.solver, self._printed_solver):
            raise UnsupportedModeError(
                "The hinge cannot be used with objective perturbation: its corner puts minimisers "
                "exactly on margins, where they give a row away with positive probability, "
                "whatever the noise. Use loss='huber', or solver='output'."
            )
        if not 0 < self.clip < 2:
            raise InvalidInputError(f"'clip' must lie between 0 and 2. Got {self.clip} instead.")
        if not (isinstance(self.n_steps, Integral) and self.n_steps >= 1):
            raise InvalidInputError(f"'n_steps' must be an integer >= 1. Got {self.n_steps!r}.")
        if not 0 <= self.momentum < 1:
            raise InvalidInputError(f"'momentum' must lie in [0, 1). Got {self.momentum} instead.")
        for name in ("regularization", "learning_rate"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise InvalidInputError(f"'{name}' must be positive or None. Got {value} instead.")
        if self.delta == 0 and math.isfinite(self.epsilon) and self._needs_delta:
            raise UnsupportedModeError(
                "Pure epsilon, delta=0, is offered for solvers 'objective' and 'output' without "
                "components; Gaussian noise needs a positive 'delta'."
            )

    @property
    def _whitens(self) -> bool:
        if self.whiten is not None:
            return bool(self.whiten)
        return self.solver == "noisy-gd" and self.n_features_in_ <= MOST_WHITENED

    @property
    def _printed_solver(self) -> str | None:
        return "objective" if self.mode == Mode.PAPER else None

    @property
    def _needs_delta(self) -> bool:
        if self.mode == Mode.PAPER:
            return self.n_components is not None
        return self.solver == "noisy-gd" or self._whitens or self.n_components is not None

    def _budget(self, loss: Loss, n_features: int) -> LinearBudget:
        kept = self._components_kept(n_features)
        projects = self._whitens or kept < n_features
        share = self._share(USUAL_SHARE) if projects else 0.0
        counted = COUNT_SHARE if self._counts else 0.0
        if not share + counted < 1:
            raise InvalidInputError(
                f"'pca_share' must lie below {1 - counted:g} with solver='noisy-gd' and this "
                f"'relation', which count the rows as well. Got {share}."
            )
        return LinearBudget(
            epsilon=float(self.epsilon),
            delta=float(self.delta),
            relation=Relation(self.relation),
            loss=loss,
            projection_share=share,
            regularization=self.regularization,
            n_features=n_features,
        )

    @property
    def _counts(self) -> bool:
        secret = Relation(self.relation) is Relation.ADD_OR_REMOVE_ONE
        return secret and self.solver == "noisy-gd"

    @property
    def _most_rows(self) -> int:
        """Public bound on the number of rows."""
        if self.solver == "noisy-gd" or Relation(self.relation) is Relation.REPLACE_ONE:
            return MOST_ROWS
        return MOST_MINIMISED

    def _share(self, usual: float) -> float:
        share = usual if self.pca_share is None else float(self.pca_share)
        if not 0 < share < 1:
            raise InvalidInputError(f"'pca_share' must lie in (0, 1) or be None. Got {share}.")
        return share

    def _components_kept(self, n_features: int) -> int:
        if self.n_components is None:
            return n_features
        return check_n_components(self.n_components, n_features)
