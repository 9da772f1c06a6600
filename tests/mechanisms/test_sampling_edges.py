"""Decisions at the words where they are hardest, against 80-digit arithmetic.

A sampler may decide a draw by its first word only if every real number that the word leaves open
gives the same integer. So each test looks for words next to the edge of a cell, near 0 and near 1,
at small and at large scales, and asks what was decided there without further bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

from sfumato.mechanisms import sampling
from sfumato.mechanisms.entropy import drawing_from
from sfumato.mechanisms.sampling import (
    GAUSSIAN,
    LAPLACE,
    Law,
    bernoulli,
    choose,
    rounded_noise,
    rounded_spherical_noise,
)

EXACT = mpmath.MPContext()
EXACT.dps = 80
TOP = 2**63
OFFSETS = sorted(s * d for d in (0, 1, 2, 3, 17, 300, 2**11, 2**17, 2**24, 2**32) for s in (-1, 1))
SURVIVAL: dict[str, Callable[[Any], Any]] = {
    "laplace": lambda x: EXACT.exp(-x),
    "gaussian": lambda x: EXACT.erfc(x / EXACT.sqrt(2)),
}
LAWS: dict[str, Law] = {"laplace": LAPLACE, "gaussian": GAUSSIAN}


def inverse(law: str, u: Any) -> Any:
    if u == 0:
        return EXACT.inf
    if law == "laplace":
        return -EXACT.log(u)
    start = EXACT.mpf(float(GAUSSIAN.inverse_survival(np.array([float(u)]))[0]))
    slope = EXACT.sqrt(EXACT.pi / 2)
    for _ in range(4):
        start += (SURVIVAL["gaussian"](start) - u) * slope * EXACT.exp(start * start / 2)
    return start


def words_near_edges(law: str, scale: float) -> list[int]:
    """Upper 63 bits of words whose draw lies next to the edge of a cell, and the extreme words."""
    found = {0, 1, TOP - 1, TOP - 2, TOP // 2}
    cells = [0, 1, 2, 5, 1000, scale / 1000, scale / 3, scale, 4 * scale, 10 * scale, 20 * scale]
    for cell in cells:
        edge = int(cell) + EXACT.mpf(0.5)
        threshold = int(EXACT.floor(SURVIVAL[law](edge / scale) * TOP))
        found |= {threshold + offset for offset in OFFSETS}
    return sorted(bits for bits in found if 0 <= bits < TOP)


def open_cells(law: str, scale: float, bits: int) -> tuple[float, float]:
    """Cells of the two ends of the interval that a word leaves open."""
    ends = (inverse(law, EXACT.mpf(bits + end) / TOP) * scale for end in (1, 0))
    low, high = (EXACT.inf if x == EXACT.inf else EXACT.floor(x + 0.5) for x in ends)
    return float(low), float(high)


def check_decisions(law: str, scale: float, decided: dict[int, float]) -> int:
    """Each word that was decided alone leaves one cell open; gives how many there were."""
    wrong = {
        bits: (cell, *open_cells(law, scale, bits))
        for bits, cell in decided.items()
        if open_cells(law, scale, bits) != (cell, cell)
    }
    assert not wrong, f"{len(wrong)} of {len(decided)} decisions at scale {scale:g} are wrong"
    return len(decided)


SCALES = [0.3, 40.0, 2.0**10, 2.0**13, 2.0**20 * 1.3, 2.0**30, 2.0**36, 2.0**41]


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("scale", SCALES)
def test_words_next_to_an_edge(law: str, scale: float, monkeypatch: pytest.MonkeyPatch) -> None:
    bits = words_near_edges(law, scale)
    words = np.array([2 * b + 1 for b in bits], dtype=np.uint64)
    monkeypatch.setattr(sampling, "_decide", lambda *_: np.nan)  # asked for further bits
    with drawing_from(lambda count: words[:count]):
        draws = rounded_noise(LAWS[law], scale, len(bits))
    decided = {b: d for b, d in zip(bits, draws.tolist(), strict=True) if not np.isnan(d)}
    assert check_decisions(law, scale, decided) > 5


@pytest.mark.parametrize("scale", [*SCALES, 2.0**46])
def test_spherical_noise_of_one_coordinate(scale: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """b = ± scale E, whatever the normal: from scale 2**13 on a relative doubt is too small."""
    monkeypatch.setattr(sampling, "_decide_sphere", lambda *_: np.full(1, np.nan))
    decided = {}
    for direction in (TOP // 2, TOP - 2**40):  # a normal of order one, and one near zero
        for bits in words_near_edges("laplace", scale):
            words = np.array([2 * direction + 1, 2 * bits + 1], dtype=np.uint64)
            with drawing_from(lambda count, words=words: words[:count]):
                cell = float(rounded_spherical_noise(scale, 1)[0])
            if not np.isnan(cell):
                decided[bits] = cell
    assert check_decisions("laplace", scale, decided) > (10 if scale < 2**40 else -1)


def exact_cells(scale: float, bits: list[int], length: int) -> list[float]:
    """Cells of |b|, where each uniform is the middle of ``[bits, bits + 1) / 2**length``."""
    uniforms = [(EXACT.mpf(b) + 0.5) / EXACT.mpf(2) ** length for b in bits]
    size = len(bits) // 2
    normal = [inverse("gaussian", u) for u in uniforms[:size]]
    radius = scale * EXACT.fsum(inverse("laplace", u) for u in uniforms[size:])
    norm = EXACT.sqrt(EXACT.fsum(z * z for z in normal))
    return [float(EXACT.floor(radius * z / norm + 0.5)) for z in normal]


def next_to_an_edge(scale: float, bits: list[int], place: int) -> list[int]:
    """Move one uniform until a cell changes between a word and the next one."""

    def cells(value: int) -> list[float]:
        return exact_cells(scale, [*bits[:place], value, *bits[place + 1 :]], 63)

    low, high = bits[place], min(TOP - 1, bits[place] + max(2**40, int(TOP / scale)))
    if cells(low) == cells(high):
        return [low, high]
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if cells(middle) != cells(low) else (middle, high)
    return [low + offset for offset in OFFSETS if 0 < low + offset < TOP]


@pytest.mark.parametrize(("size", "scale"), [(2, 3.0), (2, 2.0**13), (3, 2.0**24), (2, 2.0**34)])
def test_spherical_noise_of_several_coordinates(
    size: int, scale: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cells that a decision names are those of any further bits."""
    rng = np.random.default_rng(int(scale) + size)
    monkeypatch.setattr(sampling, "_decide_sphere", lambda *_: np.full(size, np.nan))
    tried = decided = 0
    for kind in ("plain", "small radius", "small normals"):
        bits = [int(b) for b in rng.integers(1, TOP, 2 * size)]
        small = range(size, 2 * size) if kind == "small radius" else range(size)
        for i in small if kind != "plain" else ():
            bits[i] = TOP - int(rng.integers(1, max(2, int(TOP / scale))))
        for place in (0, size):
            for value in next_to_an_edge(scale, bits, place):
                known = [*bits[:place], value, *bits[place + 1 :]]
                words = np.array([2 * b + 1 for b in known], dtype=np.uint64)
                with drawing_from(lambda count, words=words: words[:count]):
                    cells = rounded_spherical_noise(scale, size)
                tried += 1
                if np.isnan(cells).any():
                    continue
                decided += 1
                for _ in range(3):
                    extra = rng.choice([0, 2**62, 2**63 - 1], 2 * size)
                    longer = [(b << 63) | int(e) for b, e in zip(known, extra, strict=True)]
                    assert exact_cells(scale, longer, 126) == cells.tolist()
    assert decided > tried / 20


