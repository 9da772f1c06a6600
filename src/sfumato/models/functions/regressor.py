"""The private kernel regressor."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin

from sfumato.core.constraints import Form, refuse
from sfumato.exceptions import InvalidInputError, MissingBoundsError
from sfumato.models.functions.machines import STORED_MACHINE, PrivateKernelMachine
from sfumato.models.objectives.certified import minimise
from sfumato.models.objectives.score_losses import InsensitiveLoss, ScoreHuberLoss, ScoreLoss
from sfumato.tables.bounds import Bounds
from sfumato.tables.cells import as_numbers, checked_column
from sfumato.tables.schema import TableBounds

Array = NDArray[np.float64]

LOSSES: dict[str, ScoreLoss] = {
    "absolute": ScoreHuberLoss(band=0.02),
    "epsilon_insensitive": InsensitiveLoss(),
    "huber": ScoreHuberLoss(),
}


class PrivateKernelRegressor(RegressorMixin, PrivateKernelMachine):
    r"""``f = argmin_g (1/n) sum loss(g(x_i) - y_i) + λ ||g||²``, released with noise.

    Parameters
    ----------
    loss : {"huber", "absolute", "epsilon_insensitive"}, default="huber"
        An admissible loss: convex, Lipschitz in the value. The squared loss is not one. Bands are
        a tenth of half the range of the target, and kinks are rounded by a fiftieth of it.
    target_bounds : (float, float)
        Public range of the target; required. Targets are clipped to it and scaled to [-1, 1], and
        its middle plays the part of the intercept.
    bandwidth : float or array-like, optional
        Width h of the Gaussian kernel; by default half the radius of the bounds.
    regularization : float, optional
        Strength λ. By default a public rule: the λ at which the noise of a prediction has a
        standard deviation of a fortieth of the range of the target, between 1e-4 and 1.
    n_fourier : int, default=1024
        Public random Fourier features, used where exact features of the kernel would be more
        than 2048.
    tolerance : float, default=0.01
        Share of the sensitivity that is paid for the solver, which stops at a certified gap; at
        least 0.001.
    expected_rows : int, optional
        A public number by which the loss is divided under "add_or_remove_one".
    random_state : int, RandomState or None, default=0
        For the public frequencies only.
    epsilon, delta : float, default=1.0, 1e-6
        The budget. ``epsilon=inf`` gives the machine without noise.
    unit : {"record"}, default="record"
        One whole row with its target is protected.
    relation : {"replace_one", "add_or_remove_one"}, default="replace_one"
        Which data sets count as neighbours.
    bounds : Bounds
        Public bounds of the rows; required.
    ledger : DatasetBudget, optional
        The budget that pays; see `sfumato.Ledger`.

    Attributes
    ----------
    features_ : dict
        The public feature map.
    coefficients_ : ndarray of shape (n_features_of_the_map, 1)
        What was released.
    regularization_ : float
        λ.
    guarantee_ : Guarantee
        The privacy guarantee of the fit.
    noise_std_ : float
        Standard deviation of the noise of one prediction, in units of the target.

    Privacy
    -------
    Unit and relation : record, target included; replace_one or add_or_remove_one.
    Released : the minimiser as a vector of public features, with Gaussian noise.
    Sensitivity : ``1 / (λ n)`` (replace; half of it for add or remove) in the norm of the space,
        enlarged by `tolerance` for the certified gap.
    Guarantee : mu-GDP by the Gaussian process mechanism, hence (epsilon, delta).
    Assumptions and numerics : bounds and target range are public; there is no unregularised
        intercept; the solver reaches its gap, by a theorem. Proof:
        docs/guarantees/kernel-machines.md.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato import Bounds
    >>> from sfumato.models.functions import PrivateKernelRegressor
    >>> X = np.random.default_rng(0).uniform(size=(3000, 1))
    >>> y = np.sin(6 * X[:, 0])
    >>> model = PrivateKernelRegressor(target_bounds=(-1.5, 1.5), bandwidth=0.2, delta=1e-5,
    ...                                bounds=Bounds(lower=0.0, upper=1.0)).fit(X, y)
    >>> bool(model.score(X, y) > 0.8)
    True
    """

    aimed_noise = 0.05

    stored_form: ClassVar[Form] = STORED_MACHINE

    def __init__(
        self,
        loss: str = "huber",
        *,
        target_bounds: tuple[float, float] | None = None,
        bandwidth: Any = None,
        regularization: float | None = None,
        n_fourier: int = 1024,
        tolerance: float = 0.01,
        expected_rows: int | None = None,
        random_state: Any = 0,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        unit: str = "record",
        relation: str = "replace_one",
        bounds: Bounds | TableBounds | None = None,
        ledger: Any = None,
    ) -> None:
        self.loss = loss
        self.target_bounds = target_bounds
        self.bandwidth = bandwidth
        self.regularization = regularization
        self.n_fourier = n_fourier
        self.tolerance = tolerance
        self.expected_rows = expected_rows
        self.random_state = random_state
        self.epsilon = epsilon
        self.delta = delta
        self.unit = unit
        self.relation = relation
        self.bounds = bounds
        self.ledger = ledger

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Learn the machine to a certified gap and release it once.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Targets.

        Returns
        -------
        Self
            The fitted estimator.
        """
        bounds = self._validate_privacy_params()
        self._check_choices()
        if self.loss not in LOSSES:
            raise InvalidInputError(
                f"'loss' must be one of {sorted(LOSSES)}. Got {self.loss!r} instead."
            )
        middle, half = self._target_range()
        rows = self._check_rows(X)
        targets = self._check_targets(rows, self._target(X, y))
        self._warn_if_weak(len(rows))

        mapped = self._map_rows(rows, bounds)  # [K1] public features, ||phi(x)|| <= 1
        loss, n_rows = LOSSES[self.loss], self._public_count(len(rows))
        self.regularization_ = self._public_regularization(n_rows, loss.lipschitz)
        self._require_resolution(n_rows, loss.smoothness)
        mechanism, gap = self._mechanism(n_rows, loss.lipschitz)  # [K2] with the gap in it
        mechanism.for_size(mapped.shape[1])  # refused before the charge
        scaled = (np.clip(targets, middle - half, middle + half) - middle) / half
        machine = minimise(  # [K3] certified to the gap
            mapped, scaled, loss, regularization=self.regularization_, tolerance=gap, n_rows=n_rows
        )
        receipt = self._charge(mechanism)  # [K4] charge, then draw
        self.coefficients_ = mechanism.release(machine.coefficients[:, None], ledger=receipt)

        self.noise_std_ = half * math.sqrt(mechanism.variance())
        self.guarantee_ = self._guarantee(receipt, "range of the target")
        return self

    def _check_stored(self, sizes: dict[str, int]) -> None:
        self._target_range()
        if sizes["s"] != 1:
            raise refuse("coefficients_", "one function")

    def _target_range(self) -> tuple[float, float]:
        told = self.target_bounds
        if told is None and isinstance(self.bounds, TableBounds):
            told = self.bounds.target_range
        if told is None:
            raise MissingBoundsError(
                "PrivateKernelRegressor needs 'target_bounds', the public range of the target; it "
                "is never learned from data."
            )
        low, high = (float(end) for end in told)
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise InvalidInputError("'target_bounds' must be two finite numbers, the lower first.")
        return (low + high) / 2, (high - low) / 2

    def _check_targets(self, rows: Array, y: ArrayLike | None) -> Array:
        """Return the targets; one that is no finite number becomes the middle of the range."""
        targets = as_numbers(checked_column(self, y, len(rows)))
        return np.where(np.isfinite(targets), targets, self._target_range()[0])

    def predict(self, X: ArrayLike) -> Array:
        """Return the released function at rows, inside the range of the target.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            Values of the function.
        """
        middle, half = self._target_range()
        return middle + half * np.clip(self._scores(X)[:, 0], -1.0, 1.0)
