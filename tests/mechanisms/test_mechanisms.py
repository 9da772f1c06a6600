"""Every mechanism: its law, its support, its charge; functions, minimisers and forks."""

from __future__ import annotations

import dataclasses
import itertools
import math
import os
from fractions import Fraction
from typing import Any

import array_api_strict
import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.stats import chi, kstest

from sfumato.audit.testing.contracts import uniform_scores
from sfumato.exceptions import (
    InvalidInputError,
    InvalidTypeError,
    LedgerError,
    UnsupportedModeError,
)
from sfumato.ledger.ledger import Ledger
from sfumato.ledger.receipt import Receipt, prepay
from sfumato.mechanisms import (
    EntryMechanism,
    ExponentialMechanism,
    GaussianMechanism,
    GaussianProcessMechanism,
    LaplaceMechanism,
    Mechanism,
    gaussian,
    objective,
)
from sfumato.mechanisms.base import Released, taped, to_grid
from sfumato.mechanisms.entropy import drawing_from, seeded
from sfumato.mechanisms.exponential import QuantileMechanism, SpanningTreeMechanism
from sfumato.mechanisms.laplace import DiscreteLaplaceMechanism
from sfumato.mechanisms.objective import (
    GaussianObjectiveMechanism,
    farthest_minimiser,
    near_minimiser,
    norm_quantile,
)
from sfumato.mechanisms.sampling import rounded_noise
from sfumato.papers.functions.printed import printed_mechanism
from sfumato.privacy.composition import epsilon_spent
from sfumato.privacy.events import GaussianEvent, NonPrivateEvent, ObjectivePerturbationEvent
from sfumato.privacy.guarantee import Status

FALSE_ALARM = 1e-6

ADDITIVE: dict[str, tuple[Mechanism, tuple[int, ...]]] = {
    "gaussian": (GaussianMechanism.calibrate(sensitivity=2.0, epsilon=0.7, delta=1e-6), (60, 50)),
    "laplace": (LaplaceMechanism(sensitivity=3.0, epsilon=0.2), (3000,)),
    "entry": (EntryMechanism(entry_bound=0.5, epsilon=2.0), (300, 10)),
}
OTHERS: dict[str, tuple[Mechanism, Any]] = {
    "exponential": (ExponentialMechanism(sensitivity=1.0, epsilon=1.0), [0.0, 1.0])
}
ALL = {name: (m, np.zeros(shape)) for name, (m, shape) in ADDITIVE.items()} | OTHERS


@pytest.mark.parametrize("name", ADDITIVE)
def test_noise_has_the_stated_scale_and_no_other(name: str, seed: int) -> None:
    mechanism, shape = ADDITIVE[name]
    value = np.random.default_rng(seed).normal(size=shape) * 10
    with seeded(seed), taped() as tape:
        mechanism.release(value, ledger=None)
    for factor in (2 / 3, 1.0, 3 / 2):
        p_value = kstest(uniform_scores(tape.releases[0], factor), "uniform").pvalue
        assert (p_value > FALSE_ALARM) == (factor == 1.0), (factor, p_value)


@pytest.mark.parametrize("name", ADDITIVE)
def test_variance_is_the_one_stated(name: str, seed: int) -> None:
    mechanism, shape = ADDITIVE[name]
    with seeded(seed):
        draws = np.array([mechanism.release(np.zeros(shape), ledger=None) for _ in range(4)])
    n = draws.size
    assert draws.var() == pytest.approx(mechanism.variance(), rel=6 * math.sqrt(5 / n) + 3e-3)
    assert abs(draws.mean()) < 6 * math.sqrt(mechanism.variance() / n)


@pytest.mark.parametrize("name", ALL)
def test_the_ledger_is_charged_before_the_draw(name: str) -> None:
    mechanism, value = ALL[name]
    receipt = prepay(None, mechanism.event())
    mechanism.release(value, ledger=receipt)
    with seeded(0), pytest.raises(LedgerError, match="does not cover"):
        mechanism.release(value, ledger=receipt)  # paid once, drawn once
    with pytest.raises(LedgerError):
        mechanism.release(value, ledger=Receipt([GaussianEvent(123.0)]))
    with pytest.raises(InvalidInputError, match="'ledger'"):
        mechanism.release(value, ledger=3)  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ADDITIVE)
