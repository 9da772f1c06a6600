import contextlib
import math
import pickle

import pytest
from dp_accounting import dp_event
from dp_accounting.pld import PLDAccountant
from hypothesis import given, settings, strategies as st
from scipy.stats import norm

from sfumato.exceptions import (
    BudgetExceededError,
    InvalidInputError,
    UnsupportedEventError,
    UnsupportedModeError,
)
from sfumato.ledger.ledger import Ledger
from sfumato.privacy.events import (
    Event,
    GaussianEvent,
    LaplaceEvent,
    NonPrivateEvent,
    PureEvent,
)
from sfumato.privacy.gaussian import mu_from_budget
from tests.privacy.events import EVERY_KIND


@pytest.fixture
def path(tmp_path):
    return tmp_path / "budget.db"


def test_a_tenth_and_nine_tenths_spend_exactly_one(path):
    budget = Ledger(path).create("rows", epsilon=1.0)
    budget.charge(PureEvent(0.1))
    assert budget.left() == 0.9
    budget.charge(PureEvent(0.9))
    assert (budget.spent(), budget.left()) == (1.0, 0.0)
    with pytest.raises(BudgetExceededError):
        budget.charge(PureEvent(1e-9))


def test_ten_tenths_fit_and_no_eleventh(path):
    budget = Ledger(path).create("rows", epsilon=1.0)
    for _ in range(10):
        budget.charge(PureEvent(0.1))
    assert budget.spent() == 1.0  # ten binary tenths, added one by one, give 0.9999999999999999
    with pytest.raises(BudgetExceededError):
        budget.charge(PureEvent(0.1))


def test_gaussian_releases_are_composed_by_the_closed_form():
    budget = Ledger().create("rows", epsilon=2.0, delta=1e-5)
    for multiplier in (6.0, 8.0, 7.0):
        budget.charge(GaussianEvent(multiplier))
    epsilon = budget.spent()
    mu = math.sqrt(1 / 36 + 1 / 64 + 1 / 49)
    delta = norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
    assert delta == pytest.approx(1e-5, rel=1e-6)


def test_a_mixture_is_composed_by_its_loss_distribution_not_added():
    budget = Ledger().create("rows", epsilon=8.0, delta=1e-6)
    accountant = PLDAccountant()
    for _ in range(8):
        budget.charge(GaussianEvent(5.0), LaplaceEvent(0.2))
        accountant.compose(dp_event.GaussianDpEvent(5.0))
        accountant.compose(dp_event.LaplaceDpEvent(5.0))
    assert budget.spent() == pytest.approx(accountant.get_epsilon(1e-6), rel=1e-3)
    alone = Ledger().create("rows", epsilon=8.0, delta=1e-6)
    alone.charge(GaussianEvent(5.0))
    assert budget.spent() < 0.6 * 8 * (alone.spent() + 0.2)


def test_tight_composition_admits_what_addition_would_refuse():
    one = Ledger().create("rows", epsilon=99.0, delta=1e-5)
    one.charge(GaussianEvent(8.0))
    budget = Ledger().create("rows", epsilon=4 * one.spent(), delta=1e-5)
    for _ in range(10):
        budget.charge(GaussianEvent(8.0))
    with pytest.raises(BudgetExceededError):
        budget.charge(GaussianEvent(0.5))


@settings(max_examples=40, deadline=None)
@given(
    limit=st.integers(1, 60),
    wishes=st.lists(
        st.tuples(
            st.sampled_from(["a", "b"]), st.lists(st.integers(1, 30), min_size=1, max_size=3)
        ),
        max_size=25,
    ),
)
def test_no_interleaving_of_two_handles_passes_the_budget(limit, wishes):
    """Epsilons in hundredths, so that integers are the oracle; two handles take turns."""
    ledger = Ledger()
    first = ledger.create("rows", epsilon=limit / 100)
    handles = {"a": first, "b": ledger.dataset("rows")}
    paid, lines = 0, 0
    for who, hundredths in wishes:
        events = [PureEvent(h / 100) for h in hundredths]
        if paid + sum(hundredths) <= limit:
            handles[who].charge(*events)
            paid, lines = paid + sum(hundredths), lines + len(events)
        else:
            with pytest.raises(BudgetExceededError):
                handles[who].charge(*events)
    assert first.spent() == paid / 100 <= limit / 100
    assert ledger.verify().charges == lines


