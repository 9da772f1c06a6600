"""Private kernel machines: public features, a certified minimiser, one release.

``f = argmin_g (1/n) sum_i loss(g(x_i), y_i) + λ ||g||²`` over the space of a public, finite feature
map (section 4.3 of the paper on private functions); then noise in the norm of that space.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.core.constraints import Form, labels, numbers, one_of, or_none, real, refuse, whole
from sfumato.exceptions import InvalidInputError
from sfumato.mechanisms import GaussianProcessMechanism
from sfumato.models.base import PrivateClassifier, PrivateEstimator, PrivateRegressor, target_range
from sfumato.models.budget import Budget
from sfumato.models.features import (
    GaussianKernel,
    features_from_dict,
    public_features,
    stored_features,
)
from sfumato.models.solvers import (
    FeatureRows,
    HuberHingeLoss,
    ScoreHuberLoss,
    ScoreLoss,
    SmoothMaxHingeLoss,
    gradient_rounding,
    minimise,
)
from sfumato.privacy.gaussian import mu_from_budget
from sfumato.privacy.guarantee import Relation, Unit

Array = NDArray[np.float64]

MAX_EXACT = 2048  # exact features of the kernel; more are replaced by random ones
DEFAULT_MIN_REGULARIZATION, MAX_REGULARIZATION = 1e-4, 1.0  # of the public rule
MIN_REGULARIZATION = 1e-8
MIN_TOLERANCE = 1e-3
ROUNDING_SHARE = 2.0**-12  # of the sensitivity, for the rounding of each of two gradients

LOSSES: dict[str, tuple[ScoreLoss, ScoreLoss]] = {  # of two labels, and of more
    "huber": (HuberHingeLoss(), SmoothMaxHingeLoss()),
    "hinge": (HuberHingeLoss(0.02), SmoothMaxHingeLoss(0.02)),
}


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateKernelMachine(PrivateEstimator):
    """Base of the classifier and the regressor; see there.

    Parameters
    ----------
    $shared
    """

    bandwidth: Any = None
    regularization: float | None = None
    n_fourier: int = 1024
    tolerance: float = 0.01
    random_state: Any = 0

    aimed_noise: ClassVar[float]  # the public rule for λ aims at this deviation of a score
    offered_units: ClassVar[tuple[Unit, ...]] = (Unit.RECORD,)
    offered_relations: ClassVar[tuple[Relation, ...]] = (Relation.REPLACE_ONE,)
    in_unit_ball: ClassVar[bool] = False
    needs_memory: ClassVar[bool] = True
    parameters: ClassVar[Form] = {
        "regularization": or_none(real(least=MIN_REGULARIZATION)),
        "n_fourier": whole(least=2),
        "tolerance": real(least=MIN_TOLERANCE, most=1.0),
    }
    learned: ClassVar[Form] = {
        "features_": stored_features,
        "coefficients_": numbers("m", "s"),
        "regularization_": real(above=0.0),
        "noise_std_": real(least=0.0),
    }

    def _release_minimiser(
        self, rows: Array, y: NDArray[Any], loss: ScoreLoss, budget: Budget, n_classes: int = 0
    ) -> None:
        """Learn the machine to a certified gap and release it once."""
        n_rows = len(rows)  # public, by the relation
        bounds, width = self.row_bounds, rows.shape[1]
        radius = bounds.ball(width)[1]
        features = public_features(
            GaussianKernel(radius / 2 if self.bandwidth is None else self.bandwidth),
            bounds,
            width,
            fourier=self.n_fourier,
            random_state=self.random_state,
            most=MAX_EXACT,
        )
        self.features_ = features.to_dict()
        mapped = FeatureRows(  # [K1] public features, ||phi(x)|| <= 1
            rows, lambda block: features.transform(bounds.clip(block)), features.size
        )
        moved = loss.lipschitz / n_rows  # times 1/λ, by the exact minimiser
        strength = self.regularization
        if strength is None:  # the λ at which the noise of a score is as wanted
            mu = mu_from_budget(self.epsilon, self.delta)
            aimed = moved / mu / self.aimed_noise
            strength = float(np.clip(aimed, DEFAULT_MIN_REGULARIZATION, MAX_REGULARIZATION))
        error = gradient_rounding(loss.smoothness, strength)
        if error * n_rows > ROUNDING_SHARE:  # by public numbers
            raise InvalidInputError(
                f"With λ = {strength:g} and this loss, doubles certify the solution for at most "
                f"{ROUNDING_SHARE / error:.1g} rows. Raise 'regularization'."
            )
        exact = moved / strength
        gap = strength * (self.tolerance * exact / 2) ** 2  # adds the share `tolerance`
        mechanism = self.calibrate(exact)  # [K2] sensitivity with the gap in it
        mechanism.for_size(features.size * max(n_classes, 1))  # refused before the charge
        machine = minimise(  # [K3]
            mapped, y, loss, regularization=strength, tolerance=gap, n_classes=n_classes
        ).coefficients.reshape(features.size, -1)
        receipt = budget.charge(mechanism.event())  # [K4] charge, then draw
        self.coefficients_ = mechanism.release(machine, ledger=receipt)
        self.regularization_, self.noise_std_ = float(strength), math.sqrt(mechanism.variance())

    def calibrate(self, exact: float) -> GaussianProcessMechanism:
        """Return the noise for a minimiser of certified gap, by the exact one's sensitivity."""
        return GaussianProcessMechanism.calibrate(
            sensitivity=exact * (1 + self.tolerance), epsilon=self.epsilon, delta=self.delta
        )

    def _scores(self, rows: Array) -> Array:
        """Return released functions at rows (moved into the bounds), one column a function."""
        features = features_from_dict(self.features_)
        return features.evaluate(self.coefficients_, self.row_bounds.clip(rows))


