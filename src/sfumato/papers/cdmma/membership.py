r"""Membership functions of a Student-t membership-mapping (Definitions 1 and 4 to 8).

A degree of membership is a number in (0, 1]: how well values match what the mapping says of them.
With the kernel (17) at inputs x and inducing points a, and :math:`τ` of (54), the centre of the
optimal membership function at the inducing points is

.. math:: \hat m_u(y) = K_{aa} (K_{xa}^T K_{xa} + (τ + 1/β) K_{aa})^{-1} K_{xa}^T y

and :math:`K_{xa} K_{aa}^{-1} \hat m_u(y)` is what `sfumato.MembershipMapping` predicts (48).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.core.arrays import to_numpy
from sfumato.exceptions import InvalidInputError
from sfumato.models.mappings import JITTER, NU, cross_kernel


def student_t_membership(y: ArrayLike, mean: ArrayLike, covariance: ArrayLike, nu: float) -> float:
    """Return ``(1 + (y - m)ᵀ K⁻¹ (y - m) / (nu - 2))^(-(nu + n) / 2)`` (15).

    Parameters
    ----------
    y, mean : array-like of shape (n,)
        Values, and the centre m.
    covariance : array-like of shape (n, n)
        Matrix K, positive definite.
    nu : float
        Degrees of freedom, above 2.

    Returns
    -------
    float
        The degree of membership, in (0, 1].
    """
    if not nu > 2:
        raise InvalidInputError(f"'nu', the degrees of freedom, must be above 2. Got {nu:g}.")
    away = np.atleast_1d(np.asarray(y, dtype=np.float64) - np.asarray(mean))
    square = float(away @ np.linalg.solve(np.atleast_2d(covariance), away))
    return float((1 + square / (nu - 2)) ** (-(nu + len(away)) / 2))


class MembershipFunctions:
    """Degrees of membership of outputs and data of a fitted mapping, at given inputs.

    Parameters
    ----------
    mapping : MembershipMapping
        Fitted with ``center=False``, as printed.
    inputs : array-like of shape (n_rows, n_inputs)
        Inputs x, such as those of the fit.

    Examples
    --------
    How well a value matches the mapping at one input, to be plotted over many values:

    >>> from sfumato import MembershipMapping
    >>> x = np.linspace(0, 1, 50)[:, None]
    >>> y = x[:, 0] ** 2
    >>> mapping = MembershipMapping(kappa=0.01, center=False, random_state=0).fit(x, y)
    >>> u = MembershipFunctions(mapping, x).auxiliary(y)
    >>> here = MembershipFunctions(mapping, [[0.7]])
    >>> [round(here.of_data([value], u), 1) for value in (0.3, 0.4, 0.5, 0.6, 0.7)]
    [0.0, 0.3, 0.9, 0.8, 0.2]
    """

    def __init__(self, mapping: Any, inputs: ArrayLike) -> None:
        if mapping.center:
            raise InvalidInputError(
                "The membership functions are of outputs around zero: fit the mapping with "
                "center=False."
            )
        rows = np.asarray(to_numpy(mapping._queries(inputs)), dtype=np.float64)
        x = (rows - mapping.origin_) * mapping.scale_
        a, variance = np.asarray(mapping.scaled_points_), mapping.kernel_variance_
        self.precision = float(mapping.noise_precision_)
        self.K_xa = variance * np.asarray(cross_kernel(x, a))
        self.K_aa = variance * (np.asarray(cross_kernel(a, a)) + JITTER * np.eye(len(a)))
        self.interpolation = np.linalg.solve(self.K_aa, self.K_xa.T).T  # K_xa K_aa⁻¹
        K_xx = variance * (np.asarray(cross_kernel(x, x)) + JITTER * np.eye(len(x)))
        self.K_bar = K_xx - self.interpolation @ self.K_xa.T  # (20)
        self.tau = float(np.trace(self.K_bar)) / (NU + len(a) - 2)  # (54)

    def of_output(self, f: ArrayLike, u: ArrayLike) -> float:
        """Return the degree of outputs f, given outputs u at the inducing points (18).

        Parameters
        ----------
        f : array-like of shape (n_rows,)
            Outputs at the inputs.
        u : array-like of shape (n_points,)
            Outputs at the inducing points.

        Returns
        -------
        float
            In (0, 1].
        """
        u = np.asarray(u, dtype=np.float64)
        nu = NU + len(u)
        factor = (NU + float(u @ np.linalg.solve(self.K_aa, u)) - 2) / (nu - 2)
        return student_t_membership(f, self.interpolation @ u, factor * self.K_bar, nu)

    def given_output(self, y: ArrayLike, f: ArrayLike) -> float:
        """Return the degree of data y, given outputs f (33); with f = 0 of a disturbance (32).

        Parameters
        ----------
        y, f : array-like of shape (n_rows,)
            Data and outputs.

        Returns
        -------
        float
            ``exp(-β/2 ||y - f||²)``.
        """
        away = np.asarray(y, dtype=np.float64) - np.asarray(f)
        return float(np.exp(-0.5 * self.precision * np.sum(away**2)))

    def auxiliary(self, y: ArrayLike) -> NDArray[Any]:
        """Return the centre of the optimal membership function at the inducing points (43).

        Parameters
        ----------
        y : array-like of shape (n_rows,)
            Data.

        Returns
        -------
        ndarray of shape (n_points,)
            Outputs at the inducing points.
        """
        system = self.K_xa.T @ self.K_xa + (self.tau + 1 / self.precision) * self.K_aa
        right = self.K_xa.T @ np.asarray(y, dtype=np.float64)
        return np.asarray(self.K_aa @ np.linalg.solve(system, right))

    def of_auxiliary(self, u: ArrayLike, y: ArrayLike) -> float:
        """Return the degree of outputs u at the inducing points, given data y (43).

        Parameters
        ----------
        u : array-like of shape (n_points,)
            Outputs at the inducing points.
        y : array-like of shape (n_rows,)
            Data.

        Returns
        -------
        float
            ``exp(-1/2 dᵀ K_u⁻¹ d)``, ``d = u - m_u(y)``, with the matrix of (89).
        """
        away = np.asarray(u, dtype=np.float64) - self.auxiliary(y)
        weights = np.linalg.solve(self.K_aa, away)
        square = (1 + self.precision * self.tau) * float(away @ weights)
        return float(np.exp(-0.5 * (square + self.precision * np.sum((self.K_xa @ weights) ** 2))))

    def of_data(self, y: ArrayLike, u: ArrayLike) -> float:
        """Return the degree of data y given u (39), (45).

        It is ``exp(-β/2 (||y - K_xa K_aa⁻¹ u||² + τ uᵀ K_aa⁻¹ u))``.

        Parameters
        ----------
        y : array-like of shape (n_rows,)
            Data.
        u : array-like of shape (n_points,)
            Outputs at the inducing points; (45) takes `auxiliary` of the data of the fit.

        Returns
        -------
        float
            In (0, 1]; largest at the outputs ``interpolation @ u``.
        """
        u = np.asarray(u, dtype=np.float64)
        penalty = self.tau * float(u @ np.linalg.solve(self.K_aa, u))
        match = self.given_output(y, self.interpolation @ u)
        return match * float(np.exp(-0.5 * self.precision * penalty))