@settings(max_examples=15, deadline=None)
@given(st.lists(st.sampled_from(EVERY_KIND), min_size=1, max_size=6), st.floats(0.05, 1.0))
def test_whatever_was_admitted_stays_within_the_budget(events, limit):
    budget = Ledger().create("rows", epsilon=limit, delta=1e-5)
    for event in events:
        with contextlib.suppress(BudgetExceededError):
            budget.charge(event)
    assert budget.spent() <= limit


def test_what_is_left_fits_and_not_a_hair_more():
    for spent in (0.1, 0.3, 1 / 3, 0.7123456789012345):
        budget = Ledger().create("rows", epsilon=1.0)
        budget.charge(PureEvent(spent))
        left = budget.left()
        with pytest.raises(BudgetExceededError):
            budget.charge(PureEvent(left * (1 + 1e-14)))
        budget.charge(PureEvent(left))
        assert budget.spent() <= 1.0


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from(EVERY_KIND), max_size=4), st.floats(1e-9, 1e-3))
def test_with_a_delta_what_is_left_fits_up_to_rounding(events, delta):
    budget = Ledger().create("rows", epsilon=2.0, delta=delta)
    with contextlib.suppress(BudgetExceededError):
        budget.charge(*events)
    budget.charge(PureEvent(budget.left() - 5e-4))
    assert budget.spent() <= 2.0


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 2.0, 3.0, 8.0])
@pytest.mark.parametrize("delta", [1e-4, 1e-5, 1e-6, 1e-9])
def test_a_release_calibrated_to_the_whole_budget_fits(epsilon, delta):
    multiplier = 1 / mu_from_budget(epsilon, delta)
    Ledger().create("rows", epsilon=epsilon, delta=delta).charge(GaussianEvent(multiplier))
    halves = GaussianEvent(multiplier * math.sqrt(2))
    Ledger().create("rows", epsilon=epsilon, delta=delta).charge(halves, halves)


def test_the_refusal_says_spent_asked_left_and_survives_pickling():
    budget = Ledger().create("rows", epsilon=1.0)
    budget.charge(PureEvent(0.75))
    with pytest.raises(BudgetExceededError, match=r"spent 0.75 .*asked 0.5, left 0.25") as caught:
        budget.charge(PureEvent(0.5))
    for error in (caught.value, pickle.loads(pickle.dumps(caught.value))):
        assert (error.spent, error.asked, error.left) == (0.75, 0.5, 0.25)


def test_a_refused_charge_leaves_no_line_and_a_smaller_one_fits():
    ledger = Ledger()
    budget = ledger.create("rows", epsilon=1.0)
    with pytest.raises(BudgetExceededError):
        budget.charge(PureEvent(0.6), PureEvent(0.6))
    assert (budget.events(), budget.spent()) == ((), 0.0)
    budget.charge(PureEvent(0.6))


def test_a_refusal_by_a_hair_shows_the_hair():
    budget = Ledger().create("rows", epsilon=1.0)
    with pytest.raises(BudgetExceededError, match=r"would cost 1.0000000001,"):
        budget.charge(PureEvent(1.0000000001))


def test_a_non_private_release_never_fits():
    budget = Ledger().create("rows", epsilon=1e6, delta=0.5)
    with pytest.raises(BudgetExceededError, match="asked inf"):
        budget.charge(NonPrivateEvent())


def test_delta_zero_admits_pure_releases_only():
    budget = Ledger().create("rows", epsilon=5.0)
    with pytest.raises(BudgetExceededError, match="pure releases only"):
        budget.charge(GaussianEvent(100.0))
    budget.charge(PureEvent(1.0))


@pytest.mark.parametrize("words", [{"unit": "entry"}, {"relation": "add_or_remove_one"}])
def test_another_unit_or_relation_is_refused(words):
    budget = Ledger().create("rows", epsilon=1.0)
    with pytest.raises(UnsupportedModeError, match=next(iter(words.values()))):
        budget.charge(PureEvent(0.1), **words)
    budget.charge(PureEvent(0.1), unit="record", relation="replace_one")
    assert len(budget.events()) == 1


class UnheardOf(Event):
    kind = "unheard_of"


@pytest.mark.parametrize(
    ("thing", "error"),
    [(UnheardOf(), UnsupportedEventError), ("pure", InvalidInputError), (0.5, InvalidInputError)],
)
def test_what_could_not_be_read_back_is_never_written(path, thing, error):
    ledger = Ledger(path)
    budget = ledger.create("rows", epsilon=1.0)
    with pytest.raises(error):
        budget.charge(PureEvent(0.1), thing)
    assert budget.events() == ()
    assert ledger.verify().charges == 0