def test_the_largest_word_is_drawn_like_any_other() -> None:
    """Its uniform is 1.0 in doubles: a normal of exactly zero, whose direction was NaN."""
    further = np.random.default_rng(0)
    for size in (1, 3):
        blocks = iter([np.full(2 * size, 2**64 - 1, dtype=np.uint64)])
        with drawing_from(
            lambda count, blocks=blocks: next(
                blocks, further.integers(0, 2**64, count, dtype=np.uint64)
            )
        ):
            assert np.array_equal(rounded_spherical_noise(2.0**30, size), np.zeros(size))


@pytest.mark.parametrize("epsilon", [2.0**-20, 1.0, 30.0, 300.0])
def test_coins_next_to_their_threshold(epsilon: float, monkeypatch: pytest.MonkeyPatch) -> None:
    threshold = 1 / (1 + 6 * EXACT.exp(-EXACT.mpf(epsilon))) * 2**64
    near = [int(EXACT.floor(threshold)) + offset for offset in OFFSETS]
    words = np.array([w for w in [0, 2**64 - 1, *near] if 0 <= w < 2**64], dtype=np.uint64)
    resolved = []
    monkeypatch.setattr(sampling, "_resolve_coin", lambda p, bits: resolved.append(bits) or False)
    with drawing_from(lambda count: words[:count]):
        coins = bernoulli(lambda e: 1 / (1 + 6 * e.exp(-e.mpf(epsilon))), words.size)
    for word, coin in zip(words.tolist(), coins.tolist(), strict=True):
        if word not in resolved:
            assert word + 1 <= threshold if coin else threshold <= word
    assert len(resolved) <= 8