@dataclass(eq=False, repr=False)
class PrivateKernelClassifier(PrivateKernelMachine, PrivateClassifier):
    r"""``sign f``, ``f = argmin_g (1/n) sum loss(y_i g(x_i)) + λ ||g||²``, f released with noise.

    Parameters
    ----------
    loss : {"huber", "hinge"}, default="huber"
        An admissible loss: convex, Lipschitz in the score. "hinge" is the hinge with its kink
        rounded between margins 0.98 and 1.02, "huber" between 0.5 and 1.5. More than two classes
        share one loss of all their scores, so that noise does not grow with their number.
    bandwidth : float or array-like, optional
        Width h of the Gaussian kernel, one for all features, one per feature, or a matrix H; by
        default half the radius of the bounds.
    regularization : float, optional
        Strength λ. By default a public rule: the λ at which the noise of a score has standard
        deviation 0.3, between 1e-4 and 1.
    $machine
    $shared

    Attributes
    ----------
    $classes
    features_ : dict
        The public feature map.
    coefficients_ : ndarray of shape (n_features_of_the_map, n_functions)
        What was released: one function for two classes, else one per class.
    regularization_ : float
        λ.
    noise_std_ : float
        Standard deviation of the noise of one score (at most, and nearly so everywhere).
    $guarantee

    Privacy
    -------
    Unit and relation : record, label included; replace_one.
    Released : the minimiser as a vector of public features, with Gaussian noise.
    Sensitivity : ``M / (λ n)`` in the norm of the space,
        M = 1 for two classes, √2 for more, enlarged by `tolerance` for the certified gap.
    Guarantee : mu-GDP by the Gaussian process mechanism, hence (epsilon, delta).
    Assumptions and numerics : bounds and label set are public; there is no unregularised
        intercept; the solver reaches its gap, by a theorem. Proof:
        docs/guarantees/kernel-machines.md.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from sfumato import Bounds, PrivateKernelClassifier
    >>> X, y = make_moons(2000, noise=0.1, random_state=0)
    >>> bounds = Bounds(lower=[-1.5, -1.0], upper=[2.5, 1.5], labels=[0, 1])
    >>> model = PrivateKernelClassifier(bandwidth=0.5, delta=1e-5, bounds=bounds).fit(X, y)
    >>> bool(model.score(X, y) > 0.85)
    True
    """

    loss: str = "huber"
    _: KW_ONLY

    aimed_noise: ClassVar[float] = 0.3
    parameters: ClassVar[Form] = {**PrivateKernelMachine.parameters, "loss": one_of(*LOSSES)}
    learned: ClassVar[Form] = {**PrivateKernelMachine.learned, "classes_": labels("c")}

    def fit(self, X: Any, y: Any = None, groups: Any = None) -> Self:
        rows, codes, budget = self._begin_in_memory(X, y, groups=groups)
        n_classes = len(self.classes_)
        two, more = LOSSES[self.loss]
        if n_classes == 2:
            self._release_minimiser(rows, np.where(codes == 1, 1.0, -1.0), two, budget)
        else:
            self._release_minimiser(rows, codes, more, budget, n_classes)
        self.guarantee_ = budget.guarantee()
        return self


