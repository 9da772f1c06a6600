"""What private kernel machines share: public features, a certified minimiser, one release.

``f = argmin_g (1/n) sum_i loss(g(x_i), y_i) + λ ||g||²`` over the space of a public, finite feature
map (section 4.3 of the paper on private functions); then noise in the norm of that space.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from sfumato.core.constraints import Form, known_bounds, numbers, real
from sfumato.exceptions import InvalidInputError, MissingBoundsError
from sfumato.mechanisms import GaussianProcessMechanism
from sfumato.models.functions.features import FeatureMap
from sfumato.models.functions.maps import features_from_dict, stored_features
from sfumato.models.functions.sensitivity import minimiser_sensitivity
from sfumato.models.functions.spaces import public_features
from sfumato.models.kernels import GaussianKernel
from sfumato.models.objectives.certified import gradient_rounding
from sfumato.models.objectives.feature_rows import FeatureRows
from sfumato.models.private import PrivateEstimator
from sfumato.privacy.gaussian import mu_from_budget
from sfumato.privacy.guarantee import Relation
from sfumato.tables.bounds import Bounds

Array = NDArray[np.float64]

MAX_EXACT = 2048
DEFAULT_MIN_REGULARIZATION, MAX_REGULARIZATION = 1e-4, 1.0  # of the public rule
MIN_REGULARIZATION = 1e-8
MIN_TOLERANCE = 1e-3
ROUNDING_SHARE = 2.0**-12  # of the sensitivity, for the rounding of each of two gradients

STORED_MACHINE: Form = {
    "bounds": known_bounds,
    "features_": stored_features,
    "coefficients_": numbers("m", "s"),
    "regularization_": real(above=0.0),
    "noise_std_": real(least=0.0),
}


class PrivateKernelMachine(PrivateEstimator):
    """Base of the classifier and the regressor; see there."""

    aimed_noise: ClassVar[float]  # the public rule for λ aims at this deviation of a score

    # Constructor arguments of both.
    bandwidth: Any
    regularization: float | None
    n_fourier: int
    tolerance: float
    expected_rows: int | None
    random_state: Any

    def _check_choices(self) -> None:
        replaces = Relation(self.relation) is Relation.REPLACE_ONE
        if not replaces and not (self.expected_rows and self.expected_rows >= 1):
            raise MissingBoundsError(
                "relation='add_or_remove_one' keeps the number of rows secret: give "
                "'expected_rows', a public number by which the loss is divided."
            )
        given = self.regularization
        if given is not None and not MIN_REGULARIZATION <= given < math.inf:
            raise InvalidInputError(
                f"'regularization' must be finite and at least {MIN_REGULARIZATION:g}. Got "
                f"{given} instead."
            )
        if not MIN_TOLERANCE <= self.tolerance <= 1:
            raise InvalidInputError(
                f"'tolerance' must lie in [{MIN_TOLERANCE:g}, 1]. Got {self.tolerance}."
            )

    def _map_rows(self, rows: Array, bounds: Bounds) -> FeatureRows:
        """Clip rows to their bounds and map them; the map is public and kept."""
        features = public_features(
            GaussianKernel(self._public_bandwidth(bounds, rows.shape[1])),
            bounds,
            rows.shape[1],
            fourier=self.n_fourier,
            random_state=self.random_state,
            most=MAX_EXACT,
        )
        self.features_ = features.to_dict()
        return FeatureRows(
            rows, lambda block: features.transform(bounds.clip(block)), features.size
        )

    def _public_bandwidth(self, bounds: Bounds, n_features: int) -> Any:
        if self.bandwidth is not None:
            return self.bandwidth
        return bounds.ball(n_features)[1] / 2

    def _public_count(self, n_rows: int) -> int:
        replaces = Relation(self.relation) is Relation.REPLACE_ONE
        return n_rows if replaces else int(self.expected_rows or 1)

    def _public_regularization(self, n_rows: int, lipschitz: float) -> float:
        """Return λ, or the λ at which the noise of a score is as wanted, for any n and epsilon."""
        if self.regularization is not None:
            return float(self.regularization)
        per_unit = minimiser_sensitivity(
            self.relation, lipschitz=lipschitz, feature_norm=1.0, regularization=1.0, n_rows=n_rows
        )
        aimed = per_unit / mu_from_budget(self.epsilon, self.delta) / self.aimed_noise
        return float(np.clip(aimed, DEFAULT_MIN_REGULARIZATION, MAX_REGULARIZATION))

    def _require_resolution(self, n_rows: int, smoothness: float) -> None:
        """Refuse, by public numbers, what the solver could not certify in doubles."""
        error = gradient_rounding(smoothness, self.regularization_)
        if error * n_rows > ROUNDING_SHARE:
            raise InvalidInputError(
                f"With λ = {self.regularization_:g} and this loss, doubles certify the solution "
                f"for at most {ROUNDING_SHARE / error:.1g} rows. Raise 'regularization'."
            )

    def _mechanism(self, n_rows: int, lipschitz: float) -> tuple[GaussianProcessMechanism, float]:
        """Return the mechanism for a minimiser of certified gap, and the gap to certify."""
        exact, gap = minimiser_budget(
            self.relation, lipschitz, self.regularization_, n_rows, self.tolerance
        )
        mechanism = GaussianProcessMechanism.calibrate(
            sensitivity=exact * (1 + self.tolerance), epsilon=self.epsilon, delta=self.delta
        )
        return mechanism, gap

    def _scores(self, X: ArrayLike) -> Array:
        """Released functions at rows (moved into the bounds), one column a function."""
        check_is_fitted(self)
        rows = self._check_rows(X, reset=False)
        features: FeatureMap = features_from_dict(self.features_)
        return features.evaluate(self.coefficients_, self.row_bounds.clip(rows))


def minimiser_budget(
    relation: str | Relation,
    lipschitz: float,
    regularization: float,
    n_rows: int,
    tolerance: float,
) -> tuple[float, float]:
    """Return the sensitivity of the exact minimiser, and the gap adding the share `tolerance`."""
    exact = minimiser_sensitivity(
        relation,
        lipschitz=lipschitz,
        feature_norm=1.0,
        regularization=regularization,
        n_rows=n_rows,
    )
    return exact, regularization * (tolerance * exact / 2) ** 2
