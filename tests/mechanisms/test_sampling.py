"""The law of the draws: exact cell probabilities, hard words in 80 digits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy.stats import chisquare, kstest, laplace, norm

from sfumato.exceptions import InvalidInputError
from sfumato.mechanisms import sampling
from sfumato.mechanisms.entropy import drawing_from, is_seeded, random_words, seeded
from sfumato.mechanisms.sampling import (
    GAUSSIAN,
    LAPLACE,
    Law,
    _rounded_block,
    bernoulli,
    choose,
    discrete_laplace,
    rounded_noise,
    rounded_spherical_noise,
)

LAWS = {"laplace": (LAPLACE, laplace), "gaussian": (GAUSSIAN, norm)}
FALSE_ALARM = 1e-6


def cell_probabilities(law: str, scale: float, cells: np.ndarray) -> np.ndarray:
    reference = LAWS[law][1]
    return reference.cdf((cells + 0.5) / scale) - reference.cdf((cells - 0.5) / scale)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("scale", [0.3, 1.7, 40.0])
def test_small_scales_have_the_exact_cell_probabilities(law: str, scale: float, seed: int) -> None:
    with seeded(seed):
        draws = rounded_noise(LAWS[law][0], scale, 100_000)
    assert np.array_equal(draws, np.rint(draws))
    cells = np.arange(-int(10 * scale) - 3, int(10 * scale) + 4)
    expected = cell_probabilities(law, scale, cells) * draws.size
    cells, expected = cells[expected >= 20], expected[expected >= 20]
    observed = np.array([(draws == c).sum() for c in cells])
    rest = draws.size - expected.sum()
    if rest > 5:
        observed = np.append(observed, draws.size - observed.sum())
        expected = np.append(expected, rest)
    else:
        expected *= observed.sum() / expected.sum()
    assert chisquare(observed, expected).pvalue > FALSE_ALARM
    assert chisquare(np.roll(observed, 1), expected).pvalue < FALSE_ALARM  # the test can fail


@pytest.mark.parametrize("law", LAWS)
def test_doubtful_draws_are_decided_as_the_clear_ones_would_be(
    law: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With every draw called doubtful, arbitrary precision gives the same integers."""
    with seeded(seed):
        words = random_words(400)
    with drawing_from(lambda count: words[:count]):
        fast = rounded_noise(LAWS[law][0], 2.0**27 * 1.3, 400)
    fresh = iter(np.random.default_rng(seed).integers(0, 2**64, 10_000, dtype=np.uint64))
    monkeypatch.setattr(sampling, "DOUBT", 1.0)

    def source(count: int) -> np.ndarray:
        return words if count == 400 else np.array([next(fresh) for _ in range(count)])

    with drawing_from(source):
        slow = rounded_noise(LAWS[law][0], 2.0**27 * 1.3, 400)
    np.testing.assert_array_equal(fast, slow)


@pytest.mark.parametrize("law", LAWS)
def test_edges_are_decided_by_further_bits(law: str) -> None:
    """A word whose interval holds a cell's edge is split by the bits drawn after it."""
    exact = mpmath.MPContext()
    exact.prec = 400
    scale = 2.0**28
    edge = exact.mpf(12345) + 0.5
    survival = (
        exact.exp(-edge / scale) if law == "laplace" else exact.erfc(edge / scale / exact.sqrt(2))
    )
    bits = int(exact.floor(exact.ldexp(survival, 63)))
    rest = int(exact.floor(exact.ldexp(survival, 127))) - (bits << 64)
    for extra, expected in ((rest - 1, 12346.0), (rest + 1, 12345.0)):
        with drawing_from(lambda count, extra=extra: np.full(count, extra, dtype=np.uint64)):
            assert sampling._decide(LAWS[law][0], scale, bits) == expected


def test_tail_draws_are_memoryless_and_finite(seed: int) -> None:
    """Words of almost only zeros: the far tail, where a word alone says nothing."""
    rng = np.random.default_rng(seed)
    with drawing_from(
        lambda count: (
            np.zeros(count, np.uint64) if count > 1 else rng.integers(0, 2**64, 1, dtype=np.uint64)
        )
    ):
        draws = -rounded_noise(LAPLACE, 1000.0, 300) / 1000.0
    beyond = draws - 63 * np.log(2)  # U < 2**-63, so the rest is exponential again
    assert kstest(beyond, "expon").pvalue > FALSE_ALARM


