"""Online releases: one answer a point for ever, one charge, nothing secret on disk."""

import copy
import json
import math
import pickle
import sqlite3

import numpy as np
import pytest
from scipy.stats import kstest

from sfumato import Bounds, Ledger
from sfumato.exceptions import BudgetExceededError, InvalidInputError, StoredModelError
from sfumato.functions import KnotFeatures, OnlineFunction, online, release_function
from sfumato.kernels import ExponentialKernel, GaussianKernel, KernelExpansion, MaternKernel
from sfumato.mechanisms import GaussianProcessMechanism
from sfumato.mechanisms.entropy import seeded

UNIT = Bounds(lower=0.0, upper=1.0)
MECHANISM = GaussianProcessMechanism.calibrate(sensitivity=0.1, epsilon=1.0, delta=1e-5)
EXACT = GaussianProcessMechanism.calibrate(sensitivity=0.1, epsilon=math.inf, delta=1e-5)
EXPONENTIAL = ExponentialKernel(5.0)


def wave(X):
    return np.sin(6 * X[:, 0])


def gaussian_bump():
    return KernelExpansion(GaussianKernel(0.3), np.array([[0.2], [0.7]]), np.array([1.0, -0.5]))


CASES = {
    "markov": (wave, EXPONENTIAL, {}),
    "dense": (wave, MaternKernel(1.5, 0.5), {}),
    "taylor": (gaussian_bump(), GaussianKernel(0.3), {}),
    "knots": (
        wave,
        EXPONENTIAL,
        {"features": KnotFeatures(EXPONENTIAL, np.linspace(0, 1, 33))},
    ),
}


def begin(case, mechanism=MECHANISM, **options):
    function, kernel, more = CASES[case]
    options = {"domain": UNIT} | more | options
    return release_function(function, kernel=kernel, mechanism=mechanism, form="online", **options)


def resume(case, **options):
    function = CASES[case][0] if case in ("markov", "dense") else None
    return OnlineFunction.resume(function, **options)


@pytest.mark.parametrize("case", CASES)
def test_a_repeated_question_gets_the_same_double(case, rng):
    f = begin(case)
    x = rng.uniform(size=40)
    one_by_one = [f([v])[0] for v in x]
    assert f(x).tolist() == one_by_one
    assert f(x[::-1]).tolist() == one_by_one[::-1]
    assert f([x[3], x[3], x[3]]).tolist() == [one_by_one[3]] * 3
    assert len(f) == 40


@pytest.mark.parametrize("case", CASES)
def test_a_restart_goes_on_with_the_same_answers(case, tmp_path, rng):
    store = tmp_path / "answers.db"
    first = begin(case, store=store, name="wave")
    x = rng.uniform(size=30)
    told = first(x)
    second = resume(case, store=store, name="wave")
    assert (second(x[:10]) == told[:10]).all()
    fresh = rng.uniform(size=5)
    assert (second(fresh) == first(fresh)).all()
    assert (first(x) == told).all()
    assert (first(fresh) == resume(case, store=store, name="wave")(fresh)).all()


@pytest.mark.parametrize("case", ["markov", "dense", "taylor"])
def test_without_noise_the_function_itself_comes_out(case, rng):
    f = begin(case, mechanism=EXACT)
    x = f.domain.points(f.domain.keys(rng.uniform(size=50)))
    np.testing.assert_allclose(f(x), CASES[case][0](x), atol=1e-9)


def test_the_noise_has_the_stated_law(seed):
    x = np.array([0.2, 0.25, 0.9, 0.3])
    functional = np.array([1.0, -1.0, 0.5, 0.3])
    gram = EXPONENTIAL(x[:, None], x[:, None])
    deviation = math.sqrt(MECHANISM.variance() * functional @ gram @ functional)
    scores = []
    with seeded(seed):
        for _ in range(500):
            scores.append((begin("markov")(x) - wave(x[:, None])) @ functional / deviation)
    assert kstest(scores, "norm").pvalue > 1e-6
    assert kstest(np.array(scores) / 1.5, "norm").pvalue < 1e-3


def test_points_are_rounded_to_a_public_lattice():
    f = begin("markov")
    assert f([0.5]) == f([0.5 + 2.0**-23])
    assert f([0.5]) != f([0.5 + 2.0**-19])


