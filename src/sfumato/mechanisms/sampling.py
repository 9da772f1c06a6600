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

import itertools
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
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
FEW_AHEAD = 2**12  # draws that are made sooner than handed from thread to thread
AHEAD_BYTES = 2**28  # of noise that waits for its release
MAX_SCALE = 2.0**42
# For U >= RARE the double t Z is off by less than t 2**-45 cells: t 2**-46 from log (4 units in
# the last place allowed) or ndtri (16 allowed), t 2**-47 from the unknown bits of U, t 2**-51 from
# the rounding of U. All of it is absolute in Z, so the doubt is a share of t, not of t Z.
RARE = 2.0**-16
DOUBT = 2.0**-44
# Arbitrary precision errs, too: thresholds carry GUARD more bits than U, a decision keeps clear of
# them by half as many, and what is nearer waits for further bits of U.
GUARD = 128

Real = Any  # an mpmath number
_exact = mpmath.MPContext()
_exact_lock = threading.Lock()  # the context's precision is shared by all threads
# A child forked while another thread decides a draw would wait for that thread for ever.
os.register_at_fork(
    before=_exact_lock.acquire,
    after_in_parent=_exact_lock.release,
    after_in_child=_exact_lock.release,
)


@dataclass(frozen=True)
class Law:
    """A symmetric law of unit scale: survival function of the magnitude, and its inverse."""

    inverse_survival: Callable[[NDArray[np.float64]], NDArray[np.float64]]
    survival: Callable[[Real], Real]


LAPLACE = Law(lambda u: -np.log(u), lambda x: _exact.exp(-x))
GAUSSIAN = Law(lambda u: -ndtri(u / 2), lambda x: _exact.erfc(x / _exact.sqrt(2)))


def require_scale(scale: float) -> None:
    """Refuse a scale, in grid cells, at which noise cannot be drawn exactly."""
    if not 0 < scale <= MAX_SCALE:
        raise InvalidInputError(
            "So many coordinates at so small an epsilon cannot be drawn exactly; release fewer."
        )


def rounded_noise(law: Law, scale: float, size: int) -> NDArray[np.float64]:
    """Draw `size` independent integers ``round(scale Z)``, exactly."""
    require_scale(scale)
    waiting = _waiting.get()
    if waiting is not None and waiting.serves(law, scale, size):
        return waiting.next(law, scale, size)
    return _drawn_now(law, scale, size)


@dataclass(frozen=True)
class NoiseRequest:
    """Noise of equal releases that are paid for.

    law: As for `rounded_noise`.
    scale: As for `rounded_noise`.
    size: Draws of a release.
    count: Releases.
    """

    law: Law
    scale: float
    size: int
    count: int = 1

    @property
    def key(self) -> tuple[Law, float, int]:
        """What a release asks for."""
        return self.law, self.scale, self.size


@contextmanager
def prefetch_noise(*orders: NoiseRequest) -> Iterator[None]:
    """Draw noise in other threads, in this order, while this one adds up.

    For releases that are paid for: noise is drawn after the charge. Every draw is independent of
    all others and is handed out once, so it does not matter when it was made; what is left over
    is thrown away. Seeded words come in one order, and are drawn when they are asked for.
    """
    for order in orders:
        require_scale(order.scale)
    worthwhile = [order for order in orders if order.size >= FEW_AHEAD]
    if is_seeded() or not worthwhile:
        yield
        return
    with ThreadPoolExecutor(cpu_count()) as pool:
        waiting = _NoiseQueue(pool, worthwhile)
        token = _waiting.set(waiting)
        try:
            yield
        finally:
            _waiting.reset(token)
            waiting.cancel()


class _NoiseQueue:
    """Noise that is drawn ahead, in a queue of bounded size."""

    def __init__(self, pool: ThreadPoolExecutor, orders: list[NoiseRequest]) -> None:
        self._pool, self._pid = pool, os.getpid()
        self._missing = (order for order in orders for _ in range(order.count))
        self._bytes = 0
        self._drawn: dict[Any, deque[_Draws]] = {order.key: deque() for order in orders}
        self._fill()

    def _fill(self) -> None:
        """Order more while there is room; the threads take parts first come, first served."""
        while self._bytes < AHEAD_BYTES:
            order = next(self._missing, None)
            if order is None:
                return
            self._bytes += 8 * order.size
            self._drawn[order.key].append(_Draws(self._pool, *order.key))

    def serves(self, law: Law, scale: float, size: int) -> bool:
        # A forked child holds the same noise as its parent, so it draws its own.
        is_ours = self._pid == os.getpid() and not is_seeded()
        return is_ours and bool(self._drawn.get((law, scale, size)))

    def next(self, law: Law, scale: float, size: int) -> NDArray[np.float64]:
        drawn = self._drawn[law, scale, size].popleft()
        self._bytes -= 8 * size
        self._fill()
        return drawn.result()

    def cancel(self) -> None:
        for drawn in itertools.chain.from_iterable(self._drawn.values()):
            drawn.cancel()


