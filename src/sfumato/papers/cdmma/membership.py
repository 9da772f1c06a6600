r"""Membership functions of a Student-t membership-mapping (Definitions 1 and 4 to 8).

A degree of membership is a number in (0, 1]: how well some values match what the mapping says of
them. With the kernel (17) at inputs x and inducing points a, and :math:`τ` of equation (54),

.. math:: \hat m_u(y) = K_{aa} (K_{xa}^T K_{xa} + (τ + 1/β) K_{aa})^{-1} K_{xa}^T y

is the centre of the optimal membership function (43), and :math:`K_{xa} K_{aa}^{-1} \hat m_u(y)`
are the outputs that `sfumato.MembershipMapping` predicts (48).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.models.mappings import JITTER, NU, cross_kernel


def student_t_membership(y: ArrayLike, mean: ArrayLike, covariance: ArrayLike, nu: float) -> float:
    """Return the degree of membership of values under a Student-t like function (15).

    Parameters
    ----------
    y, mean : array-like of shape (n,)
        Values, and the centre.
    covariance : array-like of shape (n, n)
        Positive definite.
    nu : float
        Degrees of freedom, above 2.

    Returns
    -------
    float
        In (0, 1].
    """
    away = np.atleast_1d(np.asarray(y, dtype=np.float64) - np.asarray(mean))
    square = float(away @ np.linalg.solve(np.atleast_2d(covariance), away))
    return float((1 + square / (nu - 2)) ** (-(nu + len(away)) / 2))


class MembershipFunctions:
    """Degrees of membership at given inputs.

    Parameters
    ----------
    inputs : array-like of shape (n_rows, n_inputs)
        Inputs x.
    inducing : array-like of shape (n_points, n_inputs)
        Auxiliary inducing points a.
    weights : array-like of shape (n_inputs,)
        Weights w of the kernel (17).
    variance : float
        Its variance, sigma².
    precision : float
        Precision beta of the disturbance.
    """

    def __init__(
        self,
        inputs: ArrayLike,
        inducing: ArrayLike,
        weights: ArrayLike,
        variance: float,
        precision: float,
    ) -> None:
        scale = np.sqrt(np.asarray(weights, dtype=np.float64))
        x, a = (np.asarray(points, dtype=np.float64) * scale for points in (inputs, inducing))
        self.precision = precision
        self.K_xa = variance * np.asarray(cross_kernel(x, a))
        self.K_aa = variance * (np.asarray(cross_kernel(a, a)) + JITTER * np.eye(len(a)))
        self.interpolation = np.linalg.solve(self.K_aa, self.K_xa.T).T  # K_xa K_aa⁻¹
        self.K_bar = (
            variance * np.asarray(cross_kernel(x, x)) - self.interpolation @ self.K_xa.T
        )  # (20)
        self.tau = float(np.trace(self.K_bar)) / (NU + len(a) - 2)  # (54)

    @classmethod
    def of_mapping(cls, mapping: Any, inputs: ArrayLike) -> MembershipFunctions:
        """Take inducing points and parameters from a fitted `sfumato.MembershipMapping`.

        Parameters
        ----------
        mapping : MembershipMapping
            Fitted with ``center=False``.
        inputs : array-like of shape (n_rows, n_inputs)
            Inputs, such as those of the fit.

        Returns
        -------
        MembershipFunctions
            At these inputs.
        """
        weights = np.asarray(mapping.scale_) ** 2
        points, beta = mapping.inducing_points_, mapping.noise_precision_
        return cls(inputs, points, weights, mapping.kernel_variance_, beta)

    def given_output(self, y: ArrayLike, f: ArrayLike) -> float:
        """Return the degree of data y for outputs f of the mapping (33); f = 0: disturbance (32).

        Parameters
        ----------
        y, f : array-like of shape (n_rows,)
            Data and outputs.

        Returns
        -------
        float
            In (0, 1].
        """
        away = np.asarray(y, dtype=np.float64) - np.asarray(f)
        return float(np.exp(-0.5 * self.precision * np.sum(away**2)))

    def of_output(self, f: ArrayLike, u: ArrayLike) -> float:
        """Return the degree of outputs f, given outputs u at the inducing points (18), (34).

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

    def auxiliary(self, y: ArrayLike) -> NDArray[Any]:
        """Return the centre of the optimal membership function at the inducing points (90).

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
        return self.K_aa @ np.linalg.solve(system, self.K_xa.T @ np.asarray(y, dtype=np.float64))

    def given_auxiliary(self, y: ArrayLike, u: ArrayLike) -> float:
        """Return the degree of data y, given outputs u at the inducing points (39).

        Parameters
        ----------
        y : array-like of shape (n_rows,)
            Data.
        u : array-like of shape (n_points,)
            Outputs at the inducing points.

        Returns
        -------
        float
            In (0, 1].
        """
        u = np.asarray(u, dtype=np.float64)
        penalty = self.tau * float(u @ np.linalg.solve(self.K_aa, u))
        match = self.given_output(y, self.interpolation @ u)
        return match * float(np.exp(-0.5 * self.precision * penalty))

    def of_data(self, candidate: ArrayLike, y: ArrayLike) -> float:
        """Return the degree of candidate data under the model that was learned from y (45).

        Parameters
        ----------
        candidate, y : array-like of shape (n_rows,)
            Data to be judged, and the data.

        Returns
        -------
        float
            In (0, 1]; largest at the predicted outputs.
        """
        return self.given_auxiliary(candidate, self.auxiliary(y))
