"""DPML mended: one objective for all classes with a random linear term, and what it costs."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.core.constraints import Form, flag, one_of, or_none, real, whole
from sfumato.exceptions import UnsupportedModeError
from sfumato.mechanisms.objective import farthest_minimiser, rounding_met
from sfumato.models.base import PrivateClassifier
from sfumato.models.gaussians import top_eigenvectors
from sfumato.papers.feddpdr import losses
from sfumato.papers.feddpdr.newton import in_doubles, newton
from sfumato.papers.perturbed import MAX_MINIMISED, ObjectiveBudget
from sfumato.privacy.guarantee import Relation, Unit
from sfumato.sums.gradients import Loss, loss_named
from sfumato.sums.maps import IntoUnitBall, LinearRows
from sfumato.sums.statistics import SecondMoment

Array = NDArray[np.float64]

BLOCK = 256  # rows of one product; blocks are added in pairs, pairs of pairs, and so on
UNIT_ROUNDOFF = 2.0**-53
NOISE_SHARE = 0.25
LOSSES = ("softmax", "huber")


@dataclass(frozen=True)
class LinearLimits:
    """What holds for `LinearObjective` of all data of a public size."""

    loss: Loss
    n_rows: int  # or a bound on it
    n_columns: int

    @property
    def size(self) -> int:
        """Numbers of the weights."""
        return self.loss.n_scores * self.n_columns

    def sensitivity(self, relation: Relation) -> float:
        """Largest change of the gradient between neighbours."""
        return losses.sensitivity(self.loss, relation)

    def dimension(self, relation: Relation) -> int:
        """Dimension of a space that holds that change."""
        return losses.dimension(self.loss, relation)

    def log_determinant(self, convexity: float) -> float:
        """Largest ``log det(I + H / convexity)`` of the Hessian H of one row."""
        return losses.log_determinant(self.loss, convexity)

    def gradient_error(self, norm: float) -> float:
        """Bound on what rounding may change in a gradient at weights of this norm.

        A score of m products, added up in about √m groups of √m, is off by ``(2√m + 4) u ||W||`` at
        most and moves the slopes of its row by that times the curvature bound; slopes themselves by
        a few units more; a sum over n rows by as many units as additions that a term goes through.
        """
        per_score = (2 * _group(self.n_columns) + 4) * norm * self.loss.max_curvature
        levels = math.ceil(math.log2(max(1.0, self.n_rows / BLOCK)))
        in_sums = min(self.n_rows, BLOCK) + levels + 2
        per_row = per_score + (in_sums + 16 * self.loss.n_scores) * self.loss.slope_bound
        return 1.01 * UNIT_ROUNDOFF * self.n_rows * per_row

    def rounding(self, linear: float, convexity: float) -> float:
        """Bound on that rounding wherever a solver may look: from public numbers alone."""
        slopes, at_zero = self._slopes_and_start
        return rounding_met(self.gradient_error, slopes, at_zero, linear, convexity)

    def farthest(self, linear: float, convexity: float) -> float:
        """Bound on the norm of the minimiser."""
        return farthest_minimiser(*self._slopes_and_start, linear, convexity)

    @property
    def _slopes_and_start(self) -> tuple[float, float]:
        return self.n_rows * self.loss.slope_bound, self.n_rows * losses.value_at_zero(self.loss)


def _group(n_columns: int) -> int:
    return math.isqrt(max(0, n_columns - 1)) + 1


@dataclass(frozen=True)
class LinearObjective:
    """``sum_i loss(W a_i; y_i)`` as a function of the weights W, for rows a of length 1 at most."""

    loss: Loss
    rows: Array
    targets: Array  # as `losses.targets_of` gives them

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the weights."""
        return self.loss.n_scores, self.rows.shape[1]

    @property
    def smoothness(self) -> float:
        """Lipschitz constant of the gradient."""
        return len(self.rows) * self.loss.max_curvature

    def value(self, weights: Array) -> float:
        """Sum of the losses."""
        return math.fsum(
            float(losses.values(self.loss, rows @ weights.T, targets).sum())
            for rows, targets in in_doubles(self.rows, self.targets)
        )

    def gradient(self, weights: Array) -> Array:
        """Gradient of the sum, added up in pairs of blocks."""
        return self._gradient_of(weights, 0, len(self.rows))

    def _gradient_of(self, weights: Array, start: int, stop: int) -> Array:
        if stop - start > BLOCK:
            middle = start + BLOCK * ((stop - start + 2 * BLOCK - 1) // (2 * BLOCK))
            first = self._gradient_of(weights, start, middle)
            return first + self._gradient_of(weights, middle, stop)
        rows, targets = self.rows[start:stop], self.targets[start:stop]
        width = _group(rows.shape[1])
        scores = np.zeros((len(rows), len(weights)))
        for column in range(0, rows.shape[1], width):
            part = slice(column, column + width)
            scores += rows[:, part] @ weights[:, part].T
        return np.asarray(losses.slopes(self.loss, scores, targets).T @ rows)

    @property
    def _limits(self) -> LinearLimits:
        return LinearLimits(self.loss, *self.rows.shape)

    def gradient_error(self, weights: Array) -> float:
        """Bound on what rounding may change in the norm of `gradient`."""
        return self._limits.gradient_error(float(np.linalg.norm(weights)))

    def radius(self, linear: float, strong_convexity: float) -> float:
        """Bound on the norm of the minimiser for linear terms of this norm."""
        return self._limits.farthest(linear, strong_convexity)

    def minimise(self, linear: Array, strong_convexity: float, tolerance: float) -> Array:
        """Minimise ``sum loss + <linear, W> + strong_convexity/2 ||W||²``."""
        return newton(self.loss, self.rows, self.targets, linear, strong_convexity, tolerance)


@dataclass(eq=False, repr=False)
class PrivateObjectiveClassifier(PrivateClassifier):
    """``argmin_W sum_i loss(W a_i; y_i) + Λ/2 ||W||² + <B, W>`` with a random B, rows in the ball.

    Parameters
    ----------
    loss : {"softmax", "huber"}, default="softmax"
        All classes jointly, or one rounded hinge per class. The hinge itself cannot be used: its
        corner puts minimisers exactly on margins, where they reveal a row with positive
        probability, whatever the noise.
    n_components : int or None, default=None
        Private principal components to classify in; None keeps the features as they are.
    pca_share : float, default=0.3
        Share of ``mu²`` that goes to the components; not used without them.
    regularization : float or None, default=None
        Λ; None takes a quarter of the deviation of the noise, which needs no number of rows.
    huber_width : float, default=0.5
        Half the width of the rounding for ``loss="huber"``.
    fit_intercept : bool, default=True
        Append a constant to each row: ``a = [z; 1] / √2``.
    $shared

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The public label set, sorted.
    coef_ : ndarray of shape (1 or n_classes, n_features or n_components)
        Weights of a row in the unit ball, after `projection_` where there is one.
    intercept_ : ndarray of shape (1 or n_classes,)
        Weights of the constant; zeros without one.
    projection_ : ndarray of shape (n_features, n_components) or None
        The private components.
    guarantee_ : Guarantee
        The privacy guarantee of the fit.

    Privacy
    -------
    Unit and relation : record, label included; replace_one or add_or_remove_one.
    Released : with components, the noisy second moment; then the minimiser of the perturbed
        objective, up to a known error that a little noise on it hides.
    Sensitivity : of the gradient ``2 L`` (replace) or L (add or remove), L the longest slopes of a
        row: √2 for softmax, ``√n_scores`` for huber, 1 for two classes.
    Guarantee : the loss bound of objective perturbation, composed with the components.
    Assumptions and numerics : bounds and label set are public, and where the number of rows is
        secret, that there are at most 2**22 of them; the solver's error is bounded and covered by
        noise, which is float-safe. Proof: docs/guarantees/feddpdr.md.

    See Also
    --------
    sfumato.PrivateLinearClassifier : By noisy gradients; more accurate wherever it was measured.
    """

    _: KW_ONLY
    loss: str = "softmax"
    n_components: int | None = None
    pca_share: float = 0.3
    regularization: float | None = None
    huber_width: float = 0.5
    fit_intercept: bool = True

    offered_units: ClassVar[tuple[Unit, ...]] = (Unit.RECORD,)
    in_unit_ball: ClassVar[bool] = False  # here, where rows are read once
    needs_memory: ClassVar[bool] = True
    max_secret_rows: ClassVar[int] = MAX_MINIMISED
    parameters: ClassVar[Form] = {
        "loss": one_of(*LOSSES),
        "n_components": or_none(whole(least=1)),
        "pca_share": real(above=0.0, below=1.0),
        "regularization": or_none(real(above=0.0)),
        "huber_width": real(above=0.0),
        "fit_intercept": flag(),
    }

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Learn private weights.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Labels.

        Returns
        -------
        Self
            The fitted estimator.
        """
        rows, codes, budget = self._begin_in_memory(X, y)
        if self.delta == 0 and math.isfinite(self.epsilon):
            raise UnsupportedModeError("Gaussian noise needs a positive 'delta'.")
        n_rows, n_features = rows.shape
        kept = min(self.n_components or n_features, n_features)
        loss = loss_named(self.loss, len(self.classes_), huber_width=self.huber_width)
        relation = Relation(self.relation)
        most = n_rows if relation is Relation.REPLACE_ONE else MAX_MINIMISED
        public = ObjectiveBudget(
            epsilon=float(self.epsilon),
            delta=float(self.delta),
            relation=relation,
            limits=LinearLimits(loss, most, kept + bool(self.fit_intercept)),
            n_features=n_features,
            n_rows=most,
            pca_share=self.pca_share if kept < n_features else 0.0,
            regularization=self.regularization,
            noise_share=NOISE_SHARE,
            tolerance=1e-4,
        )
        first, last = public.components(), public.objective()
        if first is not None:
            first.for_size(n_features**2)
        releases = [each.event() for each in (first, last) if each]
        receipt = budget.charge(*releases)  # then everything is drawn

        inside = IntoUnitBall(self.row_bounds, n_features)
        self.projection_ = None
        if first is not None:
            records = budget.records.mapped(inside)
            moment = records.release(SecondMoment(n_features), first, receipt)
            self.projection_ = top_eigenvectors(moment, kept)[1]
        mapped = self._row_map(n_features)(inside(rows))
        objective = LinearObjective(loss, mapped, losses.targets_of(loss, codes))
        weights = last.release(objective, ledger=receipt)  # no row is read from here on
        self.coef_ = np.ascontiguousarray(weights[:, :kept])
        self.intercept_ = weights[:, -1] if self.fit_intercept else np.zeros(len(weights))
        self.guarantee_ = budget.guarantee()
        return self

    def _row_map(self, n_features: int) -> LinearRows:
        return LinearRows(n_features, bool(self.fit_intercept), self.projection_)

    def _scores(self, rows: Any) -> Array:
        mapped = self._row_map(rows.shape[1])(IntoUnitBall(self.row_bounds, rows.shape[1])(rows))
        constant = [self.intercept_[:, None]] if self.fit_intercept else []
        return np.asarray(mapped @ np.hstack([self.coef_, *constant]).T)