def test_released_numbers_lie_on_a_grid_that_does_not_depend_on_the_data(name: str) -> None:
    mechanism, shape = ADDITIVE[name]
    rng = np.random.default_rng(0)
    steps = set()
    for offset in (0.0, 1 / 3, 1e-9, math.pi * 1e3, -1e5):
        out = mechanism.release(offset + rng.normal(size=shape), ledger=None)
        # the finest power of two of which all outputs are multiples: the grid's step
        steps.add(_finest_step(out.ravel()))
    (step,) = steps
    assert step >= math.sqrt(mechanism.variance()) * 2.0**-33


def _finest_step(values: np.ndarray) -> float:
    return min(2.0 ** (math.frexp(abs(v))[1] - 53 + _trailing_zeros(v)) for v in values if v)


@pytest.mark.parametrize("name", ["gaussian", "symmetric", "laplace"])
def test_no_number_of_noise_stands_twice(name: str) -> None:
    """Neither in a release nor in two: neither equal, nor correlated at any distance.

    A correlation of n numbers beyond 7/√n is one of 10^11, and there are 8000 of them.
    """
    mechanism = ADDITIVE["laplace" if name == "laplace" else "gaussian"][0]
    if name == "symmetric":
        corner = np.triu_indices(60)
        pair = [
            mechanism.release_symmetric(np.zeros((60, 60)), ledger=None)[corner] for _ in range(2)
        ]
    else:
        pair = [mechanism.release(np.zeros(2000), ledger=None) for _ in range(2)]
    noise = np.concatenate(pair)
    assert len(np.unique(np.abs(noise))) > len(noise) - 3
    spectrum = np.abs(np.fft.rfft(noise, 2 * len(noise))) ** 2
    correlations = np.fft.irfft(spectrum)[: len(noise)] / np.sum(noise**2)
    assert np.abs(correlations[1:]).max() < 7 / math.sqrt(len(noise))


def _trailing_zeros(value: float) -> int:
    mantissa = int(math.ldexp(math.frexp(abs(value))[0], 53))
    return (mantissa & -mantissa).bit_length() - 1


@given(st.floats(-1e300, 1e300), st.integers(-60, 40))
def test_rounding_to_the_grid_is_exact(value: float, exponent: int) -> None:
    step = 2.0**exponent
    rounded = float(to_grid(np.array([value]), step)[0])
    assert Fraction(rounded) % Fraction(step) == 0
    assert abs(Fraction(rounded) - Fraction(value)) <= Fraction(step) / 2


def test_symmetric_noise_is_frobenius_isotropic(seed: int) -> None:
    mechanism = GaussianMechanism.calibrate(sensitivity=1.0, epsilon=1.0, delta=1e-5)
    with seeded(seed):
        draws = mechanism.release_symmetric(np.zeros((6000, 4, 4)), ledger=None)
    np.testing.assert_array_equal(draws, np.swapaxes(draws, 1, 2))
    diagonal = draws[:, np.arange(4), np.arange(4)].ravel()
    rows, columns = np.triu_indices(4, 1)
    above = draws[:, rows, columns].ravel()
    # the noise is enlarged for the rounding of all 96,000 coordinates: 3e-6
    assert diagonal.var() == pytest.approx(
        mechanism.variance(), rel=6 * math.sqrt(2 / diagonal.size)
    )
    assert above.var() == pytest.approx(mechanism.variance() / 2, rel=6 * math.sqrt(2 / above.size))
    upper = draws[:, rows, columns]
    correlation = np.corrcoef(upper.T) - np.eye(rows.size)
    assert np.abs(correlation).max() < 6 / math.sqrt(6000)
    with pytest.raises(InvalidInputError, match="square"):
        mechanism.release_symmetric(np.zeros((2, 3)), ledger=None)


def test_blocks_of_rows_change_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    value, found = np.arange(2 * 49.0).reshape(2, 7, 7), []
    for rows in (3, 128):
        monkeypatch.setattr(gaussian, "ROWS_AT_ONCE", rows)
        with seeded(0):
            found.append(GaussianMechanism(1.0, 0.3).release_symmetric(value, ledger=None))
    np.testing.assert_array_equal(*found)
    np.testing.assert_array_equal(found[0], np.swapaxes(found[0], 1, 2))


