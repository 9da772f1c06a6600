"""One membership mapping (Algorithm 1) as kernel ridge regression on its inducing points.

With the kernel of unit variance, ``A = K_xaᵀ K_xa`` and ``B = K_aa = L Lᵀ``, equation (48) reads::

    yhat(x) = g(x) (A + lambda B)⁻¹ K_xaᵀ Y,        lambda = tau(M, 1) + 1 / (sigma² beta),

so that sigma² cancels but for lambda. With ``H = L⁻¹ K_xaᵀ``, ``H Hᵀ = U diag(l) Uᵀ`` and
``Z = Uᵀ H Y`` the error of the mapping at any lambda is a sum over M numbers::

    |Y - Yhat|² = |Y|² - sum_m |Z_m|² (2 / (l_m + lambda) - l_m / (l_m + lambda)²),

which makes each step of the loop for beta (steps 16 to 19) cost O(M).
"""

from __future__ import annotations

from typing import TypedDict

from sfumato.core.arrays import Array, namespace_of
from sfumato.models.mappings.inducing import Inducing, choose_inducing

BETA_TOLERANCE = 1e-10
MAX_BETA_STEPS = 1000


class Layer(TypedDict):
    """A fitted mapping.

    The inputs are ``(x - origin) · scale``, `inducing` holds the inducing points in the same
    coordinates, and the answer is ``kernel(inputs, inducing) @ coefficients``.
    """

    origin: Array
    scale: Array
    inducing: Array
    coefficients: Array
    tau: float
    variance: float  # sigma²
    noise_precision: float  # beta


def input_scale(x: Array) -> tuple[Array, Array]:
    """Return the mean of the inputs and the roots of the weights w of equation (53).

    A constant input has range 0 and weight 0.
    """
    xp = namespace_of(x)
    ranges = xp.max(x, axis=0) - xp.min(x, axis=0)
    varies = ranges > 0
    scale = xp.where(varies, 1 / xp.where(varies, ranges, xp.ones_like(ranges)), 0.0)
    return xp.mean(x, axis=0), scale


def fit_layer(
    x: Array,
    Y: Array,
    *,
    max_points: int,
    kappa: float,
    seed: int,
    width: int,
    first_layer: bool = True,
) -> tuple[Layer, Array]:
    """Fit Algorithm 1 and return the mapping with its outputs at the training inputs.

    x: (N, n).
    Y: (N, p).
    max_points: M_max, at most N.
    kappa: Least tau(M, 1).
    seed: Start of the k-means.
    width: The p by which variances and errors are averaged; rows that were rotated into fewer
        coordinates keep the p they had.
    first_layer: Where the search for M begins: far below M_max, or at it.
    """
    origin, scale = input_scale(x)
    found = choose_inducing(
        x - origin, scale, max_points, kappa=kappa, seed=seed, first_layer=first_layer
    )
    variance = _kernel_variance(Y, found.tau, width)
    rotation, spectrum, image = _diagonal_form(found, Y)
    precision = _noise_precision(Y, image, spectrum, found.tau, variance, width)
    shift = max(found.tau, 0.0) + 1 / (variance * precision)
    weights = rotation @ (image / (spectrum + shift)[:, None])  # (C + lambda)⁻¹ H Y
    xp = namespace_of(x)
    layer = Layer(
        origin=origin,
        scale=scale,
        inducing=found.points,
        coefficients=xp.matrix_transpose(found.inverse_factor) @ weights,
        tau=found.tau,
        variance=variance,
        noise_precision=precision,
    )
    return layer, xp.matrix_transpose(found.whitened) @ weights


def _kernel_variance(Y: Array, tau: float, width: int) -> float:
    """Steps 9 to 13; identical inputs have tau = 0, and then any variance serves."""
    n_rows = int(Y.shape[0])
    if n_rows < 2 or tau <= 0:
        return 1.0
    xp = namespace_of(Y)
    away = Y - xp.mean(Y, axis=0)
    data_variance = float(xp.sum(away * away)) / (n_rows - 1) / width
    return 1.0 if tau >= data_variance else data_variance / tau


def _diagonal_form(found: Inducing, Y: Array) -> tuple[Array, Array, Array]:
    """Return U, l and ``Z = Uᵀ H Y``."""
    xp = namespace_of(Y)
    spectrum, rotation = xp.linalg.eigh(found.whitened @ xp.matrix_transpose(found.whitened))
    image = xp.matrix_transpose(rotation) @ (found.whitened @ Y)
    return rotation, xp.clip(spectrum, min=0.0), image


def _noise_precision(
    Y: Array, image: Array, spectrum: Array, tau: float, variance: float, width: int
) -> float:
    """Find the fixed point of beta, steps 15 to 19."""
    xp = namespace_of(Y)
    total, count = float(xp.sum(Y * Y)), int(Y.shape[0]) * width
    energy = xp.vecdot(image, image)
    least = max(total * 1e-14, 1e-300)  # rows met exactly would have infinite precision
    precision = 1.0
    for _ in range(MAX_BETA_STEPS):
        raised = spectrum + (max(tau, 0.0) + 1 / (variance * precision))
        explained = float(xp.sum(energy * (2 / raised - spectrum / (raised * raised))))
        last, precision = precision, count / max(total - explained, least)
        if abs(precision - last) <= BETA_TOLERANCE * precision:
            break
    return precision
