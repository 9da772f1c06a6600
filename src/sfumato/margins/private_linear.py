"""The private linear classifier: three ways to a private minimiser, one class."""

from __future__ import annotations

import math
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from sfumato.accounting.receipt import Receipt
from sfumato.bounds import Bounds
from sfumato.exceptions import InvalidInputError, UnsupportedModeError
from sfumato.guarantee import Guarantee, Mode, Relation, Status
from sfumato.kernels.arrays import Array, is_foreign, like, namespace_of, to_numpy
from sfumato.margins.linear import LinearPredictions
from sfumato.margins.linear_budget import COUNT_SHARE, LinearBudget, Repeated
from sfumato.margins.linear_printed import fit_as_printed, printed_scores
from sfumato.margins.losses import LOSSES, Loss, loss_named
from sfumato.margins.noisy_gradient import Descent, clipped_gradient, descend
from sfumato.margins.objective import LinearObjective
from sfumato.margins.rows import MOST_MINIMISED, RowMap, unit_rows
from sfumato.margins.whitening import second_moment, whitening_projection
from sfumato.mechanisms.base import Mechanism
from sfumato.mechanisms.gaussian import GaussianMechanism
from sfumato.mechanisms.minimiser import near_minimiser
from sfumato.moments.pca import check_n_components, top_eigenvectors
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

__all__ = ["PrivateLinearClassifier"]

