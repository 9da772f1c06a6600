import copy
import math
import pickle

import pytest

from sfumato.exceptions import (
    BudgetExceededError,
    InvalidInputError,
    LedgerError,
)
from sfumato.ledger.ledger import Ledger
from sfumato.privacy.events import (
    PureEvent,
    RepeatedEvent,
)
from tests.privacy.events import EVERY_KIND


@pytest.fixture
def path(tmp_path):
    return tmp_path / "budget.db"


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilon": 0.0},
        {"epsilon": -1.0},
        {"epsilon": math.inf},
        {"epsilon": math.nan},
        {"epsilon": "much"},
        {"epsilon": None},
        {"epsilon": 1.0, "delta": 1.0},
        {"epsilon": 1.0, "delta": -1e-9},
        {"epsilon": 1.0, "delta": math.nan},
        {"epsilon": 1.0, "unit": "family"},
        {"epsilon": 1.0, "relation": "swap"},
    ],
)
def test_a_budget_that_makes_no_sense_is_refused_before_the_file_is_made(path, wrong):
    with pytest.raises(InvalidInputError):
        Ledger(path).create("rows", **wrong)
    assert not path.exists()


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "a\0b", "\ud800", None, 3])
def test_a_name_must_be_readable(name):
    with pytest.raises(InvalidInputError, match="'name'"):
        Ledger().create(name, epsilon=1.0)


def test_a_budget_is_set_once(path):
    ledger = Ledger(path)
    ledger.create("rows", epsilon=1.0)
    with pytest.raises(InvalidInputError, match="never changed"):
        Ledger(path).create("rows", epsilon=2.0)
    assert ledger.dataset("rows").total.epsilon == 1.0


def test_an_unknown_dataset_names_the_known_ones():
    ledger = Ledger()
    ledger.create("patients", epsilon=1.0)
    with pytest.raises(InvalidInputError, match=r"'patient'.*'patients'"):
        ledger.dataset("patient")


@pytest.mark.parametrize("timeout", [-1, math.inf, math.nan])
def test_a_timeout_is_finite(timeout):
    with pytest.raises(InvalidInputError, match="'timeout'"):
        Ledger(timeout=timeout)


def test_everything_is_there_after_reopening(path):
    budget = Ledger(path).create("pa'ti%ents ü", epsilon=3.3, delta=1e-5, unit="entry")
    budget.charge(*EVERY_KIND, unit="entry")
    again = Ledger(str(path)).dataset("pa'ti%ents ü")
    assert again.events() == EVERY_KIND
    assert again.total == budget.total
    assert (again.total.epsilon, again.total.delta, again.total.unit) == (3.3, 1e-5, "entry")
    assert again.statement() == budget.statement()
    assert again.statement().charges == len(EVERY_KIND)


def test_numpy_figures_are_written_as_numbers(path):
    np = pytest.importorskip("numpy")
    budget = Ledger(path).create("rows", epsilon=np.float64(1.0))
    budget.charge(RepeatedEvent(PureEvent(np.float64(0.1)), np.int64(3)))
    assert Ledger(path).dataset("rows").events() == (RepeatedEvent(PureEvent(0.1), 3),)


def test_budgets_do_not_touch_each_other(path):
    ledger = Ledger(path)
    first, second = ledger.create("a", epsilon=1.0), ledger.create("b", epsilon=2.0)
    first.charge(PureEvent(1.0))
    assert (second.spent(), ledger.datasets()) == (0.0, ["a", "b"])
    second.charge(PureEvent(2.0))
    assert ledger.verify().heads == {"a": first.head(), "b": second.head()}


def test_two_ledgers_on_one_file_see_each_other(path):
    one = Ledger(path).create("rows", epsilon=1.0)
    two = Ledger(path).dataset("rows")
    for handle in (one, two, one, two):
        handle.charge(PureEvent(0.25))
    for handle in (one, two):
        with pytest.raises(BudgetExceededError):
            handle.charge(PureEvent(0.01))
    assert one.head() == two.head()


def test_no_event_no_line():
    budget = Ledger().create("rows", epsilon=1.0)
    assert budget.charge().events == ()
    assert budget.statement().charges == 0


def test_reading_makes_no_file(path):
    with pytest.raises(LedgerError, match="no ledger"):
        Ledger(path).datasets()
    assert not path.exists()


def test_the_handle_is_not_a_value(path, monkeypatch):
    ledger = Ledger(path, timeout=7)
    budget = ledger.create("rows", epsilon=1.0)
    monkeypatch.chdir("/")  # a relative path must not move with the worker
    assert copy.copy(budget) is copy.deepcopy(budget) is budget
    assert copy.deepcopy(ledger) is copy.copy(ledger) is ledger
    sent = pickle.loads(pickle.dumps(budget))
    assert sent == budget == pickle.loads(pickle.dumps(ledger)).dataset("rows")
    assert hash(sent) == hash(budget)
    assert sent != ledger.create("other", epsilon=1.0)
    assert budget != "rows"
    sent.charge(PureEvent(0.5))
    assert budget.spent() == 0.5
    assert repr(sent) == repr(budget) == f"Ledger({str(path)!r}).dataset('rows')"
    assert eval(repr(budget)) == budget


def test_a_ledger_in_memory_is_shared_by_copies_and_never_leaves_the_process(in_child):
    ledger = Ledger()
    budget = ledger.create("rows", epsilon=1.0)
    assert copy.deepcopy(budget) is budget
    for thing in (ledger, budget):
        with pytest.raises(LedgerError, match="Use a file"):
            pickle.dumps(thing)
    assert "Use a file" in in_child(lambda: budget.charge(PureEvent(0.1)))
    assert budget.events() == ()
    assert Ledger().create("rows", epsilon=1.0) != budget
    assert repr(budget) == "Ledger().dataset('rows')"
