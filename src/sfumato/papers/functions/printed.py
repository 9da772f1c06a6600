"""The paper's noise as printed: ``c(delta) D / epsilon``, ``c = sqrt(2 ln(2 / delta))``, D printed.

It keeps its promise for epsilon at most 1 and is more than is needed, at epsilon 1 1.3 times (delta
1e-5) to 2.3 times (0.1); the guarantee states the smaller epsilon that holds. Only "replace_one".
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.core.constraints import Form, one_of
from sfumato.exceptions import InvalidInputError, UnsupportedModeError
from sfumato.mechanisms import GaussianProcessMechanism
from sfumato.mechanisms.gaussian import SLACK
from sfumato.models.base import PrivateEstimator
from sfumato.models.features import Domain, FourierFeatures, GaussianKernel, public_features
from sfumato.models.kernel import PrivateKernelClassifier
from sfumato.papers.functions.release import sobolev_density_sensitivity
from sfumato.papers.functions.spaces import GaussianSpace, SobolevSpace
from sfumato.privacy.guarantee import Relation, Unit
from sfumato.tables.bounds import Bounds

Array = NDArray[np.float64]


def printed_multiplier(epsilon: float, delta: float) -> float:
    """Return ``c(delta) / epsilon`` with ``c = sqrt(2 ln(2 / delta))``, for epsilon at most 1."""
    if not 0 < epsilon <= 1:
        raise InvalidInputError(
            f"The printed noise is proved only for 'epsilon' up to 1. Got {epsilon:g} instead; "
            "the estimators of `sfumato` are valid for any epsilon and add less noise."
        )
    if not 0 < delta < 1:
        raise InvalidInputError(
            f"Gaussian noise needs a 'delta' strictly between 0 and 1. Got {delta} instead."
        )
    return math.sqrt(2 * math.log(2 / delta)) / epsilon


def printed_mechanism(
    sensitivity: float, epsilon: float, delta: float, *, share: float = 1.0
) -> GaussianProcessMechanism:
    """Return the noise as printed, and its privacy for a sensitivity `share` times as large."""
    return GaussianProcessMechanism(
        sensitivity * (1 + SLACK) * share, printed_multiplier(epsilon, delta) / share
    )


@dataclass(eq=False, repr=False)
class ProcessDensity(PrivateEstimator):
    """``f(x) = (1/n) sum_i N(x; x_i, H)`` plus a Gaussian process, of sections 4.1 and 4.2.

    With the noise that is needed; `PrintedDensity` has the noise as printed.

    Parameters
    ----------
    bandwidth : float or array-like
        One h for all features, one per feature, or a full matrix H; public.
    space : {"gaussian", "sobolev"}, default="gaussian"
        Smooth noise with the kernel of the estimate, or rough noise with an exponential kernel, of
        one feature.
    $shared

    Attributes
    ----------
    coefficients_ : ndarray
        What was released.
    guarantee_ : Guarantee
        What is promised.

    Privacy
    -------
    Unit and relation : a record, replace_one.
    Released : the sum of kernels in the space, once, with Gaussian noise; all else reads it alone.
    Sensitivity : that of the sum in the norm of the space, computed.
    Guarantee : mu-GDP.
    Assumptions and numerics : bandwidth and bounds are public. Proof: docs/guarantees/process.md.

    See Also
    --------
    sfumato.PrivateDensity : A better density of one or two features, by smoothed counts.
    """

    bandwidth: Any
    _: KW_ONLY
    space: str = "gaussian"

    offered_units: ClassVar[tuple[Unit, ...]] = (Unit.RECORD,)
    offered_relations: ClassVar[tuple[Relation, ...]] = (Relation.REPLACE_ONE,)
    scales_columns: ClassVar[bool] = False  # as printed
    in_unit_ball: ClassVar[bool] = False
    needs_memory: ClassVar[bool] = True
    parameters: ClassVar[Form] = {"space": one_of("gaussian", "sobolev")}

    def fit(self, X: ArrayLike, y: None = None) -> Self:  # noqa: ARG002 - the contract's y
        """Release the sum of kernels of all rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : None
            Not used.

        Returns
        -------
        Self
            The fitted estimator.
        """
        rows, _, budget = self._begin_in_memory(X, None)
        bounds = self.row_bounds
        self.space_ = self._public_space(bounds, rows.shape[1])
        mechanism, bound = self._noise(len(rows))
        mechanism.for_size(self.space_.size)
        budget.charge(mechanism.event())  # [D3] charge, then draw
        sums = self.space_.statistic(bounds.clip(rows))  # [D1]
        self.coefficients_ = bound * mechanism.release(sums / bound, ledger=budget.receipt)  # [D5]
        self.scale_ = 1 / (self.space_.normaliser * len(rows))
        self.guarantee_ = budget.guarantee()
        return self

    def _noise(self, n_rows: int) -> tuple[GaussianProcessMechanism, float]:
        """Return the mechanism of sensitivity 1, and the sensitivity by which sums are divided."""
        mechanism = GaussianProcessMechanism.calibrate(  # [D2] the budget
            sensitivity=1.0, epsilon=self.epsilon, delta=self.delta
        )
        bound = self.space_.sensitivity()
        # [D7] the mechanism covers SLACK of it; rounding errors of very many rows may be more
        return mechanism, max(bound, (bound + self.space_.rounding(n_rows)) / (1 + SLACK))

    def _public_space(self, bounds: Bounds, n_features: int) -> GaussianSpace | SobolevSpace:
        axes = [n_features] * np.ndim(self.bandwidth)
        if list(np.shape(self.bandwidth)) != axes or (self.space == "sobolev" and len(axes) > 1):
            raise InvalidInputError(
                f"'bandwidth' must be one number or {n_features}, one per feature; in "
                "space='gaussian' it may be a square matrix."
            )
        kernel, domain = GaussianKernel(self.bandwidth), Domain(bounds, n_features)
        if self.space == "sobolev":
            return SobolevSpace(float(np.ravel(kernel.bandwidth)[0]), domain)
        features = public_features(kernel, bounds, n_features, fourier=2, random_state=0)
        if isinstance(features, FourierFeatures):
            raise UnsupportedModeError(
                "The release needs exact features of the kernel: fewer features or a wider "
                "bandwidth."
            )
        return GaussianSpace(kernel, features, domain)

    def raw_density(self, X: ArrayLike) -> Array:
        """Return the release itself, ``f`` with its noise: it may be negative.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Points; those outside the box are moved to it.

        Returns
        -------
        ndarray of shape (n_samples,)
            Values of the release.
        """
        rows = self._rows(X)
        inside = np.clip(rows, self.space_.domain.lower, self.space_.domain.upper)
        return np.asarray(self.space_.values(self.coefficients_, inside) * self.scale_)


class PrintedDensity(ProcessDensity):
    """``f(x) = (1/n) sum_i N(x; x_i, H)`` with noise as printed in sections 4.1 and 4.2.

    Parameters
    ----------
    bandwidth : float or array-like
        See `ProcessDensity`, as for `space`.
    space : {"gaussian", "sobolev"}, default="gaussian"
        Where the noise lives.
    $shared

    Attributes
    ----------
    coefficients_ : ndarray
        What was released.
    guarantee_ : Guarantee
        What is promised: less than the printed epsilon.

    Privacy
    -------
    As of `ProcessDensity`, with the printed noise, for epsilon at most 1.
    """

    def _noise(self, n_rows: int) -> tuple[GaussianProcessMechanism, float]:  # noqa: ARG002
        mechanism = printed_mechanism(1.0, self.epsilon, self.delta)
        if isinstance(self.space_, SobolevSpace):
            return mechanism, sobolev_density_sensitivity(1, 1.0)  # in bandwidths
        return mechanism, math.sqrt(2)


class PrintedKernelClassifier(PrivateKernelClassifier):
    """A kernel machine of two classes with noise as printed in section 4.3.

    Its guarantee states what the printed noise costs, the certified gap of the solver included.

    Parameters
    ----------
    loss : {"huber", "hinge"}, default="huber"
        See `sfumato.PrivateKernelClassifier`, as for all parameters.
    bandwidth : float or array-like, optional
        Width of the Gaussian kernel.
    regularization : float, optional
        Strength λ.
    n_fourier : int, default=1024
        Public random features.
    tolerance : float, default=0.01
        Share of the sensitivity for the solver.
    random_state : int, RandomState or None, default=0
        For the public frequencies only.
    $shared

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        The public label set, sorted.
    coefficients_ : ndarray
        What was released.
    noise_std_ : float
        Standard deviation of the noise of one score.
    guarantee_ : Guarantee
        What is promised: less than the printed epsilon, which is at most 1.

    Privacy
    -------
    As of `sfumato.PrivateKernelClassifier`, replacement only, with the printed noise.

    See Also
    --------
    sfumato.PrivateKernelClassifier : The same with the noise that is needed.
    """

    scales_columns: ClassVar[bool] = False  # as printed

    def calibrate(self, exact: float) -> GaussianProcessMechanism:
        """Return the noise as printed."""
        if len(self.classes_) != 2:
            raise InvalidInputError("The printed machine is for two labels.")
        return printed_mechanism(exact, self.epsilon, self.delta, share=1 + self.tolerance)
