"""Exact draws: the rounding of a *real* noise variable, decided bit by bit.

Floating-point noise leaks: which doubles can come out depends on the value that was hidden
(Mironov 2012). Here nothing of it is left. A noise variable is ``Z = sign * S⁻¹(U)`` with U uniform
in (0, 1) and S the survival function of its magnitude; what is drawn is the integer

``k = round(t Z)``,

the rounding of the exact real number. A 64-bit word fixes U up to 2⁻⁶³. If ``t Z`` computed in
doubles lies clearly inside a rounding cell, the word decides k; else (a few draws in a hundred
thousand) more bits of U are drawn and S is evaluated in arbitrary precision until k is certain.
So k has the law of the rounded real variable, with no error at all, and every theorem about real
noise holds as it stands: for integer v, ``v + round(t Z) = round(v + t Z)`` is post-processing.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import mpmath
import numpy as np
from joblib import cpu_count
from numpy.typing import NDArray
from scipy.special import ndtri

from sfumato.exceptions import InvalidInputError
from sfumato.mechanisms.entropy import Words, is_seeded, random_words

CHUNK = 2**15  # words per block: the block's arrays stay in the cache
FEW_CHUNKS = 8  # so few are drawn before threads have started
MAX_SCALE = 2.0**42
# For U >= RARE the double t Z is off by less than t 2**-45 cells: t 2**-46 from log (4 units in
# the last place allowed) or ndtri (16 allowed), t 2**-47 from the unknown bits of U, t 2**-51 from
# the rounding of U. All of it is absolute in Z, so the doubt is a share of t, not of t Z.
RARE = 2.0**-16
DOUBT = 2.0**-44
# Arbitrary precision errs, too: thresholds carry GUARD more bits than U, a decision keeps clear of
# them by half as many, and what is nearer waits for further bits of U.
GUARD = 128
# For a uniform u >= SPHERE_RARE, a double quantile x is off by less than ULPS x + ROUNDED_UNIFORM +
# OPEN_BITS / u: 4 units in the last place are allowed to log and 16 to ndtri. The second term is
# absolute: near u = 1, where x is near 0, the rounding of u alone moves x by 2**-52. Proof:
# docs/guarantees/noise.md, Lemma 3.
SPHERE_RARE = 2.0**-24
EXPONENTIAL_ULPS = 2.0**-50
NORMAL_ULPS = 2.0**-48
ROUNDED_UNIFORM = 2.0**-51
OPEN_BITS = 2.0**-62
ROUNDING = 2.0**-48  # relative, of sums, root, quotient and product in doubles
MAX_TILT = 2.0**-20  # the bound is proved for an error of z up to this share of its norm

Array = NDArray[np.float64]
Real = Any  # an mpmath number
_exact = mpmath.MPContext()
_exact_lock = threading.Lock()  # the context's precision is shared by all threads
# A child forked while another thread decides a draw would wait for that thread forever.
os.register_at_fork(
    before=_exact_lock.acquire,
    after_in_parent=_exact_lock.release,
    after_in_child=_exact_lock.release,
)


@dataclass(frozen=True)
class Law:
    """A symmetric law of unit scale: survival function of the magnitude, and its inverse."""

    inverse_survival: Callable[[Array], Array]
    survival: Callable[[Real], Real]


LAPLACE = Law(lambda u: -np.log(u), lambda x: _exact.exp(-x))
GAUSSIAN = Law(lambda u: -ndtri(u / 2), lambda x: _exact.erfc(x / _exact.sqrt(2)))


def discrete_laplace(scale: float) -> Law:
    """Return the law whose ``round(t Z)``, t the scale, is k with probability ~ ``exp(-|k| / t)``.

    ``|k| >= m`` has probability ``2 exp(-m/t) / (1 + exp(-1/t))``, for m >= 1: this is
    ``exp(-x) / cosh(1/2t)`` at the edge ``x = (m - 1/2) / t`` of the cell. The rest is at zero.
    """
    tilt = math.cosh(0.5 / scale)
    return Law(
        lambda u: np.maximum(-np.log(u * tilt), 0.0),
        lambda x: _exact.exp(-x) / _exact.cosh(1 / (2 * _exact.mpf(scale))),
    )


def require_scale(scale: float) -> None:
    """Refuse a scale, in grid cells, at which noise cannot be drawn exactly."""
    if not 0 < scale <= MAX_SCALE:
        raise InvalidInputError(
            "Too many coordinates for this epsilon to be drawn exactly; release fewer."
        )


def rounded_noise(law: Law, scale: float, size: int) -> Array:
    """Draw `size` independent integers ``round(scale Z)``, exactly."""
    require_scale(scale)
    draws = np.empty(size)
    parts = np.split(draws, range(CHUNK, size, CHUNK))
    # Seeded words come in one order; those of the operating system have none.
    if is_seeded() or len(parts) < FEW_CHUNKS:
        for part in parts:
            part[:] = _rounded_block(law, scale, random_words(len(part)))
        return draws

    def fill(part: Array) -> None:
        part[:] = _rounded_block(law, scale, random_words(len(part)))

    with ThreadPoolExecutor(cpu_count()) as pool:
        list(pool.map(fill, parts))
    return draws


def _rounded_block(law: Law, scale: float, words: Words) -> Array:
    uniform = midpoints(words)
    real = law.inverse_survival(uniform)
    real *= scale
    cell = np.rint(real)
    real -= cell
    np.abs(real, out=real)
    doubtful = (real > 0.5 - DOUBT * scale) | (uniform < RARE)
    for i in np.flatnonzero(doubtful):
        cell[i] = _decide(law, scale, int(words[i]) >> 1)
    return np.where(words & np.uint64(1), cell, -cell)


def discrete_gaussian(scale: float, size: int) -> Array:
    """Draw `size` independent integers k with probability in proportion to ``exp(-k²/2t²)``.

    ``round(t Z)`` is drawn and kept with probability ``a(k)``, the ratio of the two laws divided by
    its value at 0, where it is largest. ``1 - a(k) <= k²/8t⁴``, so that at large scales a word
    decides with hardly any doubt; else the coin is tossed in arbitrary precision.
    """
    draws = np.empty(size)
    open_ones = np.arange(size)
    while open_ones.size:
        draws[open_ones] = rounded_noise(GAUSSIAN, scale, open_ones.size)
        words = random_words(open_ones.size)
        drawn = draws[open_ones] / scale
        # Doubles are off by a few units in the last place: half as much again is doubted.
        doubtful = midpoints(words) <= 1.5 * (drawn / scale) ** 2 / 8 + 2.0**-62
        lost = []
        for i in np.flatnonzero(doubtful):
            cell = int(draws[open_ones[i]])
            if _resolve_coin(partial(_chance_of_loss, scale=scale, cell=cell), int(words[i])):
                lost.append(i)
        open_ones = open_ones[lost]
    return draws


def _chance_of_loss(exact: Any, scale: float, cell: int) -> Real:
    """Return ``1 - a(k)``: what a rounded Gaussian has too much of a cell, next to that of 0."""
    t, k = exact.mpf(scale), abs(cell)
    if k == 0:
        return exact.mpf(0)
    root = t * exact.sqrt(2)
    edges = exact.erfc((k - exact.mpf(0.5)) / root) - exact.erfc((k + exact.mpf(0.5)) / root)
    return 1 - 2 * exact.erf(1 / (2 * root)) / (edges * exact.exp((k / t) ** 2 / 2))


def midpoints(words: Words) -> Array:
    """Return the middle of the interval to which the upper 63 bits confine U."""
    uniform = (words >> np.uint64(1)).astype(np.float64)
    uniform += 0.5
    uniform *= 2.0**-63
    return uniform


def _decide(law: Law, scale: float, bits: int) -> float:
    """Find k for ``U in [bits, bits + 1) / 2**63``, drawing further bits of U as needed."""
    length = 63
    with _exact_lock:
        while True:
            bits, length = (bits << 64) | int(random_words(1)[0]), length + 64
            with _exact.workprec(length + GUARD):
                cell = _cell_of(law, scale, bits, length)
            if cell is not None:
                return cell


def _cell_of(law: Law, scale: float, bits: int, length: int) -> float | None:
    low, high = (_exact.ldexp(_exact.mpf(bits + end), -length) for end in (0, 1))
    guess = law.inverse_survival(np.array([float(_exact.ldexp(bits + 0.5, -length))]))[0]
    cell = int(np.rint(guess * scale))
    margin = _margin(length)
    while True:  # the guess is off by one at most
        above = law.survival((cell + _exact.mpf(0.5)) / scale)
        # U < 1, so no edge lies below cell 0
        below = law.survival((cell - _exact.mpf(0.5)) / scale) if cell > 0 else _exact.mpf(2)
        if above + margin <= low and high + margin <= below:
            return float(cell)
        if high + margin <= above:
            cell += 1
        elif below + margin <= low:
            cell -= 1
        else:  # a cell's edge lies inside the interval, or next to it
            return None


def _margin(length: int) -> Real:
    return _exact.ldexp(1, -length - GUARD // 2)


def bernoulli(probability: Callable[[Any], Real], size: int) -> NDArray[np.bool_]:
    """Draw `size` coins that are true with the exact real `probability`."""
    with _exact_lock, _exact.workprec(64 + GUARD):
        threshold = int(_exact.floor(_exact.ldexp(probability(_exact), 64)))
    words = random_words(size)
    coins = words < np.uint64(min(threshold, 2**64 - 1))
    # The threshold was rounded, so its neighbours are resolved as well.
    near = [np.uint64(t) for t in range(threshold - 1, threshold + 2) if 0 <= t < 2**64]
    for i in np.flatnonzero(np.isin(words, near)):
        coins[i] = _resolve_coin(probability, int(words[i]))
    return coins


def _resolve_coin(probability: Callable[[Any], Real], bits: int) -> bool:
    length = 64
    while length < 1024:  # a coin still open after 1000 bits has probability 2**-960
        bits, length = (bits << 64) | int(random_words(1)[0]), length + 64
        with _exact_lock, _exact.workprec(length + GUARD):
            chance, low = probability(_exact), _exact.ldexp(bits, -length)
            high, margin = _exact.ldexp(bits + 1, -length), _margin(length)
            if high + margin <= chance:
                return True
            if chance + margin <= low:
                return False
    return False


def choose(exponents: Array, times: NDArray[np.intp] | None = None) -> int:
    """Draw i with probability ``exp(exponents_i) / sum exp(exponents)``, exactly.

    With `times`, each exponent is that of so many candidates in a row.
    """
    times = np.ones(exponents.size, dtype=np.intp) if times is None else times
    shares = np.exp(exponents) * times
    edges: Array = np.cumsum(shares)
    edges /= edges[-1]
    word = random_words(1)
    uniform = float(midpoints(word)[0])
    choice = int(np.searchsorted(edges, uniform))
    # Doubles give each edge to within n_candidates roundings; near an edge, decide exactly.
    is_near = np.abs(edges - uniform).min() <= 2.0**-50 * (exponents.size + 16)
    if is_near or choice >= edges.size:
        choice = _choose_exactly(exponents, times, int(word[0]) >> 1)
    n, place = int(times[choice]), 0
    while n > 1 and (place := int(random_words(1)[0])) >= 2**64 - 2**64 % n:
        pass
    return int(times[:choice].sum()) + place % n


def _choose_exactly(exponents: Array, times: NDArray[np.intp], bits: int) -> int:
    length = 63
    with _exact_lock:
        while True:
            bits, length = (bits << 64) | int(random_words(1)[0]), length + 64
            with _exact.workprec(length + GUARD):
                exact = [_exact.exp(_exact.mpf(float(e))) for e in exponents]
                shares = [share * int(n) for share, n in zip(exact, times, strict=True)]
                total = _exact.fsum(shares)
                low, high = (_exact.ldexp(total * (bits + end), -length) for end in (0, 1))
                margin = total * _margin(length)
                edge = _exact.mpf(0)
                for i, share in enumerate(shares):
                    below, edge = edge, edge + share
                    # No edge lies below the first candidate, and none above the last.
                    above_edge = i == 0 or below + margin <= low
                    if above_edge and (i == len(shares) - 1 or high + margin <= edge):
                        return i


# Noise with a uniform direction -------------------------------------------------------------------


def rounded_spherical_noise(scale: float, size: int) -> Array:
    """Draw ``round(b)``, b in R^size with density proportional to ``exp(-||b|| / scale)``.

    ``b = r z / ||z||`` with z standard normal and ``r ~ Gamma(size, scale)``, exponentials.
    Each of the uniforms behind it is known to 63 bits at first. A bound on what the unknown bits
    and the rounding of doubles can move decides whether every coordinate lies clearly inside a
    rounding cell; if one does not, all uniforms get 64 more bits and b is computed again in
    arbitrary precision, with the same bound.
    """
    words = random_words(2 * size)
    cells = _clear_cells(scale, midpoints(words))
    if cells is None:
        cells = _decide_sphere(scale, [int(w) >> 1 for w in words])
    return np.where(words[:size] & np.uint64(1), cells, -cells)


def _clear_cells(scale: float, uniforms: Array) -> Array | None:
    """Cells of ``|b|`` from doubles, or None if one of them is in doubt."""
    if uniforms.min() < SPHERE_RARE:
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


def _decide_sphere(scale: float, bits: list[int]) -> Array:
    """Find the cells of ``|b|``, drawing further bits of all uniforms as needed."""
    length = 63
    while True:
        extra = random_words(len(bits))
        bits = [(b << 64) | int(w) for b, w in zip(bits, extra, strict=True)]
        length += 64
        exact = mpmath.MPContext()
        exact.prec = length + 192
        cells = _sphere_cells(exact, scale, bits, length)
        if cells is not None:
            return np.array([float(k) for k in cells])


def _sphere_cells(exact: Any, scale: float, bits: list[int], length: int) -> list[Any] | None:
    if min(bits) == 0:  # a uniform that may still be anything below 2**-length
        return None
    size = len(bits) // 2
    uniforms = [exact.ldexp(exact.mpf(b) + 0.5, -length) for b in bits]
    errors = [exact.ldexp(1 / u, 1 - length) for u in uniforms]  # arithmetic errs far less
    normal = []
    for u in uniforms[:size]:  # solve P(|Z| > x) = u by Newton steps from the double solution
        x = exact.mpf(float(GAUSSIAN.inverse_survival(np.array([float(u)]))[0]))
        for _ in range(4):  # 50, 100, 200, 400 bits
            off = exact.erfc(x / exact.sqrt(2)) - u
            x += off * exact.sqrt(exact.pi / 2) * exact.exp(x * x / 2)
        normal.append(x)
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