def test_two_dimensions(rng):
    f = release_function(
        lambda X: X[:, 0] - X[:, 1],
        kernel=ExponentialKernel(2.0),
        mechanism=MECHANISM,
        form="online",
        domain=UNIT,
        n_features=2,
    )
    x = rng.uniform(size=(20, 2))
    assert (f(x) == np.concatenate([f(row[None]) for row in x])).all()


def test_one_charge_for_any_number_of_answers(tmp_path, rng):
    budget = Ledger(tmp_path / "budget.db").create("rows", epsilon=1.0, delta=1e-5)
    f = begin("markov", ledger=budget, store=tmp_path / "a.db", name="wave")
    f(rng.uniform(size=100))
    resume("markov", store=tmp_path / "a.db", name="wave")(rng.uniform(size=100))
    assert budget.events() == (MECHANISM.event(),)
    with pytest.raises(BudgetExceededError):
        begin("markov", ledger=budget, store=tmp_path / "a.db", name="other")
    with pytest.raises(StoredModelError, match="no release named 'other'"):
        resume("markov", store=tmp_path / "a.db", name="other")


def test_a_name_is_used_once_and_nothing_is_charged_for_a_second_use(tmp_path):
    budget = Ledger(tmp_path / "budget.db").create("rows", epsilon=5.0, delta=1e-5)
    begin("markov", ledger=budget, store=tmp_path / "a.db", name="wave")
    with pytest.raises(InvalidInputError, match="already"):
        begin("markov", ledger=budget, store=tmp_path / "a.db", name="wave")
    assert len(budget.events()) == 1
    for name in (None, "", " ", "a\nb"):
        with pytest.raises(InvalidInputError, match="name"):
            begin("markov", store=tmp_path / "a.db", name=name)


def test_the_store_holds_points_and_answers_and_nothing_else(tmp_path, rng):
    f = begin("markov", store=tmp_path / "a.db", name="wave")
    answers = f([0.25, 0.5])
    with sqlite3.connect(tmp_path / "a.db") as connection:
        header = json.loads(
            connection.execute("SELECT header FROM sfumato_functions").fetchone()[0]
        )
        rows = connection.execute("SELECT point, answer FROM sfumato_answers").fetchall()
    connection.close()
    assert rows == [(str(2**18), answers[0]), (str(2**19), answers[1])]
    assert set(header) == {
        *("format", "name", "kernel", "lower", "upper", "bits"),
        *("sensitivity", "noise_multiplier", "status"),
    }


def test_answers_after_the_release_need_no_raw_function_with_features(tmp_path):
    f = begin("taylor", store=tmp_path / "a.db", name="bump")
    assert "KernelExpansion" not in repr(vars(f))
    told = f([0.1, 0.2])
    again = OnlineFunction.resume(None, store=tmp_path / "a.db", name="bump")
    assert (again([0.1, 0.2]) == told).all()
    begin("markov", store=tmp_path / "a.db", name="wave")
    with pytest.raises(InvalidInputError, match="'function' is needed"):
        OnlineFunction.resume(None, store=tmp_path / "a.db", name="wave")


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([np.nan], "finite"),
        ([np.inf], "finite"),
        ([[0.1, 0.2]], "rows of 1"),
        (0.5, "rows of 1"),
        ([1.0000001], "outside the domain"),
        ([-0.1], "outside the domain"),
        ("half", "numbers"),
    ],
)
def test_questions_that_make_no_sense_change_nothing(X, message):
    f = begin("markov")
    with pytest.raises(InvalidInputError, match=message):
        f(X)
    assert len(f) == 0
    assert f([]).shape == (0,)