class _Draws:
    """Draws of one release, of which threads make a part each."""

    def __init__(self, pool: ThreadPoolExecutor, law: Law, scale: float, size: int) -> None:
        self._numbers = np.empty(size)
        self._parts = [
            pool.submit(_draw_into, self._numbers[start : start + CHUNK], law, scale)
            for start in range(0, size, CHUNK)
        ]

    def result(self) -> NDArray[np.float64]:
        for part in self._parts:
            part.result()
        return self._numbers

    def cancel(self) -> None:
        for part in self._parts:
            part.cancel()


_waiting: ContextVar[_NoiseQueue | None] = ContextVar("noise drawn ahead", default=None)


def _drawn_now(law: Law, scale: float, size: int) -> NDArray[np.float64]:
    # Seeded words come in one order; those of the operating system have none.
    if is_seeded() or size <= (FEW_CHUNKS - 1) * CHUNK:
        draws = np.empty(size)
        for start in range(0, size, CHUNK):
            _draw_into(draws[start : start + CHUNK], law, scale)
        return draws
    with ThreadPoolExecutor(cpu_count()) as pool:
        return _Draws(pool, law, scale, size).result()


def _draw_into(draws: NDArray[np.float64], law: Law, scale: float) -> None:
    draws[:] = _rounded_block(law, scale, random_words(len(draws)))


def _rounded_block(law: Law, scale: float, words: Words) -> NDArray[np.float64]:
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


def discrete_gaussian(scale: float, size: int) -> NDArray[np.float64]:
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
        lost = [
            i
            for i in np.flatnonzero(doubtful)
            if _resolve_coin(_chance_of_loss(scale, int(draws[open_ones[i]])), int(words[i]))
        ]
        open_ones = open_ones[lost]
    return draws


def _chance_of_loss(scale: float, cell: int) -> Callable[[Any], Real]:
    """Return ``1 - a(k)``: what a rounded Gaussian has too much of a cell, next to that of 0."""

    def chance(exact: Any) -> Real:
        t, k = exact.mpf(scale), abs(cell)
        if k == 0:
            return exact.mpf(0)
        root = t * exact.sqrt(2)
        edges = exact.erfc((k - exact.mpf(0.5)) / root) - exact.erfc((k + exact.mpf(0.5)) / root)
        return 1 - 2 * exact.erf(1 / (2 * root)) / (edges * exact.exp((k / t) ** 2 / 2))

    return chance


def midpoints(words: Words) -> NDArray[np.float64]:
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
            bits = (bits << 64) | int(random_words(1)[0])
            length += 64
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


def uniform_below(limit: int, size: int) -> NDArray[np.int64]:
    """Draw `size` integers uniform on ``0 .. limit - 1``, exactly."""
    top = np.uint64(2**64 - 1 - 2**64 % limit)  # a multiple of `limit`, less one
    words = random_words(size).copy()
    while (outside := np.flatnonzero(words > top)).size:
        words[outside] = random_words(outside.size)
    return (words % np.uint64(limit)).astype(np.int64)


def choose(exponents: NDArray[np.float64]) -> int:
    """Draw i with probability ``exp(exponents_i) / sum exp(exponents)``, exactly."""
    shares = np.exp(exponents)
    edges = np.cumsum(shares)
    edges /= edges[-1]
    word = random_words(1)
    uniform = float(midpoints(word)[0])
    choice = int(np.searchsorted(edges, uniform))
    # Doubles give each edge to within n_candidates roundings; near an edge, decide exactly.
    if np.abs(edges - uniform).min() > 2.0**-50 * (exponents.size + 16) and choice < edges.size:
        return choice
    return _choose_exactly(exponents, int(word[0]) >> 1)


def _choose_exactly(exponents: NDArray[np.float64], bits: int) -> int:
    length = 63
    with _exact_lock:
        while True:
            bits, length = (bits << 64) | int(random_words(1)[0]), length + 64
            with _exact.workprec(length + GUARD):
                shares = [_exact.exp(_exact.mpf(float(e))) for e in exponents]
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
