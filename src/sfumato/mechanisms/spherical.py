"""Exact draws of noise with a uniform direction: the rounding of a real random vector.

``b = r z / ||z||`` with z standard normal and ``r ~ Gamma(m, scale)``, a sum of m exponentials,
has density proportional to ``exp(-||b|| / scale)``. Each of the 2m uniforms behind it is known to
63 bits at first. A bound on what the unknown bits and the rounding of doubles can move decides
whether every coordinate lies clearly inside a rounding cell; if one does not, all uniforms get 64
more bits and b is computed again in arbitrary precision, with the same bound.
"""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
from numpy.typing import NDArray

from sfumato.mechanisms.entropy import random_words
from sfumato.mechanisms.sampling import GAUSSIAN, LAPLACE, midpoints

# For a uniform u >= RARE, a double quantile x is off by less than ULPS x + ROUNDED_UNIFORM +
# OPEN_BITS / u: 4 units in the last place are allowed to log and 16 to ndtri. The second term is
# absolute: near u = 1, where x is near 0, the rounding of u alone moves x by 2**-52. Proof:
# docs/guarantees/noise.md, Lemma 3.
RARE = 2.0**-24
EXPONENTIAL_ULPS = 2.0**-50
NORMAL_ULPS = 2.0**-48
ROUNDED_UNIFORM = 2.0**-51
OPEN_BITS = 2.0**-62
ROUNDING = 2.0**-48  # relative, of sums, root, quotient and product in doubles
MAX_TILT = 2.0**-20  # the bound is proved for an error of z up to this share of its norm

# A noise norm of 2**48 cells, some 2**5 below what doubles hold exactly; the norm of few numbers
# varies most, so they are counted as FEW more.
MAX_NORM = 2.0**36
FEW = 32

Array = NDArray[np.float64]


def rounded_spherical_noise(scale: float, size: int) -> Array:
    """Draw ``round(b)``, b in R^size with density proportional to ``exp(-||b|| / scale)``."""
    words = random_words(2 * size)
    cells = _clear_cells(scale, midpoints(words))
    if cells is None:
        cells = _decide(scale, [int(w) >> 1 for w in words])
    return np.where(words[:size] & np.uint64(1), cells, -cells)


def _clear_cells(scale: float, uniforms: Array) -> Array | None:
    """Cells of ``|b|`` from doubles, or None if one of them is in doubt."""
    if uniforms.min() < RARE:
        return None
    size = uniforms.size // 2
    normal = GAUSSIAN.inverse_survival(uniforms[:size])
    exponential = LAPLACE.inverse_survival(uniforms[size:])
    errors = ROUNDED_UNIFORM + OPEN_BITS / uniforms
    errors[:size] += NORMAL_ULPS * normal
    errors[size:] += EXPONENTIAL_ULPS * exponential
    norm = math.sqrt(math.fsum((normal * normal).tolist()))
    norm_error = float(np.linalg.norm(errors[:size]))
    if norm_error > MAX_TILT * norm:
        return None
    radius = scale * math.fsum(exponential.tolist())
    radius_error = scale * float(errors[size:].sum())
    share = normal / norm
    real = radius * share
    doubt = _doubt(share, errors[:size], radius, radius_error, norm, norm_error)
    doubt += ROUNDING * (1 + real)
    cells: Array = np.rint(real)
    return cells if np.all(np.abs(real - cells) < 0.5 - doubt) else None


def _doubt(
    share: Any, error: Any, radius: Any, radius_error: Any, norm: Any, norm_error: Any
) -> Any:
    """Bound how far ``radius * share`` lies from ``r z_i / ||z||``, with no rounding counted.

    `error` bounds that of z_i, `norm_error` the norm of all these.
    """
    return 2 * (
        radius_error * share + (radius + radius_error) * (error + norm_error * share) / norm
    )


def _decide(scale: float, bits: list[int]) -> Array:
    length = 63
    while True:
        extra = random_words(len(bits))
        bits = [(b << 64) | int(w) for b, w in zip(bits, extra, strict=True)]
        length += 64
        exact = mpmath.MPContext()
        exact.prec = length + 192
        cells = _exact_cells(exact, scale, bits, length)
        if cells is not None:
            return np.array([float(k) for k in cells])


def _exact_cells(exact: Any, scale: float, bits: list[int], length: int) -> list[Any] | None:
    if min(bits) == 0:  # a uniform that may still be anything below 2**-length
        return None
    size = len(bits) // 2
    uniforms = [exact.ldexp(exact.mpf(b) + 0.5, -length) for b in bits]
    errors = [exact.ldexp(1 / u, 1 - length) for u in uniforms]  # arithmetic errs far less
    normal = [_normal_magnitude(exact, u) for u in uniforms[:size]]
    norm = exact.sqrt(exact.fsum(z * z for z in normal))
    norm_error = exact.sqrt(exact.fsum(e * e for e in errors[:size]))
    if norm_error > MAX_TILT * norm:
        return None
    radius = -scale * exact.fsum(exact.log(u) for u in uniforms[size:])
    radius_error = scale * exact.fsum(errors[size:])
    cells = []
    for z, error in zip(normal, errors, strict=False):
        share = z / norm
        doubt = _doubt(share, error, radius, radius_error, norm, norm_error)
        cell = exact.nint(radius * share)
        if not abs(radius * share - cell) < exact.mpf(0.5) - doubt:
            return None
        cells.append(cell)
    return cells


def _normal_magnitude(exact: Any, u: Any) -> Any:
    """Solve ``P(|Z| > x) = u`` by Newton steps from the double solution."""
    x = exact.mpf(float(GAUSSIAN.inverse_survival(np.array([float(u)]))[0]))
    root = exact.sqrt(2)
    for _ in range(4):  # 50, 100, 200, 400 bits
        x += (exact.erfc(x / root) - u) * exact.sqrt(exact.pi / 2) * exact.exp(x * x / 2)
    return x