@pytest.mark.parametrize("kernel", [EXPONENTIAL, MaternKernel(1.5, 0.5)], ids=repr)
@pytest.mark.parametrize("durable", [True, False])
def test_a_failing_function_leaves_no_half_answers(durable, kernel, tmp_path):
    trouble = [None]

    def sometimes(X):
        if trouble[0] == "error" and len(X) == 2:
            raise ArithmeticError("not now")
        return np.where((trouble[0] == "gap") & (X[:, 0] > 0.7), np.nan, X[:, 0])

    options = {"store": tmp_path / "a.db", "name": "x"} if durable else {}
    f = release_function(
        sometimes, kernel=kernel, mechanism=MECHANISM, form="online", domain=UNIT, **options
    )
    told = f([0.5])
    trouble[0] = "error"
    with pytest.raises(ArithmeticError):
        f([0.5, 0.6, 0.75])
    trouble[0] = "gap"
    with pytest.raises(InvalidInputError, match="finite"):
        f([0.6, 0.75])
    trouble[0] = None
    answers = f([0.5, 0.6, 0.75, 0.9])
    assert answers[0] == told
    assert (f([0.5, 0.6, 0.75, 0.9]) == answers).all()
    assert len(f) == 4


def test_a_function_that_is_not_finite_where_it_is_asked():
    f = release_function(
        lambda X: X[:, 0] * np.nan,
        kernel=EXPONENTIAL,
        mechanism=MECHANISM,
        form="online",
        domain=UNIT,
    )
    with pytest.raises(InvalidInputError, match="finite"):
        f([0.5])


def test_it_cannot_be_copied_away(tmp_path):
    for f in (begin("markov"), begin("markov", store=tmp_path / "a.db", name="wave")):
        with pytest.raises(StoredModelError, match="raw function"):
            pickle.dumps(f)
        with pytest.raises(StoredModelError, match="raw function"):
            copy.deepcopy(f)
    assert "0 answers" in repr(f)


def test_seeded_noise_is_marked():
    assert begin("markov").status == "proved"
    f = begin("markov")
    with seeded(0):
        assert begin("taylor").status == "testing"
        f([0.5])
    assert f.status == "testing"


@pytest.mark.parametrize("case", ["markov", "dense"])
def test_answers_from_a_seed_are_marked_in_the_store(case, tmp_path):
    where = {"store": tmp_path / "answers.db", "name": "f"}
    f, rival = begin(case, **where), resume(case, **where)
    f([0.1, 0.2])
    assert resume(case, **where).status == "proved"
    with seeded(0):
        f([0.2])  # nothing is drawn
        assert resume(case, **where).status == "proved"
        told = f([0.3, 0.4])
        f([0.6])
    f([0.7])
    assert resume(case, **where).status == f.status == "testing"
    assert rival([0.3, 0.4]).tolist() == told.tolist()
    assert rival.status == "testing"
    assert len(rival) == 6
    with sqlite3.connect(where["store"]) as connection:
        connection.execute("DELETE FROM sfumato_answers WHERE point = 'testing'")
    with pytest.raises(StoredModelError, match="integrity check failed"):
        resume(case, **where)([0.1])


def test_a_seed_that_failed_marks_nothing(tmp_path):
    where = {"store": tmp_path / "answers.db", "name": "f"}
    broken = [False]

    def function(X):
        if broken[0]:
            raise RuntimeError
        return wave(X)

    f = release_function(
        function, kernel=EXPONENTIAL, mechanism=MECHANISM, form="online", domain=UNIT, **where
    )
    broken[0] = True
    with seeded(0), pytest.raises(RuntimeError):
        f([0.5])
    assert OnlineFunction.resume(wave, **where).status == "proved"


@pytest.mark.parametrize("case", ["taylor", "knots"])
def test_features_draw_nothing_later(case, tmp_path):
    where = {"store": tmp_path / "answers.db", "name": "f"}
    f = begin(case, **where)
    with seeded(0):
        f([0.5])
    assert f.status == resume(case, **where).status == "proved"


def test_the_number_of_answers_is_limited(monkeypatch):
    monkeypatch.setattr(online, "MOST_ANSWERS", 3)
    f = begin("markov")
    f([0.1, 0.2, 0.3])
    with pytest.raises(InvalidInputError, match="at most 3"):
        f([0.4])
    f([0.2])


def test_a_domain_is_needed():
    with pytest.raises(InvalidInputError, match="domain"):
        begin("markov", domain=None)
    with pytest.raises(InvalidInputError, match="narrow"):
        begin("markov", domain=Bounds(lower=1e9, upper=1e9 + 1e-3))
