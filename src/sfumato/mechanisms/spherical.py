"""Exact draws of noise with a uniform direction: the rounding of a real random vector.

``b = r z / ||z||`` with z standard normal and ``r ~ Gamma(m, scale)``, a sum of m exponentials,
has density proportional to ``exp(-||b|| / scale)``. Each of the 2m uniforms behind it is known to
63 bits at first; if a coordinate of the double result lies too near the edge of a rounding cell,
all of them get 64 more bits and b is computed again in arbitrary precision.
"""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
from numpy.typing import NDArray

from sfumato.mechanisms.entropy import random_words
from sfumato.mechanisms.sampling import GAUSSIAN, LAPLACE

__all__ = ["rounded_spherical_noise"]

# A coordinate is ``length * z`` with ``length = r / ||z||``. In doubles its error is below
# 2**-42 * length * (1 + z): quantiles to 2**-49, two pairwise sums to 2**-47 for any size below a
# million, and the unknown bits of a uniform above 2**-24 to 2**-43.
RELATIVE_DOUBT = 2.0**-42
RARE = 2.0**-24


def rounded_spherical_noise(scale: float, size: int) -> NDArray[np.float64]:
    """Draw ``round(b)``, b in R^size with density proportional to ``exp(-||b|| / scale)``."""
    words = random_words(2 * size)
    uniforms = ((words >> np.uint64(1)).astype(np.float64) + 0.5) * 2.0**-63
    normal = GAUSSIAN.inverse_survival(uniforms[:size])
    radius = scale * LAPLACE.inverse_survival(uniforms[size:]).sum()
    length = radius / np.sqrt((normal * normal).sum())
    cells: NDArray[np.float64] = np.rint(length * normal)
    room = 0.5 - np.abs(length * normal - cells)  # way to the edge of the cell
    if uniforms.min() < RARE or np.any(room < RELATIVE_DOUBT * length * (1 + normal)):
        cells = _decide(scale, [int(w) >> 1 for w in words])
    return np.where(words[:size] & np.uint64(1), cells, -cells)


def _decide(scale: float, bits: list[int]) -> NDArray[np.float64]:
    length = 63
    while True:
        extra = random_words(len(bits))
        bits = [(b << 64) | int(w) for b, w in zip(bits, extra, strict=True)]
        length += 64
        exact = mpmath.MPContext()
        exact.prec = length + 192
        # Bits still unknown move b by 2**(64 - length) of its length at most.
        doubt = exact.ldexp(1, 64 - length)
        magnitude, radius = _vector(exact, scale, bits, length)
        cells = [exact.nint(x) for x in magnitude]
        if all(
            abs(x - k) < exact.mpf(0.5) - doubt * radius
            for x, k in zip(magnitude, cells, strict=True)
        ):
            return np.array([float(k) for k in cells])


def _vector(exact: Any, scale: float, bits: list[int], length: int) -> tuple[list[Any], Any]:
    uniforms = [exact.ldexp(exact.mpf(b) + 0.5, -length) for b in bits]
    size = len(bits) // 2
    normal = [_normal_magnitude(exact, u) for u in uniforms[:size]]
    radius = -scale * exact.fsum(exact.log(u) for u in uniforms[size:])
    norm = exact.sqrt(exact.fsum(z * z for z in normal))
    return [radius * z / norm for z in normal], radius


def _normal_magnitude(exact: Any, u: Any) -> Any:
    """Solve ``P(|Z| > x) = u`` by Newton steps from the double solution."""
    x = exact.mpf(float(GAUSSIAN.inverse_survival(np.array([float(u)]))[0]))
    root = exact.sqrt(2)
    for _ in range(4):  # 50, 100, 200, 400 bits
        x += (exact.erfc(x / root) - u) * exact.sqrt(exact.pi / 2) * exact.exp(x * x / 2)
    return x