@pytest.mark.parametrize("spread", [0.0, 1.0, 40.0, 800.0])
def test_choices_next_to_their_edges(spread: float, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(int(spread))
    exponents = -spread * rng.random(40)
    exponents -= exponents.max()
    shares = [EXACT.exp(EXACT.mpf(float(e))) for e in exponents]
    edges = [EXACT.fsum(shares[: i + 1]) / EXACT.fsum(shares) for i in range(40)]
    monkeypatch.setattr(sampling, "_choose_exactly", lambda e, bits: -1)
    decided = 0
    for bits in {int(EXACT.floor(edge * TOP)) + o for edge in edges for o in OFFSETS}:
        if 0 <= bits < TOP:
            with drawing_from(lambda count, bits=bits: np.full(count, 2 * bits, np.uint64)):
                choice = choose(exponents)
            if choice >= 0:
                decided += 1
                below = edges[choice - 1] if choice else EXACT.mpf(0)
                assert below * TOP <= bits
                assert bits + 1 <= edges[choice] * TOP
    assert decided > 0


def test_quantiles_keep_the_errors_that_the_bound_counts_on(seed: int) -> None:
    """Units in the last place, near 1 and down to 2**-24: far fewer than allowed."""
    rng = np.random.default_rng(seed)
    near_one = 1 - 2.0 ** -rng.uniform(1, 52, 100)
    small = 2.0 ** -rng.uniform(0, 24, 100)
    uniform = np.concatenate([near_one, small, [1 - 2.0**-53]])
    for law, allowed in (("laplace", 2.0**-50), ("gaussian", 2.0**-48)):
        for u, x in zip(
            uniform.tolist(), LAWS[law].inverse_survival(uniform).tolist(), strict=True
        ):
            true = inverse(law, EXACT.mpf(u))
            assert abs(true - x) <= allowed / 2 * true


@pytest.mark.parametrize("law", [LAPLACE, GAUSSIAN], ids=["laplace", "gaussian"])
@pytest.mark.parametrize("off", [-1, 1])
@pytest.mark.parametrize("scale", [0.7, 3.0, 2.0**20])
def test_a_guess_that_is_off_by_a_cell_is_put_right(law: Law, off: int, scale: float) -> None:
    """Doubles may land in the next cell, on either side; thresholds decide."""

    def guess(u: np.ndarray) -> np.ndarray:
        return np.maximum(law.inverse_survival(u) + off / scale, 0.0)

    for bits in np.random.default_rng(0).integers(2**40, 2**63, 20):
        u = (int(bits) + 0.5) * 2.0**-63
        truth = float(np.rint(law.inverse_survival(np.array([u]))[0] * scale))
        with sampling._exact.workprec(400):
            found = sampling._cell_of(Law(guess, law.survival), scale, int(bits) << 64, 127)
        assert found == truth


def test_open_bits_of_a_small_uniform_leave_a_length_in_doubt() -> None:
    """A uniform near 2⁻²³, known to 2⁻⁶³, leaves its logarithm open by 2⁻⁴⁰."""
    uniforms = sampling.midpoints(np.array([2**63, 2**41 + 12345], dtype=np.uint64))
    assert sampling._clear_cells(2.0**40, uniforms) is None
    assert sampling._clear_cells(2.0**10, uniforms) is not None
