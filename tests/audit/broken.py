"""Mechanisms that promise more than they keep: what an audit must catch.

They are written from the printed algorithms, or with one deliberate error. None is part of the
library.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import minimize

Array = np.ndarray


def laplace(rng: np.random.Generator, true_epsilon: float) -> Any:
    """Noise for `true_epsilon` on a value of sensitivity 1."""
    return lambda value, n: value + rng.laplace(scale=1 / true_epsilon, size=n)


def gaussian(rng: np.random.Generator, scale: float) -> Any:
    return lambda value, n: value + rng.normal(scale=scale, size=n)


def hinge_minimisers(rng: np.random.Generator, x: float, n: int) -> Array:
    """Objective perturbation with the hinge loss, one row: argmin (1 - x t)_+ + t²/2 + b t.

    b has density prop. to exp(-|b|/2), as printed for epsilon 1. The minimiser sits exactly on the
    margin x t = 1 with positive probability, and where that is depends on the row.
    """
    b = rng.laplace(scale=2.0, size=n)
    beyond, inside = -b, x - b
    return np.where(x * beyond >= 1, beyond, np.where(x * inside <= 1, inside, 1 / x))


class SharedNoiseMargin:
    """Large-margin Gaussian classes with ONE noise matrix b for all classes, as printed.

    min over PSD Phi_1, Phi_2 of
    sum_i huber(1 - m_i) + lam sum_c tr(I Phi_c I) + <b, Phi_1 + Phi_2>,
    m_i = a_i'(Phi_other - Phi_own) a_i, a = [x; 1], d = 1. The loss sees Phi_1 - Phi_2, the noise
    only Phi_1 + Phi_2: it never enters what classifies.
    """

    def __init__(self, epsilon: float = 1.0, lam: float = 20.0, h: float = 0.1) -> None:
        self.epsilon, self.lam, self.h = epsilon, lam, h
        self.penalised = np.diag([1.0, 0.0])  # the offset is free

    def fit(self, rng: np.random.Generator, x: Array, y: Array) -> tuple[Array, Array]:
        noise = self._noise(rng)
        rows = np.column_stack([x, np.ones(len(x))])
        start = rng.normal(size=8) * 0.3

        def objective(flat: Array) -> tuple[float, Array]:
            factors = flat.reshape(2, 2, 2)
            phi = factors @ factors.transpose(0, 2, 1)
            loss, slope = self._loss(phi, rows, y)
            weight = self.lam * self.penalised + noise
            gradients = np.stack([slope + weight, -slope + weight])
            value = loss + float((weight * phi).sum())
            return value, (2 * gradients @ factors).ravel()

        found = minimize(
            objective,
            start,
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": 5000, "ftol": 1e-15, "gtol": 1e-9, "maxls": 50},
        )
        factors = found.x.reshape(2, 2, 2)
        phi = factors @ factors.transpose(0, 2, 1)
        return phi[0], phi[1]

    def _noise(self, rng: np.random.Generator) -> Array:
        """b with density prop. to exp(-(epsilon/2) ||b||), given that a minimum exists."""
        while True:
            direction = rng.normal(size=(2, 2))
            b = direction / np.linalg.norm(direction) * rng.gamma(4, 2 / self.epsilon)
            b = (b + b.T) / 2
            if np.linalg.eigvalsh(self.lam * self.penalised + b)[0] > 0.05:
                return b

    def _loss(self, phi: Any, rows: Array, y: Array) -> tuple[float, Array]:
        """Huber loss of all margins and its gradient in Phi_1 (that in Phi_2 is its negative)."""
        sign = np.where(y == 0, 1.0, -1.0)  # class 0 wants Phi_1 small
        margin = sign * np.einsum("ij,jk,ik->i", rows, phi[1] - phi[0], rows)
        z, h = 1 - margin, self.h
        value = np.where(z > h, z, np.where(z < -h, 0.0, (z + h) ** 2 / (4 * h)))
        slope = np.clip((z + h) / (2 * h), 0.0, 1.0)  # d value / d z
        gradient = np.einsum("i,ij,ik->jk", slope * sign, rows, rows)
        return float(value.sum()), gradient

    def tell(self, phi: tuple[Array, Array], x: Array, y: Array) -> float:
        """v_1' G v_2, zero at every minimum on (x, y) and at no minimum on a neighbour."""
        rows = np.column_stack([x, np.ones(len(x))])
        gradient = self._loss(phi, rows, y)[1]
        v_1, v_2 = (np.linalg.eigh(p)[1][:, -1] for p in phi)
        return float(abs(v_1 @ gradient @ v_2))