@pytest.mark.parametrize("width", [1, 2, 37])
def test_a_matrix_of_another_library_gets_the_same_numbers_there(width: int, seed: int) -> None:
    mechanism = GaussianMechanism(1.0, 0.3)
    value = np.random.default_rng(seed).normal(size=(width, width)) * 100
    value[0, 0] = -0.0
    with seeded(seed):
        expected = mechanism.release_symmetric(value, ledger=None)
    with seeded(seed):
        found = mechanism.release_symmetric(array_api_strict.asarray(value), ledger=None)
    assert isinstance(found, type(array_api_strict.asarray(value)))
    assert np.asarray(found).tobytes() == expected.tobytes()


@pytest.mark.parametrize("value", [np.full((3, 3), np.nan), np.zeros((2, 3, 3)), np.zeros((2, 3))])
def test_what_cannot_be_released_there_is_refused(value: np.ndarray) -> None:
    with pytest.raises(InvalidInputError):
        GaussianMechanism(1.0, 0.3).release_symmetric(array_api_strict.asarray(value), ledger=None)


def test_scores_are_enlarged_and_kept_in_range(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sfumato.mechanisms.exponential.choose", lambda exponents, _: exponents)
    exponents: Any = ExponentialMechanism(1.0, 2.0).chosen(np.array([0.0, -1.0, -1e12]))
    assert exponents[1] == pytest.approx(-1.0, rel=1e-6)
    assert exponents[1] / (1 - 2.0**-30) > -1.0 / (1 + 2**-27) - 1e-15
    assert exponents[1] > -1.0
    assert exponents[2] >= -(2.0**20)


def test_zero_has_one_sign() -> None:
    """Negative zero would tell that a tiny statistic was negative."""
    for value, word in itertools.product((-1e-30, 1e-30, 0.0, -0.0), (2**64 - 1, 2**64 - 2)):
        for mechanism in (GaussianMechanism(1.0, 4.0), LaplaceMechanism(1.0, 1.0)):
            with drawing_from(lambda count, word=word: np.full(count, word, dtype=np.uint64)):
                out = mechanism.release([value], ledger=None)
            assert out[0] == 0.0
            assert not np.signbit(out[0])


@pytest.mark.parametrize("name", ["release", "release_symmetric"])
@pytest.mark.parametrize("kind", ALL)
def test_no_release_draws_before_it_is_paid_for(kind: str, name: str) -> None:
    mechanism, value = ALL[kind]
    if not hasattr(mechanism, name):
        return
    value = np.zeros((3, 3)) if name == "release_symmetric" else value

    def no_words(count: int) -> np.ndarray:
        raise AssertionError("drawn")

    with drawing_from(no_words), pytest.raises(LedgerError):
        getattr(mechanism, name)(value, ledger=Receipt([]))
    receipt = Receipt([mechanism.event()])
    with drawing_from(no_words), pytest.raises(AssertionError, match="drawn"):
        getattr(mechanism, name)(value, ledger=receipt)
    assert receipt.unused() == ()


def test_mechanisms_of_one_unit_refuse_budgets_of_another() -> None:
    ledger = Ledger()
    records = ledger.create("records", epsilon=5.0, delta=0.0)
    added = ledger.create("added", epsilon=5.0, relation="add_or_remove_one", delta=0.0)
    entries = ledger.create("entries", epsilon=5.0, unit="entry", delta=0.0)
    with pytest.raises(UnsupportedModeError):
        ADDITIVE["entry"][0].release(np.zeros((2, 2)), ledger=records)  # type: ignore[attr-defined]
    with pytest.raises(UnsupportedModeError):
        ADDITIVE["entry"][0].release(np.zeros((2, 2)), ledger=added)  # type: ignore[attr-defined]
    ADDITIVE["entry"][0].release(np.zeros((2, 2)), ledger=entries)  # type: ignore[attr-defined]
    assert entries.spent() == 2.0
    assert records.spent() == added.spent() == 0.0


def test_entry_noise_has_its_atom(seed: int) -> None:
    mechanism = EntryMechanism(entry_bound=1.0, epsilon=0.5, delta=0.05)
    table = np.full((1000, 100), 0.25)
    with seeded(seed):
        noise = mechanism.release(table, ledger=None) - table
    assert abs((noise == 0).sum() - 5000) < 350
    assert np.abs(noise).mean() == pytest.approx(0.95 / 0.5, rel=0.03)


# Ends of the range -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
def test_infinite_epsilon_adds_nothing_and_says_so(name: str) -> None:
    mechanism, value = ALL[name]
    changes = (
        {"noise_multiplier": 0.0}
        if isinstance(mechanism, GaussianMechanism)
        else {"epsilon": math.inf}
    )
    silent = dataclasses.replace(mechanism, **changes)  # type: ignore[type-var]
    assert silent.event() == NonPrivateEvent()
    expected = 1 if name == "exponential" else value
    np.testing.assert_array_equal(silent.release(value, ledger=None), expected)
    assert GaussianMechanism.calibrate(sensitivity=1, epsilon=math.inf, delta=0.1).variance() == 0


def test_extreme_statistics_and_scales() -> None:
    mechanism = LaplaceMechanism(sensitivity=1.0, epsilon=1.0)
    huge = mechanism.release([1e300, -1e300, 0.0, 5e-324], ledger=None)
    assert huge[:2].tolist() == [1e300, -1e300]
    assert np.isfinite(huge).all()
    assert mechanism.release(np.zeros((0, 3)), ledger=None).shape == (0, 3)
    assert mechanism.release(3.0, ledger=None).shape == ()
    for scale in (1e-290, 1e290):
        with pytest.raises(InvalidInputError, match="rescale"):
            LaplaceMechanism(sensitivity=scale, epsilon=1.0).release([0.0], ledger=None)
    for value in (math.nan, math.inf):
        with pytest.raises(InvalidInputError, match="finite"):
            mechanism.release([value], ledger=None)


@pytest.mark.parametrize(
    "make",
    [
        lambda: GaussianMechanism.calibrate(sensitivity=0.0, epsilon=1.0, delta=1e-5),
        lambda: GaussianMechanism.calibrate(sensitivity=1.0, epsilon=0.0, delta=1e-5),
        lambda: GaussianMechanism.calibrate(sensitivity=1.0, epsilon=1.0, delta=0.0),
        lambda: GaussianMechanism.calibrate(sensitivity=1.0, epsilon=1.0, delta=1.0),
        lambda: GaussianMechanism(1.0, math.nan),
        lambda: LaplaceMechanism(sensitivity=math.inf, epsilon=1.0),
        lambda: LaplaceMechanism(sensitivity=1.0, epsilon=-1.0),
        lambda: LaplaceMechanism(sensitivity=1.0, epsilon=math.nan),
        lambda: LaplaceMechanism(sensitivity=1.0, epsilon=1.0, touched=-(2**26)),
        lambda: GaussianMechanism.from_mu(sensitivity=1.0, mu=0.0),
        lambda: LaplaceMechanism(sensitivity=1.0, epsilon="1"),  # type: ignore[arg-type]
        lambda: EntryMechanism(entry_bound=0.0, epsilon=1.0),
        lambda: EntryMechanism(entry_bound=math.inf, epsilon=1.0),
        lambda: EntryMechanism(entry_bound=1.0, epsilon=1.0, delta=1.0),
        lambda: EntryMechanism(entry_bound=1.0, epsilon=1.0, rounding=-1.0),
    ],
)
def test_bad_parameters_are_refused(make: Any) -> None:
    with pytest.raises((InvalidInputError, InvalidTypeError)):
        make()


@pytest.mark.parametrize(
    ("mechanism", "size"),
    [
        (LaplaceMechanism(1.0, 1e-9), 10**4),
        (LaplaceMechanism(1e-300, 1.0), 1),
        (LaplaceMechanism(1.0, 1e300), 1),
        (GaussianMechanism(1.0, 1e13), 10**4),
        (GaussianMechanism(1e-300, 1.0), 1),
    ],
)
def test_noise_that_cannot_be_drawn_is_refused_before_the_charge(
    mechanism: Any, size: int, tmp_path: Any
) -> None:
    budget = Ledger(tmp_path / "ledger.db").create("rows", epsilon=10.0, delta=1e-5)
    with pytest.raises(InvalidInputError, match="drawn"):
        mechanism.release(np.zeros(size), ledger=budget)
    assert budget.events() == ()


@pytest.mark.parametrize("name", ["gaussian", "laplace", "entry"])
def test_what_is_released_has_one_order_of_memory(name: str) -> None:
    """One odd cell can change that of a table of rows, and a model keeps what is released."""
    mechanism: Any = ADDITIVE[name][0]
    for value in (np.zeros((3, 4)), np.zeros((3, 4), order="F"), np.zeros((4, 3)).T):
        assert mechanism.release(value, ledger=None).flags.c_contiguous
    if name == "gaussian":
        stack = np.zeros((2, 3, 3), order="F")
        assert mechanism.release_symmetric(stack, ledger=None).flags.c_contiguous


@pytest.mark.parametrize("touched", [1, 2**10, 2**25])
def test_rounding_to_the_grid_costs_little(touched: int) -> None:
    grid = LaplaceMechanism(sensitivity=2.0, epsilon=0.5, touched=touched).grid(2**26)
    assert grid is not None
    assert 4.0 < grid[1] < 4.0 * (1 + 2.0**-6)


@pytest.mark.parametrize("epsilon", [0.1, 0.3, 0.7, 1.1, 3.0])
@pytest.mark.parametrize("sensitivity", [0.1, 1 / 3, 1.0, 7.7])
def test_scales_are_rounded_up(epsilon: float, sensitivity: float) -> None:
    """The noise drawn is never, not by one rounding, below that of the theorem."""
    for size in (1, 3, 1000):
        step, scale = LaplaceMechanism(sensitivity, epsilon).grid(size)
        exact = Fraction(sensitivity) + Fraction(step) * size
        assert Fraction(scale) * Fraction(epsilon) > exact
        assert Fraction(scale) * Fraction(epsilon) < exact * (1 + Fraction(1, 2**49))
    step, scale = EntryMechanism(sensitivity, epsilon, rounding=0.5).grid(1)
    assert Fraction(scale) * Fraction(epsilon) > Fraction(sensitivity) + Fraction(step + 0.5)
    for size in (1, 3):
        spread = math.sqrt(size)
        step, scale = GaussianMechanism(sensitivity, epsilon).grid(size)
        enlarged = (Fraction(sensitivity) + Fraction(step) * Fraction(spread)) * Fraction(epsilon)
        assert Fraction(scale) > enlarged
        assert Fraction(scale / math.sqrt(2)) ** 2 * 2 > enlarged**2  # entries off the diagonal


def test_wrong_shapes_are_refused() -> None:
    for scores in ([], [[1.0]]):
        with pytest.raises(InvalidInputError, match="Scores"):
            OTHERS["exponential"][0].release(scores, ledger=None)  # type: ignore[attr-defined]


def test_a_playing_tape_repeats_outputs_and_marks_guarantees() -> None:
    mechanism = EntryMechanism(entry_bound=1.0, epsilon=1.0)
    with taped() as tape:
        first = mechanism.release([0.0], ledger=None)
    assert isinstance(tape.releases[0], Released)
    kept, first[:] = first.copy(), np.nan  # a release may be written to
    first = kept
    with taped(playback=tape):
        np.testing.assert_array_equal(mechanism.release([5.0], ledger=None), first)
        assert mechanism.guarantee(n_entries=1).status is Status.TESTING
    assert mechanism.guarantee(n_entries=1).status is Status.PROVED


def calibrate(**changes):
    budget = {"sensitivity": 1.0, "epsilon": 1.0, "delta": 1e-5} | changes
    return GaussianProcessMechanism.calibrate(**budget)


@pytest.mark.parametrize(
    ("epsilon", "delta", "ratio"),
    [(1, 0.1, 0.444), (1, 0.01, 0.577), (1, 1e-5, 0.755), (0.5, 0.1, 0.318), (0.1, 1e-5, 0.622)],
)
def test_analytic_noise_against_the_printed_one(epsilon, delta, ratio):
    analytic = calibrate(epsilon=epsilon, delta=delta)
    printed = printed_mechanism(1.0, epsilon, delta)
    assert printed.noise_multiplier == pytest.approx(math.sqrt(2 * math.log(2 / delta)) / epsilon)
    assert analytic.noise_multiplier / printed.noise_multiplier == pytest.approx(ratio, abs=1e-3)
    for mechanism in (analytic, printed):
        assert epsilon_spent([mechanism.event()], delta) <= epsilon


def test_any_epsilon_is_calibrated_and_the_printed_noise_is_refused_above_one():
    assert calibrate(epsilon=20.0).noise_multiplier < 1
    assert calibrate(epsilon=math.inf).event() == NonPrivateEvent()
    with pytest.raises(InvalidInputError, match="only for 'epsilon'"):
        printed_mechanism(1.0, 1.01, 1e-5)
    with pytest.raises(InvalidInputError, match="only for 'epsilon'"):
        printed_mechanism(1.0, math.inf, 1e-5)
    with pytest.raises(InvalidInputError, match="delta"):
        printed_mechanism(1.0, 1.0, 0.0)


class Quadratic:
    """``sum h_k (t_k - c_k)² / 2`` and a quick solver that gives what it is told to."""

    def __init__(self, h, centre, given, error=0.0):
        self.h, self.centre, self.given, self.error = h, centre, given, error
        self.shape, self.smoothness = centre.shape, float(h.max())

    def gradient(self, t):
        return self.h * (t - self.centre)

    def gradient_error(self, t):
        return self.error

    def minimise(self, linear, strong_convexity, tolerance):
        return self.given

    def radius(self, linear, strong_convexity):
        slopes = float(np.linalg.norm(self.h * self.centre))
        return (slopes + linear) / strong_convexity

    def minimiser(self, linear, lam):
        return (self.h * self.centre - linear) / (self.h + lam)


@pytest.mark.parametrize("given", [0.0, 1e9, np.nan, -np.inf], ids=str)
@pytest.mark.parametrize("steepest", [0.1, 50.0, 3000.0])
def test_a_quick_solver_that_fails_is_made_good(given, steepest, rng):
    """No error is raised, for that would tell something of the rows; the descent gets there."""
    h = np.array([steepest, steepest / 7, 0.0])
    centre, linear = rng.normal(0, 5, 3), rng.normal(0, 2, 3)
    objective = Quadratic(h, centre, np.full(3, given))
    found = near_minimiser(objective, linear, 0.7, 1e-3)
    assert np.linalg.norm(found - objective.minimiser(linear, 0.7)) <= 0.75 * 1e-3 / 0.7


def test_the_check_counts_rounding():
    """A gradient of 0.6 τ passes when it is exact, and not when it may be off by 0.3 τ."""
    tolerance, lam = 1e-2, 2.0
    h, centre = np.array([1.0]), np.array([3.0])
    for error, taken in ((0.0, True), (0.3, False)):
        objective = Quadratic(h, centre, None, error * tolerance)
        near = objective.minimiser(0.0, lam) + 0.6 * tolerance / (h + lam)
        objective.given = near
        found = near_minimiser(objective, np.zeros(1), lam, tolerance)
        assert np.array_equal(found, near) == taken
        assert abs(found - objective.minimiser(0.0, lam)) <= tolerance / lam


def test_descent_with_gradients_as_wrong_as_allowed_stays_near(rng):
    """Rounding errors of half the tolerance in every gradient: the distance still holds."""

    class Wrong(Quadratic):
        def gradient(self, t):
            off = rng.normal(size=t.shape)
            return super().gradient(t) + self.error * off / np.linalg.norm(off)

    h, centre, tolerance = np.array([40.0, 3.0, 0.0]), np.array([2.0, -1.0, 4.0]), 0.1
    objective = Wrong(h, centre, np.full(3, np.nan), error=tolerance / 2)
    found = near_minimiser(objective, np.zeros(3), 0.5, tolerance)
    assert np.linalg.norm(found - objective.minimiser(0.0, 0.5)) <= 0.75 * tolerance / 0.5


@pytest.mark.parametrize("size", [1, 10, 1000, 100_000])
def test_norms_of_noise_hardly_pass_their_quantile(size):
    """Against the laws themselves, e⁻⁶⁰ and not much further."""
    far = norm_quantile(size, 2.0)
    assert -1000 < chi(size, scale=2.0).logsf(far) < -60


def test_a_child_that_was_forked_during_a_draw_releases_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    children: list[int] = []

    def forking(*arguments: Any) -> np.ndarray:
        children.append(os.fork())
        return rounded_noise(*arguments)

    monkeypatch.setattr("sfumato.mechanisms.base.rounded_noise", forking)
    mechanism = GaussianMechanism(1.0, 2.0)
    ending = 1
    try:
        released = mechanism.release(np.zeros(3), ledger=prepay(None, mechanism.event()))
    except LedgerError:
        ending = 7
    finally:
        if children == [0]:  # the child; tests go on in the parent alone
            os._exit(ending)
    assert released.shape == (3,)
    assert os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]) == 7