@dataclass(eq=False, repr=False)
class PrivateKernelRegressor(PrivateKernelMachine, PrivateRegressor):
    r"""``f = argmin_g (1/n) sum loss(g(x_i) - y_i) + λ ||g||²``, released with noise.

    The loss is Huber's, with a band of a tenth of half the range of the target: it is convex and
    Lipschitz in the value, which the squared loss is not.

    Parameters
    ----------
    target_bounds : (float, float)
        Public range of the target; required. Targets are clipped to it and scaled to [-1, 1], and
        its middle plays the part of the intercept.
    bandwidth : float or array-like, optional
        Width h of the Gaussian kernel; by default half the radius of the bounds.
    regularization : float, optional
        Strength λ. By default a public rule: the λ at which the noise of a prediction has a
        standard deviation of a fortieth of the range of the target, between 1e-4 and 1.
    $machine
    $shared

    Attributes
    ----------
    features_ : dict
        The public feature map.
    coefficients_ : ndarray of shape (n_features_of_the_map, 1)
        What was released.
    regularization_ : float
        λ.
    noise_std_ : float
        Standard deviation of the noise of one prediction, in units of the target.
    $guarantee

    Privacy
    -------
    Unit and relation : record, target included; replace_one.
    Released : the minimiser as a vector of public features, with Gaussian noise.
    Sensitivity : ``1 / (λ n)`` in the norm of the space,
        enlarged by `tolerance` for the certified gap.
    Guarantee : mu-GDP by the Gaussian process mechanism, hence (epsilon, delta).
    Assumptions and numerics : bounds and target range are public; there is no unregularised
        intercept; the solver reaches its gap, by a theorem. Proof:
        docs/guarantees/kernel-machines.md.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato import Bounds, PrivateKernelRegressor
    >>> X = np.random.default_rng(0).uniform(size=(3000, 1))
    >>> y = np.sin(6 * X[:, 0])
    >>> model = PrivateKernelRegressor(target_bounds=(-1.5, 1.5), bandwidth=0.2, delta=1e-5,
    ...                                bounds=Bounds(lower=0.0, upper=1.0)).fit(X, y)
    >>> bool(model.score(X, y) > 0.8)
    True
    """

    _: KW_ONLY
    target_bounds: tuple[float, float] | None = None

    aimed_noise: ClassVar[float] = 0.05

    def fit(self, X: Any, y: Any = None, groups: Any = None) -> Self:
        low, high = target_range(self)
        middle, half = (low + high) / 2, (high - low) / 2
        target = low, high, middle, half
        rows, _, budget = self._begin_in_memory(X, y, groups=groups, target=target)
        self._release_minimiser(rows[:, :-1], np.nan_to_num(rows[:, -1]), ScoreHuberLoss(), budget)
        self.noise_std_ *= half
        self.guarantee_ = budget.guarantee("range of the target")
        return self

    def _check_stored(self, sizes: dict[str, int]) -> None:
        super()._check_stored(sizes)
        if sizes["s"] != 1:
            raise refuse("coefficients_", "one function")

    def predict(self, X: Any) -> Array:
        low, high = target_range(self)
        scores = np.clip(self._scores(self._rows(X))[:, 0], -1.0, 1.0)
        return (low + high) / 2 + (high - low) / 2 * scores
