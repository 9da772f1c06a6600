"""diffprivlib's documented examples on our engines, and what is refused, charged and promised."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris, make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline

import sfumato.compat.diffprivlib as dp
from sfumato.compat.diffprivlib.utils import BudgetError
from sfumato.exceptions import InvalidInputError, MissingBoundsError, UnsupportedModeError
from sfumato.guarantee import Relation
from sfumato.sums.counts import Powers

IRIS = ([4.3, 2.0, 1.1, 0.1], [7.9, 4.4, 6.9, 2.5])
MODELS = [
    (dp.models.GaussianNB(bounds=IRIS), {"bounds": None}, "bounds=(LOWER, UPPER)"),
    (dp.models.LogisticRegression(data_norm=12), {"data_norm": None}, "data_norm=LENGTH"),
    (dp.models.RandomForestClassifier(bounds=IRIS), {"bounds": None}, "bounds=(LOWER, UPPER)"),
    (dp.models.PCA(2, data_norm=12), {"data_norm": None}, "data_norm=LENGTH"),
    (dp.models.StandardScaler(bounds=IRIS), {"bounds": None}, "bounds=(LOWER, UPPER)"),
    (
        dp.models.LinearRegression(bounds_X=IRIS, bounds_y=(0, 2)),
        {"bounds_y": None},
        "bounds_y=(LOWER, UPPER)",
    ),
]


@pytest.fixture(autouse=True)
def nobody_pays_by_default() -> Iterator[None]:
    dp.BudgetAccountant.pop_default()
    yield
    dp.BudgetAccountant.pop_default()  # nor in the tests that follow in this process


# Their documented examples ----------------------------------------------------------------------


def test_naive_bayes_of_the_readme() -> None:
    X, y = load_iris(return_X_y=True)
    for epsilon in (0.01, 1.0, 100.0):
        clf = dp.models.GaussianNB(bounds=IRIS, epsilon=epsilon).fit(X, y)
        assert clf.predict(X).shape == (150,)
    assert clf.score(X, y) > 0.8
    np.testing.assert_allclose(clf.predict_proba(X).sum(axis=1), 1.0)
    assert clf.guarantee_.epsilon <= 100.0
    assert any("labels found" in fact for fact in clf.guarantee_.public)


def test_logistic_regression() -> None:
    X, y = load_iris(return_X_y=True)
    clf = dp.models.LogisticRegression(data_norm=12, epsilon=2).fit(X, y)
    assert set(clf.predict(X[:2, :])) <= {0, 1, 2}
    assert clf.predict_proba(X[:2, :]).shape == (2, 3)
    pure = dp.models.LogisticRegression(data_norm=12, epsilon=2, delta=0, classes=[0, 1, 2])
    assert pure.fit(X, y).guarantee_.delta == 0
    assert not any("labels found" in fact for fact in pure.guarantee_.public)


def test_forest() -> None:
    X, y = make_classification(
        n_samples=1000, n_features=4, n_informative=2, n_redundant=0, random_state=0, shuffle=False
    )
    clf = dp.models.RandomForestClassifier(n_estimators=100, bounds=(-5, 5), epsilon=5).fit(X, y)
    assert clf.predict([[0, 0, 0, 0]])[0] in (0, 1)
    assert clf.score(X, y) > 0.8


def test_linear_regression() -> None:
    X, y = load_diabetes(return_X_y=True)
    regr = dp.models.LinearRegression(epsilon=100, bounds_X=(-0.138, 0.2), bounds_y=(25, 346))
    assert regr.fit(X, y).score(X, y) > 0.3


def test_components_and_the_accountant(rng: np.random.Generator) -> None:
    accountant = dp.BudgetAccountant().set_default()
    Y = rng.random((100, 2)) - 0.5
    clf = dp.models.PCA(1, centered=True, data_norm=1.4).fit(Y)
    assert clf.transform(Y).shape == (100, 1)
    assert clf.inverse_transform(clf.transform(Y)).shape == Y.shape
    assert accountant.total() == (1.0, 1e-6)
    with dp.BudgetAccountant() as inner:
        dp.tools.mean(Y, bounds=(0, 1), epsilon=1 / 3)
    assert inner.total() == (1 / 3, 0)
    assert len(accountant) == 1
    dp.tools.mean(Y, bounds=(0, 1), epsilon=1 / 3)
    assert len(accountant) == 2


def test_a_pipeline(rng: np.random.Generator) -> None:
    X = rng.normal([40, 80], [10, 20], size=(2000, 2))
    y = (X[:, 0] > 40).astype(int)
    pipe = Pipeline(
        [
            ("scaler", dp.models.StandardScaler(bounds=([17, 1], [90, 160]), epsilon=5)),
            ("pca", dp.models.PCA(2, data_norm=4, centered=True, epsilon=5)),
            ("lr", dp.models.LogisticRegression(data_norm=4, epsilon=5)),
        ]
    )
    with dp.BudgetAccountant() as accountant:
        assert pipe.fit(X, y).score(X, y) > 0.8
    assert accountant.total().epsilon == 15
    np.testing.assert_allclose(pipe[0].mean_, [40, 80], atol=2)
    np.testing.assert_allclose(pipe[0].scale_, [10, 20], rtol=0.2)


def test_the_accountant_of_its_docstring_and_notebook(rng: np.random.Generator) -> None:
    X = rng.random(100)
    acc = dp.BudgetAccountant(epsilon=1.5, delta=0)
    assert 0 <= dp.tools.mean(X, bounds=(0, 1), accountant=acc) <= 1
    assert acc.total() == (1.0, 0)
    assert 0 <= dp.tools.std(X, bounds=(0, 1), epsilon=0.25, accountant=acc) <= 0.5
    assert acc.total() == (1.25, 0)
    endless = dp.BudgetAccountant()
    for half in (X[:50], X[50:]):
        dp.tools.mean(half, epsilon=0.25, bounds=(0, 1), accountant=endless)
    assert endless.total() == (0.5, 0)
    assert endless.remaining() == (math.inf, 1.0)
    with dp.BudgetAccountant() as inner:
        dp.tools.mean(X, epsilon=1.5705, bounds=(0, 1))
        dp.tools.var(X, epsilon=1.5705, bounds=(0, 1))
    assert inner.total() == (3.141, 0)
    plain, slack = dp.BudgetAccountant(), dp.BudgetAccountant(slack=1e-3)
    spent = [
        (plain.spend(2**-6, 0).total()[0], slack.spend(2**-6, 0).total()[0]) for _ in range(30)
    ]
    assert all(advanced <= naive for naive, advanced in spent)
    assert spent[-1][1] < 0.75 * spent[-1][0]


def test_the_exploration_of_its_notebook(rng: np.random.Generator) -> None:
    data, labels = rng.integers(0, 255, (2000, 3)).astype(float), rng.integers(1, 8, 2000)
    acc = dp.BudgetAccountant(1, 0).set_default()
    one, edges = dp.tools.histogram(labels, epsilon=0.04, bins=7, range=(1, 8))
    two, x, y = dp.tools.histogram2d(
        data[:, 0], labels, epsilon=0.04, bins=(10, 7), range=((0, 255), (1, 8))
    )
    assert (one.shape, two.shape, x.shape, y.shape) == ((7,), (10, 7), (11,), (8,))
    np.testing.assert_array_equal(y, edges)
    square = dp.tools.histogram2d(data[:, 0], data[:, 1], epsilon=0.04, range=((0, 255),) * 2)[0]
    assert square.shape == (10, 10)
    assert dp.tools.count_nonzero(data[:, 0] >= 100, epsilon=0.04) >= 0
    assert len(acc) == 4
    assert acc.total().epsilon == pytest.approx(0.16)
    with pytest.raises(MissingBoundsError, match="range"):
        dp.tools.histogram2d(data[:, 0], labels)


def test_without_noise_histograms_are_numpys(rng: np.random.Generator) -> None:
    rows = rng.normal(size=(500, 3))
    rows[0] = 9.0  # outside of all edges
    rows[1] = 2.0  # on the last edge
    ends = [(-2, 2)] * 3
    ours, edges = dp.tools.histogramdd(rows, epsilon=math.inf, bins=[3, 4, 5], range=ends)
    theirs, same = np.histogramdd(rows, bins=[3, 4, 5], range=ends)
    np.testing.assert_array_equal(ours, theirs)
    for found, wanted in zip(edges, same, strict=True):
        np.testing.assert_allclose(found, wanted)
    density = dp.tools.histogramdd(rows, math.inf, [3, 4, 5], ends, density=True)[0]
    np.testing.assert_allclose(density, np.histogramdd(rows, [3, 4, 5], ends, density=True)[0])
    with pytest.raises(InvalidInputError, match="at most 10000000 cells"):
        dp.tools.histogramdd(rows, bins=1000, range=ends)
    with pytest.raises(InvalidInputError, match="one number per record"):
        dp.tools.histogram2d(rows[:, 0], rows[1:, 0], range=ends[:2])
    with pytest.raises(InvalidInputError, match="one entry per column"):
        dp.tools.histogramdd(rows, bins=[3, 4], range=ends)


def test_infinite_epsilon_of_its_notebooks(rng: np.random.Generator) -> None:
    X = rng.normal([40, 10], [10, 3], size=(1000, 2))
    y = np.where(X[:, 0] + 2 * X[:, 1] > 60, " >50K", " <=50K")
    model = dp.models.GaussianNB(epsilon=float("inf"), bounds=(-1e3, 1e3)).fit(X, y)
    assert model.score(X, y) > 0.9
    linear = dp.models.LogisticRegression(epsilon=float("inf"), data_norm=1e2, max_iter=150)
    assert linear.fit(X, y).score(X, y) > 0.5
    noisy = X[:, 0] + 2 * X[:, 1] + 20 * rng.normal(size=1000) > 60
    for fit_intercept, C in itertools.product((True, False), (1.0, 1e-4)):
        words = {"fit_intercept": fit_intercept, "C": C}
        exact = LogisticRegression(solver="newton-cholesky", tol=1e-9, **words).fit(X, noisy)
        ours = dp.models.LogisticRegression(epsilon=math.inf, data_norm=1e2, **words).fit(X, noisy)
        # only the constant is regularised here, and not there
        assert np.abs(ours.predict_proba(X) - exact.predict_proba(X)).max() < 0.02, words
    state = dp.utils.check_random_state(42)
    again = dp.models.LogisticRegression(epsilon=1, data_norm=60, random_state=state, C=1 / len(X))
    with pytest.warns(UserWarning, match="These have no effect here: C, random_state"):
        again.fit(X, y)
    assert set(again.predict(X)) <= set(y)


def test_budgets_are_compared_by_both_parts() -> None:
    budget = dp.utils.Budget
    assert repr(budget(1, 0.5)) == "(epsilon=1, delta=0.5)"
    assert not budget(2, 0) >= budget(1, 0.5)
    assert budget(2, 0.5) > budget(1, 0.5)
    assert budget(1, 0) < budget(1, 0.5)
    assert not budget(1, 0) < budget(1, 0)


# The accountant ---------------------------------------------------------------------------------


def test_totals_and_ceilings() -> None:
    accountant = dp.BudgetAccountant(epsilon=1.5, delta=0)
    assert accountant.spend(1.0, 0).total() == (1.0, 0.0)
    assert repr(accountant.total()) == "(epsilon=1.0, delta=0.0)"
    assert accountant.remaining() == (0.5, 0.0)
    assert accountant.remaining(4) == (0.125, 0.0)
    with pytest.raises(BudgetError, match="not permissible"):
        accountant.spend(0.6, 0)
    with pytest.raises(BudgetError):
        accountant.spend(0.1, 1e-9)
    assert len(accountant) == 1
    again = dp.BudgetAccountant(1.5, 0, spent_budget=accountant.spent_budget)
    assert again.total() == accountant.total()
    assert "spent_budget=[(1.0, 0.0)]" in repr(again)
    both = dp.BudgetAccountant(spent_budget=[(1, 1e-5), (1, 1e-5)])
    assert both.total().delta == pytest.approx(2e-5 - 1e-10, rel=1e-12)


def test_slack_gives_no_more_than_theirs() -> None:
    accountant = dp.BudgetAccountant(slack=1e-3, spent_budget=[(0.05, 0)] * 20)
    total = accountant.total()
    assert total.delta == 1e-3
    # 0.7613 is what diffprivlib documents for these; the Gaussian limit of the losses is below.
    assert 0.4 < total.epsilon < 0.7613352285668463
    capped = dp.BudgetAccountant(1.0, 1e-3, slack=1e-3, spent_budget=[(0.05, 0)] * 20)
    left = capped.remaining()
    capped.spend(*left)
    with pytest.raises(BudgetError):
        capped.spend(0.2, 0)


@pytest.mark.parametrize("spend", [(-1, 0), (0, 0), (1, 2), (math.nan, 0)])
def test_spends_that_make_no_sense(spend: tuple[float, float]) -> None:
    with pytest.raises(InvalidInputError):
        dp.BudgetAccountant().spend(*spend)


# What is refused and charged --------------------------------------------------------------------


@pytest.mark.parametrize(("model", "without", "line"), MODELS, ids=lambda m: type(m).__name__)
def test_bounds_are_asked_for_with_the_line_to_add(model, without, line) -> None:
    X, y = load_iris(return_X_y=True)
    accountant = dp.BudgetAccountant()
    with pytest.raises(MissingBoundsError) as error:
        clone(model).set_params(**without, accountant=accountant).fit(X, y)
    assert line in str(error.value)
    assert len(accountant) == 0
    clone(model).set_params(accountant=accountant).fit(X, y)
    assert accountant.spent_budget == [(1.0, 1e-6)]
    spent_out = dp.BudgetAccountant(1.0, 1e-6, spent_budget=[(0.5, 0)])
    with pytest.raises(BudgetError):
        clone(model).set_params(accountant=spent_out).fit(X, y)
    with pytest.warns(UserWarning, match="random_state"):
        clone(model).set_params(random_state=0).fit(X, y)


@pytest.mark.parametrize("tool", [dp.tools.mean, dp.tools.var, dp.tools.std, dp.tools.sum])
def test_tools_ask_for_bounds_and_offer_what_they_can(tool) -> None:
    accountant = dp.BudgetAccountant()
    with pytest.raises(MissingBoundsError, match=r"bounds=\(LOWER, UPPER\)"):
        tool([1, 2, 3], accountant=accountant)
    for bad in ({"axis": 1}, {"keepdims": True}, {"weights": [1, 2, 3]}):
        with pytest.raises(UnsupportedModeError):
            tool(np.ones((3, 2)), bounds=(0, 1), accountant=accountant, **bad)
    for bounds in ((1, 0), (0, math.inf), (0, 0)):
        with pytest.raises(InvalidInputError):
            tool([1, 2, 3], bounds=bounds, accountant=accountant)
    with pytest.raises(InvalidInputError):
        tool([], bounds=(0, 1), accountant=accountant)
    assert len(accountant) == 0
    assert np.shape(tool(np.ones((9, 2)), bounds=(0, 2), axis=0)) == (2,)


def test_histograms_ask_for_their_range() -> None:
    with pytest.raises(MissingBoundsError, match="range="):
        dp.tools.histogram([1, 2, 3])
    with pytest.raises(UnsupportedModeError):
        dp.tools.histogram([1, 2, 3], range=(0, 4), weights=[1, 1, 1])
    with pytest.raises(InvalidInputError):
        dp.tools.histogram([1, 2, 3], bins=[3, 2, 1])


# The figures ------------------------------------------------------------------------------------


def test_without_noise_the_tools_are_numpys(rng: np.random.Generator) -> None:
    x, none = rng.random(1000), {"epsilon": math.inf}
    assert dp.tools.mean(x, bounds=(0, 1), **none) == pytest.approx(x.mean(), abs=1e-5)
    assert dp.tools.var(x, bounds=(0, 1), **none) == pytest.approx(x.var(), abs=1e-5)
    assert dp.tools.std(x, bounds=(0, 1), **none) == pytest.approx(x.std(), abs=1e-4)
    assert dp.tools.sum(x, bounds=(-1, 2), **none) == pytest.approx(x.sum(), abs=0.02)
    assert dp.tools.count_nonzero(x > 0.5, **none) == (x > 0.5).sum()
    ends = {"bins": 7, "range": (0.1, 0.8)}
    counts, edges = dp.tools.histogram(np.r_[x, 0.8, np.nan, 5.0], **ends, **none)
    expected, places = np.histogram(np.r_[x, 0.8, 5.0], **ends)
    np.testing.assert_array_equal(counts, expected)
    np.testing.assert_allclose(edges, places)
    density, _ = dp.tools.histogram(x, **ends, density=True, **none)
    np.testing.assert_allclose(density, np.histogram(x, **ends, density=True)[0])


def test_noise_has_its_scale(noise: object) -> None:
    """Laplace noise of scale width / (n epsilon); 4000 draws, bounds at 8 standard errors."""
    found = [dp.tools.mean(np.zeros(10), bounds=(-5, 5), epsilon=2.0) for _ in range(4000)]
    size = np.abs(found).mean()  # the scale, 0.5; its standard error is 0.5 / sqrt(4000)
    assert abs(size - 0.5) < 8 * 0.5 / math.sqrt(4000)


def test_the_sensitivity_is_kept_and_attained() -> None:
    numbers = np.linspace(-0.5, 0.5, 41)
    for order in (1, 2):
        statistic = Powers(order)
        terms = np.array([statistic.add_up(np.array([[t]]), np.zeros(1, int)) for t in numbers])
        moved = max(np.abs(a - b).sum() for a, b in itertools.combinations(terms, 2))
        assert moved <= statistic.term_total(Relation.REPLACE_ONE)
        assert moved > 0.999 * statistic.term_total(Relation.REPLACE_ONE)
        alone = np.abs(terms).sum(axis=1).max()
        assert alone == statistic.term_total(Relation.ADD_OR_REMOVE_ONE)


def test_odd_cells_are_no_error() -> None:
    odd = [1.0, None, "x", math.nan, math.inf, -1e300]
    assert 0 <= dp.tools.mean(np.array(odd, dtype=object), bounds=(0, 2)) <= 2
    dp.tools.histogram(np.array(odd, dtype=object), range=(0, 2))
    dp.tools.count_nonzero(np.array(odd, dtype=object))
    dp.tools.mean([1.0, 2.0, [3.0, 4.0]], bounds=(0, 2))


@pytest.mark.parametrize("cell", [1e308, -1e308, math.inf, math.nan])
def test_a_far_cell_does_not_warn_that_it_is_there(cell: float) -> None:
    """Warnings are errors in tests: sums and quotients of such cells leave the doubles."""
    X = np.array([[0.1, 0.2], [cell, cell], [0.3, 0.1]] * 20)
    assert 0 <= dp.tools.mean(X, bounds=(0, 0.5)) <= 0.5
    assert dp.tools.var(X, bounds=(0, 0.5), axis=0).shape == (2,)
    dp.models.StandardScaler(bounds=(0, 0.5), delta=1e-3).fit(X)


def test_a_record_is_counted_once() -> None:
    """A row of two cells would change two counts at the price of one."""
    two = np.ones((30, 2))
    accountant = dp.BudgetAccountant()
    with pytest.raises(UnsupportedModeError, match="one column"):
        dp.tools.histogram(two, range=(0, 2), accountant=accountant)
    with pytest.raises(UnsupportedModeError, match="one column"):
        dp.tools.count_nonzero(two, accountant=accountant)
    assert len(accountant) == 0
    assert len(dp.tools.histogram(two[:, :1], range=(0, 2))[0]) == 10


@pytest.mark.parametrize("odd", [[5], 5, [1, 2, 3], [[1], 2], "text", None])
def test_a_record_of_another_length_changes_no_shape(odd: object) -> None:
    found = dp.tools.mean([[1, 2], [3, 4], [5, 6], odd], bounds=(0, 6), axis=0, epsilon=1e6)
    assert found.shape == (2,)
    assert abs(found[0] - 3) < 0.8  # the others count as before
    rows = [[1, 2], [3, 4], [5, 6], odd]
    counts, edges = dp.tools.histogramdd(rows, epsilon=1e6, bins=2, range=[(0, 6)] * 2)
    assert (counts.shape, len(edges)) == ((2, 2), 2)
    assert counts.sum() in (3, 4)  # [1] is read as 1