SOLVERS = ("noisy-gd", "objective", "output")
USUAL_SHARE = 0.3
PRINTED_SHARE = 0.5
# Public rule for the step: noise alone would move the score of a row of length 1 by this many
# units. Chosen, with clip and n_steps, on held-out training rows of two image sets at four budgets
# and under both relations: best within noise everywhere among 0.4, 0.8, 1.6, 3.2 and 6.4.
SCORE_NOISE = 1.6
LARGEST_STEP = 32.0  # of the learning rate times clip, where there is hardly any noise
AVERAGED = 0.5
FOREIGN = "the array library computes exp and sqrt of a number alike at every place of an array"
EXACT = 1e-6  # gradient norm of a minimiser without privacy
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

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn private weights.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; a tensor of another array library stays on its device with "noisy-gd".
        y : array-like of shape (n_samples,)
            Labels.

        Returns
        -------
        Self
            The fitted estimator.
        """
        bounds = self._check_promise()
        rows = self._check_rows(X)
        labels = to_numpy(y) if is_foreign(y) else y
        codes, self.classes_ = self._check_labels(rows, labels, bounds)
        self._check_settings()
        loss = loss_named(self.loss, len(self.classes_), huber_width=self.huber_width)
        self._warn_if_weak(int(rows.shape[0]))
        if self.mode == Mode.PAPER:
            fit_as_printed(self, rows, codes, loss, self._share(PRINTED_SHARE))
            return self

        units = unit_rows(bounds, rows)  # [L1] rows in the unit ball, each by itself
        budget = self._budget(loss, rows.shape[1])
        solve = {  # [L2] the budget divided, everything charged, then drawn
            "objective": self._by_objective,
            "output": self._by_output,
            "noisy-gd": self._by_noisy_descent,
        }[self.solver]
        self.weights_ = solve(budget, units, codes)  # [L7] weights; no row is read from here on
        return self

    def _check_stored(self, sizes: dict[str, int]) -> None:
        one_score_for_two(sizes)
        constant = bool(self.fit_intercept) and self.mode != Mode.PAPER
        if sizes["w"] != sizes.get("k", sizes["d"]) + constant:
            raise refuse("weights_", "one weight for each number of a mapped row")

    # The three solvers ----------------------------------------------------------------------

    def _by_objective(self, budget: LinearBudget, units: Array, codes: NDArray[Any]) -> Any:
        """Minimise the sum of losses with a random linear term."""
        first = budget.second_moment()
        mechanism = budget.objective(self._n_weights(units, budget.loss), self._public_rows(units))
        receipt = self._prepay(*_present(first, mechanism))
        rows = self._mapped(first, units, receipt)  # [L3] second moment released, rows projected
        objective = LinearObjective(budget.loss, rows, budget.loss.targets(codes, rows))
        weights = mechanism.release(objective, ledger=receipt)  # [L4] the minimiser
        self.guarantee_ = self._guarantee(receipt)
        return weights

    def _by_output(self, budget: LinearBudget, units: Array, codes: NDArray[Any]) -> Any:
        """Add noise to the minimiser."""
        first = budget.second_moment()
        size, n_rows = self._n_weights(units, budget.loss), self._public_rows(units)
        mechanism, convexity, residual = budget.output(size, n_rows)
        receipt = self._prepay(*_present(first, mechanism))
        rows = self._mapped(first, units, receipt)
        objective = LinearObjective(budget.loss, rows, budget.loss.targets(codes, rows))
        minimiser = self._minimiser(objective, convexity, residual)
        weights = mechanism.release(minimiser, ledger=receipt)  # [L5] the minimiser with noise
        self.guarantee_ = self._guarantee(receipt)
        return weights

    def _minimiser(self, objective: LinearObjective, convexity: float, residual: float) -> Any:
        """Give a point within ``residual / convexity`` of the minimiser, whatever the rows are."""
        linear = np.zeros(objective.shape)
        if math.isinf(self.epsilon):  # nothing is promised, so nothing need be certain
            return objective.minimise(linear, convexity, EXACT)
        return near_minimiser(objective, linear, convexity, residual)

    def _by_noisy_descent(self, budget: LinearBudget, units: Array, codes: NDArray[Any]) -> Any:
        """Descend along noisy gradients."""
        first, counter = budget.second_moment(), budget.count()
        size = self._n_weights(units, budget.loss)
        mechanism = budget.gradients(self.clip, self.n_steps, size, self._public_rows(units))
        receipt = self._prepay(*_present(first, counter, Repeated(mechanism, self.n_steps)))
        rows = self._mapped(first, units, receipt)
        n_rows = float(rows.shape[0])
        if counter is not None:
            counts = np.bincount(codes, minlength=budget.loss.n_classes)
            n_rows = max(1.0, float(counter.release(counts, ledger=receipt).sum()))
        targets, limit = budget.loss.targets(codes, rows), budget.slope_limit(self.clip)

        def released_gradient(weights: NDArray[np.float64]) -> NDArray[np.float64]:
            gradient = clipped_gradient(budget.loss, limit, rows, targets, weights)
            return mechanism.release(gradient, ledger=receipt)  # [L6] a noisy gradient

        shape = (budget.loss.n_scores, int(rows.shape[1]))
        plan = self._descent(mechanism, n_rows, limit)
        weights = descend(released_gradient, shape, n_rows, plan)
        self.guarantee_ = self._guarantee(receipt)
        if is_foreign(units) and self.guarantee_.status is Status.PROVED:
            self.guarantee_ = self.guarantee_.with_status(Status.CONDITIONAL, FOREIGN)
        return weights

    def _descent(self, mechanism: GaussianMechanism, n_rows: float, limit: float) -> Descent:
        """The step by a public rule: noise moves the score of a unit row by SCORE_NOISE."""
        rate = self.learning_rate
        if rate is None:
            noise = math.sqrt(self.n_steps * mechanism.variance()) / n_rows
            largest = LARGEST_STEP / limit
            wanted = SCORE_NOISE * (1 - self.momentum) / noise if noise else largest
            rate = min(wanted, largest)
        return Descent(self.n_steps, rate, self.momentum, AVERAGED)

    # Rows -----------------------------------------------------------------------------------

    def _mapped(self, first: GaussianMechanism | None, units: Array, receipt: Receipt) -> Array:
        """Release the second moment if one is asked for, and project the rows by it."""
        self.projection_ = None
        if first is not None:
            moment = first.release_symmetric(second_moment(units), ledger=receipt)
            kept = self._components_kept(units.shape[1])
            if self._whitens:
                noise = math.sqrt(first.variance())
                self.projection_ = whitening_projection(moment, kept, noise, units)
            else:
                self.projection_ = top_eigenvectors(moment, kept)[1]
        return self._row_map().finish(units)

    def _row_map(self) -> RowMap:
        assert self.bounds is not None  # noqa: S101 - checked by fit
        return RowMap(self.bounds, self.fit_intercept, self.projection_, self._whitens)

    def _scores(self, X: ArrayLike) -> Any:
        check_is_fitted(self)
        rows = self._check_rows(X, reset=False)
        if self.mode == Mode.PAPER:
            return printed_scores(self, rows)
        rows = self._row_map()(rows)
        return to_numpy(rows @ like(rows, np.ascontiguousarray(self.weights_.T)))

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

    def _public_rows(self, units: Array) -> int:
        """Number of rows where it is public, else the public bound on it."""
        is_public = Relation(self.relation) is Relation.REPLACE_ONE
        return int(units.shape[0]) if is_public else self._most_rows

    def _share(self, usual: float) -> float:
        share = usual if self.pca_share is None else float(self.pca_share)
        if not 0 < share < 1:
            raise InvalidInputError(f"'pca_share' must lie in (0, 1) or be None. Got {share}.")
        return share

    def _components_kept(self, n_features: int) -> int:
        if self.n_components is None:
            return n_features
        return check_n_components(self.n_components, n_features)

    def _n_weights(self, units: Array, loss: Loss) -> int:
        n_columns = self._components_kept(int(units.shape[1])) + bool(self.fit_intercept)
        return loss.n_scores * n_columns


def _present(*mechanisms: Mechanism | None) -> list[Mechanism]:
    return [mechanism for mechanism in mechanisms if mechanism is not None]
