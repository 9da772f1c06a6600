"""The law of the draws: against exact cell probabilities, another library, and broken variants."""

from __future__ import annotations

import os
import threading
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy.stats import chisquare, ks_2samp, kstest, laplace, norm

from sfumato.exceptions import InvalidInputError
from sfumato.mechanisms import entropy, sampling
from sfumato.mechanisms.entropy import drawing_from, is_seeded, random_words, seeded
from sfumato.mechanisms.sampling import (
    DOUBT,
    GAUSSIAN,
    LAPLACE,
    RARE,
    _rounded_block,
    bernoulli,
    choose,
    draw_ahead,
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
@pytest.mark.parametrize("factor", [2 / 3, 1.0, 3 / 2])
def test_large_scales_accept_the_law_and_reject_others(law: str, factor: float, seed: int) -> None:
    with seeded(seed):
        draws = rounded_noise(LAWS[law][0], 2.0**28, 20_000) / 2.0**28
    p_value = kstest(draws, LAWS[law][1](scale=factor).cdf).pvalue
    assert (p_value > FALSE_ALARM) == (factor == 1.0)


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


@pytest.mark.parametrize("law", LAWS)
def test_double_quantiles_are_far_better_than_the_doubt_allowed(law: str, seed: int) -> None:
    """The error that `DOUBT` must cover, measured against 60-digit arithmetic."""
    rng = np.random.default_rng(seed)
    uniform = np.concatenate([rng.uniform(RARE, 1, 300), RARE * 2.0 ** rng.uniform(0, 16, 300)])
    approximate = LAWS[law][0].inverse_survival(uniform)
    exact = mpmath.MPContext()
    exact.dps = 60
    for u, x in zip(uniform.tolist(), approximate.tolist(), strict=True):
        true = (
            -exact.log(exact.mpf(u))
            if law == "laplace"
            else exact.sqrt(2) * exact.erfinv(1 - exact.mpf(u))
        )
        assert abs(true - exact.mpf(x)) < DOUBT / 4


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


@pytest.mark.parametrize("law", LAWS)
def test_same_law_as_an_exact_sampler_of_another_library(law: str, seed: int) -> None:
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib", "idealized-numerics")
    domain = dp.vector_domain(dp.atom_domain(T=float, nan=False))
    make = {"laplace": dp.m.make_laplace, "gaussian": dp.m.make_gaussian}[law]
    metric = {"laplace": dp.l1_distance, "gaussian": dp.l2_distance}[law](T=float)
    theirs = np.array(make(domain, metric, scale=1.0)([0.0] * 4000))
    with seeded(seed):
        ours = rounded_noise(LAWS[law][0], 2.0**27, 20_000) / 2.0**27
    assert ks_2samp(theirs, ours).pvalue > FALSE_ALARM


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


@pytest.mark.parametrize("distance", ["near the edge", "rare"])
def test_spherical_doubt_is_noticed(distance: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One dimension, where b = ± scale E: words that put it on an edge, or far out."""
    scale = 2.0**36
    survival = np.exp(-(10**10 + 0.5) / scale) if distance == "near the edge" else 2.0**-30
    words = np.array([2**63, int(survival * 2.0**64)], dtype=np.uint64)
    decided = []
    monkeypatch.setattr(
        sampling, "_decide_sphere", lambda s, bits: decided.append(bits) or np.zeros(1)
    )
    with drawing_from(lambda count: words[:count]):
        rounded_spherical_noise(scale, 1)
    assert len(decided) == 1


def test_a_choice_on_an_edge_is_made_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = []
    monkeypatch.setattr(sampling, "_choose_exactly", lambda e, bits: chosen.append(bits) or 0)
    with drawing_from(lambda count: np.full(count, 2**63, dtype=np.uint64)):
        choose(np.zeros(2))  # the edge between the two lies at one half
    assert len(chosen) == 1
    with drawing_from(lambda count: np.full(count, 2**62, dtype=np.uint64)):
        assert choose(np.zeros(2)) == 0
    assert len(chosen) == 1


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
    exponents = np.array([-2.0, 0.0, -1.0, -800.0])
    shares = np.exp(exponents[:3]) / np.exp(exponents[:3]).sum()
    with seeded(seed):
        counts = np.bincount([choose(exponents) for _ in range(5000)], minlength=4)
        assert counts[3] == 0
        assert chisquare(counts[:3], shares * 5000).pvalue > FALSE_ALARM
        fast = [choose(exponents) for _ in range(1)]
    assert fast
    with seeded(seed):
        exact = np.bincount(
            [sampling._choose_exactly(exponents, int(w) >> 1) for w in random_words(800)],
            minlength=4,
        )
    assert chisquare(exact[:3], shares * 800).pvalue > FALSE_ALARM


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


SIZE = 2**13
ORDER = (GAUSSIAN, 2.0**30, SIZE)


def test_noise_drawn_ahead_is_handed_out_once_and_has_the_law(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Four releases are ordered and five made: the last draws for itself; so does a child.

    The standard deviation of 5 x 2**13 draws is off by 3 % with a chance below 1e-15.
    """
    monkeypatch.setattr(sampling, "AHEAD_BYTES", 2 * 8 * SIZE)  # two of them wait
    before = threading.active_count()
    with drawing_from(entropy._system_words), draw_ahead([ORDER] * 4):
        ahead: Any = sampling._ahead.get()
        assert [len(each) for each in ahead.drawn.values()] == [2]
        assert ahead.take((LAPLACE, 2.0**30, SIZE)) is None
        with seeded(0):
            assert ahead.take(ORDER) is None
        child = os.fork()
        if child == 0:
            os._exit(0 if ahead.take(ORDER) is None else 1)
        assert os.waitpid(child, 0)[1] == 0
        found = [rounded_noise(*ORDER) for _ in range(5)]
        assert ahead.take(ORDER) is None
    assert sampling._ahead.get() is None
    assert threading.active_count() == before
    joined = np.concatenate(found)
    assert len(np.unique(joined)) > 0.99 * joined.size
    assert abs(np.std(joined) / 2.0**30 - 1) < 0.03


def test_seeded_noise_is_drawn_in_its_order() -> None:
    with seeded(5):
        expected = [rounded_noise(*ORDER) for _ in range(2)]
    with seeded(5), draw_ahead([ORDER] * 2):
        np.testing.assert_array_equal([rounded_noise(*ORDER) for _ in range(2)], expected)