def test_minimisers_lie_within_the_equations_of_their_bounds() -> None:
    convexity, linear = 0.5, 1.5
    by_slopes = farthest_minimiser(2.0, math.inf, linear, convexity)
    assert convexity * by_slopes == pytest.approx(2.0 + linear)
    r = farthest_minimiser(math.inf, 3.0, linear, convexity)
    assert convexity / 2 * r**2 - linear * r == pytest.approx(3.0)
    assert np.finfo(float).eps / 2 == objective.UNIT_ROUNDOFF


def test_the_noise_of_an_objective_is_accounted_to_the_last_term() -> None:
    made = GaussianObjectiveMechanism(2.0, 0.1, 3.0, noise_multiplier=0.001, dimension=2)
    mu = math.sqrt(made.residual / made.sensitivity) / 0.001
    assert made.event().kappa == pytest.approx(0.1 + 10 * mu + mu**2 / 2, rel=1e-12)
    assert made.residual == 2.0 * 2.0**-20
    for size in (1, 100):  # so that all coordinates together are rounded by so much
        assert made._step(size) * math.sqrt(size) <= made.residual / 4 * (1 + 1e-12)
    assert isinstance(made.event(), ObjectivePerturbationEvent)
    assert dataclasses.replace(made, noise_multiplier=0.0).event() == NonPrivateEvent()
    one = dataclasses.replace(made, noise_multiplier=1.0).event()
    assert isinstance(one, ObjectivePerturbationEvent)