@pytest.mark.parametrize("size", [1, 2, 7])
def test_spherical_noise_has_gamma_norm_and_uniform_direction(size: int, seed: int) -> None:
    with seeded(seed):
        draws = np.array([rounded_spherical_noise(2.0**20, size) for _ in range(4000)]) / 2.0**20
    lengths = np.linalg.norm(draws, axis=1)
    assert kstest(lengths, "gamma", args=(size,)).pvalue > FALSE_ALARM
    assert kstest(lengths * 1.5, "gamma", args=(size,)).pvalue < FALSE_ALARM
    cosines = draws[:, 0] / lengths
    if size == 1:
        assert abs(cosines.mean()) < 5 / np.sqrt(4000)
    else:  # squared cosine with a fixed axis is Beta(1/2, (m - 1)/2)
        assert kstest(cosines**2, "beta", args=(0.5, (size - 1) / 2)).pvalue > FALSE_ALARM
        correlation = np.corrcoef(draws[:, 0], draws[:, 1])[0, 1]
        assert abs(correlation) < 5 / np.sqrt(4000)


def test_spherical_doubtful_draws_agree(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with seeded(seed):
        words = random_words(20)
    with drawing_from(lambda count: words[:count]):
        fast = rounded_spherical_noise(2.0**15, 10)
    monkeypatch.setattr(sampling, "_clear_cells", lambda *_: None)
    calls = []

    def source(count: int) -> np.ndarray:
        calls.append(count)
        return words[:count] if len(calls) == 1 else words[::-1][:count].copy()

    with drawing_from(source):
        np.testing.assert_array_equal(rounded_spherical_noise(2.0**15, 10), fast)
    assert len(calls) == 2


def test_coins(seed: int) -> None:
    with seeded(seed):
        assert abs(bernoulli(lambda e: e.mpf(0.05), 100_000).sum() - 5000) < 350
        assert bernoulli(lambda e: e.mpf(0), 1000).sum() == 0
        assert bernoulli(lambda e: e.mpf(1), 1000).all()
    third = 2**64 // 3
    rests = iter([2**64 // 3 - 5, 2**64 // 3 + 5])
    with drawing_from(
        lambda count: np.full(count, third if count == 2 else next(rests), np.uint64)
    ):
        assert bernoulli(lambda e: e.mpf(1) / 3, 2).tolist() == [True, False]


def test_choice_follows_the_exact_shares(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    words = iter([2**63, 2**64 - 1, 2**64 - 2, 11])  # of seven in a row: two words too many
    with drawing_from(lambda count: np.full(count, next(words), np.uint64)):
        assert choose(np.zeros(1), np.array([7])) == 11 % 7
    exponents, times = np.array([-2.0, 0.0, -800.0, -1.0]), np.array([3, 1, 2, 2])
    shares = np.repeat(np.exp(exponents), times) / (times * np.exp(exponents)).sum()
    with seeded(seed):
        counts = np.bincount([choose(exponents, times) for _ in range(5000)], minlength=8)
    assert counts[4] == counts[5] == 0
    assert chisquare(counts[shares > 0.01], shares[shares > 0.01] * 5000).pvalue > FALSE_ALARM
    monkeypatch.setattr(np, "abs", np.zeros_like)  # every draw is next to an edge
    with seeded(seed):
        exact = np.bincount([choose(exponents, times) for _ in range(800)], minlength=8)
    assert chisquare(exact[shares > 0.01], shares[shares > 0.01] * 800).pvalue > FALSE_ALARM


def test_bits_come_from_the_system_unless_a_test_says_otherwise() -> None:
    assert not is_seeded()
    assert not np.array_equal(random_words(4), random_words(4))
    with seeded(3):
        assert is_seeded()
        first = random_words(4)
    with seeded(3):
        np.testing.assert_array_equal(random_words(4), first)
    assert not is_seeded()


def test_scales_out_of_range_are_refused() -> None:
    assert rounded_noise(LAPLACE, 2.0**42, 1).shape == (1,)
    for scale in (0.0, -1.0, 2.0**43, np.nan):
        with pytest.raises(InvalidInputError, match="exactly"):
            rounded_noise(LAPLACE, scale, 1)


@pytest.mark.parametrize("n_threads", [2, 7])
def test_threads_draw_each_place_once_from_the_operating_system(
    monkeypatch: pytest.MonkeyPatch, n_threads: int
) -> None:
    """Every word comes from the system, none twice; the law is the one of a single thread.

    The Kolmogorov-Smirnov test raises a false alarm with probability 1e-7.
    """
    monkeypatch.setattr(sampling, "cpu_count", lambda: n_threads)
    blocks: list[Any] = []

    def noted(law: Any, scale: float, words: Any) -> Any:
        blocks.append(words)
        return _rounded_block(law, scale, words)

    monkeypatch.setattr(sampling, "_rounded_block", noted)
    size = sampling.FEW_CHUNKS * sampling.CHUNK + 5
    draws = rounded_noise(GAUSSIAN, 2.0**30, size)
    assert len(blocks) == sampling.FEW_CHUNKS + 1
    words = np.concatenate(blocks)
    assert len(words) == len(np.unique(words)) == size
    assert kstest(draws / 2.0**30, "norm").pvalue > 1e-7


def test_an_error_in_a_thread_is_an_error_of_the_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(sampling, "cpu_count", lambda: 2)
    monkeypatch.setattr(sampling, "_rounded_block", broken)
    with pytest.raises(MemoryError):
        rounded_noise(GAUSSIAN, 2.0**30, sampling.FEW_CHUNKS * sampling.CHUNK)


EXACT = mpmath.MPContext()
EXACT.dps = 80
TOP = 2**63
OFFSETS = sorted(s * d for d in (0, 1, 2, 3, 17, 300, 2**11, 2**17, 2**24, 2**32) for s in (-1, 1))
SURVIVAL: dict[str, Callable[[Any], Any]] = {
    "laplace": lambda x: EXACT.exp(-x),
    "gaussian": lambda x: EXACT.erfc(x / EXACT.sqrt(2)),
}
BY_NAME: dict[str, Law] = {"laplace": LAPLACE, "gaussian": GAUSSIAN}


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


@pytest.mark.parametrize("law", BY_NAME)
@pytest.mark.parametrize("scale", SCALES)
def test_words_next_to_an_edge(law: str, scale: float, monkeypatch: pytest.MonkeyPatch) -> None:
    bits = words_near_edges(law, scale)
    words = np.array([2 * b + 1 for b in bits], dtype=np.uint64)
    monkeypatch.setattr(sampling, "_decide", lambda *_: np.nan)  # asked for further bits
    with drawing_from(lambda count: words[:count]):
        draws = rounded_noise(BY_NAME[law], scale, len(bits))
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
    times = rng.integers(1, 2 ** (1 + int(spread) % 3 * 15), 40)
    pairs = zip(exponents.tolist(), times.tolist(), strict=True)
    shares = [EXACT.exp(EXACT.mpf(e)) * n for e, n in pairs]
    edges = [EXACT.fsum(shares[: i + 1]) / EXACT.fsum(shares) for i in range(40)]
    asked: list[int] = []
    monkeypatch.setattr(sampling, "_choose_exactly", lambda e, t, bits: asked.append(bits) or 0)
    decided = 0
    for bits in {int(EXACT.floor(edge * TOP)) + o for edge in edges for o in OFFSETS}:
        if 0 <= bits < TOP:
            words = iter([2 * bits])
            with drawing_from(lambda n, words=words: np.full(n, next(words, 0), np.uint64)):
                choice = int(np.searchsorted(np.cumsum(times), choose(exponents, times), "right"))
            if asked:
                assert asked.pop() == bits  # all that was drawn before
            else:
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
            uniform.tolist(), BY_NAME[law].inverse_survival(uniform).tolist(), strict=True
        ):
            true = inverse(law, EXACT.mpf(u))
            assert abs(true - x) <= allowed / 2 * true


@pytest.mark.parametrize("scale", [0.2, 1.0, 30.0])
def test_both_ways_of_a_discrete_law_are_one(scale: float) -> None:
    """What doubles draw, and what decides where they leave doubt, by the sum of the law."""
    law, ratio = discrete_laplace(scale), EXACT.exp(-1 / EXACT.mpf(scale))
    for m in range(1, 40):
        tail = 2 * ratio**m / (1 + ratio)  # of |k| >= m
        assert abs(law.survival(EXACT.mpf(m - 0.5) / scale) / tail - 1) < 1e-15
        at = law.inverse_survival(np.array([float(tail)]))[0]
        assert at * scale == pytest.approx(m - 0.5, rel=1e-9)


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


def test_cells_decided_in_many_digits_are_those_of_any_further_bits() -> None:
    """At so large a scale that 127 bits leave one draw in a few in doubt."""
    rng, scale, decided = np.random.default_rng(0), 2.0**119, 0
    exact = mpmath.MPContext()
    exact.prec = 127 + 192
    for _ in range(300):
        bits = [(int(a) << 64) | int(b) for a, b in rng.integers(1, TOP, (4, 2))]
        cells = sampling._sphere_cells(exact, scale, bits, 127)
        if cells is None:
            continue
        decided += 1
        for end in (0, 2**63 - 1):
            longer = [(b << 63) | end for b in bits]
            assert exact_cells(scale, longer, 190) == [float(k) for k in cells]
    assert 20 < decided < 290