def test_a_minimiser_is_not_taken_where_rounding_hides_its_gradient() -> None:
    class Steep:
        shape, smoothness, n_gradients = (1,), 1.0, 0

        def gradient(self, t: np.ndarray) -> np.ndarray:
            self.n_gradients += 1
            return np.zeros(1)

        def gradient_error(self, t: np.ndarray) -> float:
            return 0.0

        def minimise(self, linear: np.ndarray, *_: float) -> np.ndarray:
            return -linear

        def radius(self, *_: float) -> float:
            return 1e17

    for size, at_once in ((1.0, True), (1e17, False)):
        steep = Steep()
        near_minimiser(steep, np.array([size]), 1.0, 1.0)
        assert (steep.n_gradients == 1) == at_once


def test_few_candidates_are_all_chosen() -> None:
    chooser = QuantileMechanism(1.0, math.inf, 1, 1)
    assert chooser.release(np.array([[4.0, 4.0]]), ledger=None).tolist() == [[1.0]]
    pairs = ((0, 1), (1, 2))
    found = SpanningTreeMechanism.best(np.array([1.0, 2.0]), 5, pairs)
    assert found.tolist() == [[1, 2], [0, 1]]
    one = SpanningTreeMechanism(1.0, math.inf, 1, ((0, 1),), (np.zeros(1),), (0.0,))
    assert one.release(np.zeros(1), ledger=None).tolist() == [[0, 1]]


def test_whole_noise_has_the_variance_that_is_stated(seed: int) -> None:
    mechanism = DiscreteLaplaceMechanism(2.0, 0.7)
    with seeded(seed):
        draws = mechanism.release(np.zeros(20_000), ledger=None)
    assert draws.var() == pytest.approx(mechanism.variance(), rel=6 * math.sqrt(5 / 20_000))
    assert DiscreteLaplaceMechanism(1.0, 1e4).variance() == 0.0
    matrix = np.array([[1.0, 0.5], [0.5, 2.0]])
    silent = GaussianMechanism(1.0, 0.0).release_symmetric(matrix, ledger=None)
    np.testing.assert_array_equal(silent, matrix)
