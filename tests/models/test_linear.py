"""Linear models: exact clipped gradients and their price, rows, utility, accelerators, lines."""

from __future__ import annotations

import math

import array_api_strict
import numpy as np
import pandas as pd
import pytest

from sfumato import Bounds, PrivateLinearClassifier, PrivateLinearRegressor, TableBounds
from sfumato.core.arrays import to_numpy
from sfumato.exceptions import InvalidInputError
from sfumato.mechanisms.base import taped
from sfumato.mechanisms.entropy import drawing_from, seeded
from sfumato.models import linear
from sfumato.models.linear import Descent
from sfumato.privacy.gaussian import mu_from_budget
from sfumato.privacy.guarantee import Relation, Status
from sfumato.sums.gradients import GradientSum, SoftmaxLoss, on_weight_grid, over_scores
from sfumato.sums.grid import revealed
from sfumato.sums.maps import IntoUnitBall, LinearRows
from sfumato.sums.records import ArrayRecords

BALL = Bounds(norm=1.0, labels=range(10))


# Gradients --------------------------------------------------------------------------------------


@pytest.fixture
def data(rng):
    units = IntoUnitBall(Bounds(norm=1.0), 4)(rng.normal(0, 0.4, (60, 4)))
    return LinearRows(4, False)(units), rng.integers(3, size=60)


def clipped_gradient(loss, clip, rows, codes, weights):
    records = ArrayRecords(rows, codes, relation="add_or_remove_one")
    return revealed(records._sum(GradientSum(loss, clip, weights)))


def test_slopes_are_those_of_the_losses():
    margins = np.array([-3.0, 0.7, 1.0, 2.0])
    for code, sign in ((1, 1), (0, -1)):
        codes = np.full(4, code)
        found = SoftmaxLoss(2).slopes_of(sign * margins[:, None], codes)
        np.testing.assert_allclose(found[:, 0], -sign / (1 + np.exp(margins)))


def test_sums_over_scores_do_not_depend_on_the_other_rows(rng):
    values = rng.random((257, 13))
    whole = over_scores(values)
    for i in (0, 100, 256):
        assert whole[i, 0] == over_scores(values[i : i + 1])[0, 0]


@pytest.mark.parametrize("clip", [0.05, 0.5, 1.9])
def test_clipped_gradient_literally(clip, data, rng):
    rows, codes = data
    loss = SoftmaxLoss(3)
    weights = on_weight_grid(rng.normal(0, 3, (3, 4)))
    total = np.zeros_like(weights)
    for row, code in zip(rows, codes, strict=True):
        scores = (weights @ row)[None, :]
        slopes = loss.slopes_of(scores, np.array([code]))[0]
        total += np.outer(slopes * min(1.0, clip / max(np.linalg.norm(slopes), 1e-300)), row)
    np.testing.assert_allclose(clipped_gradient(loss, clip, rows, codes, weights), total, atol=1e-3)


@pytest.mark.parametrize(("n_classes", "bound"), [(3, 2**0.5), (2, 1.0)])
def test_a_clip_beyond_the_slopes_of_the_loss_costs_no_noise(n_classes, bound, rng):
    """Neighbours never move a gradient by more than what is paid, and nearly that far."""
    loss = SoftmaxLoss(n_classes)
    bounds = Bounds(norm=1.0, labels=list(range(n_classes)))
    model = PrivateLinearClassifier(max_gradient_norm=1.9, delta=1e-5, n_steps=1, bounds=bounds)
    with taped() as tape:
        model.fit(np.eye(4), [0, 1, 1, 0])
    paid = tape.releases[-1].mechanism.sensitivity
    assert paid == pytest.approx(2 * bound)  # not 3.8
    raw = np.vstack([rng.normal(0, 2, (40, 4)), np.eye(4)])
    rows = LinearRows(4, False)(IntoUnitBall(Bounds(norm=1.0), 4)(raw))
    rows, farthest = np.vstack([rows, -rows]), 0.0
    for scale in (1.0, 100.0):
        weights = on_weight_grid(rng.normal(0, scale, (loss.n_scores, 4)))
        terms = [
            clipped_gradient(loss, bound, row[None], np.array([c]), weights).ravel()
            for row in rows
            for c in range(n_classes)
        ]
        apart = np.linalg.norm(np.array(terms)[:, None] - np.array(terms)[None], axis=2)
        farthest = max(farthest, float(apart.max()))
    assert 0.9 * paid <= farthest <= paid


@pytest.mark.parametrize("wild", [np.inf, -np.inf, np.nan, 1e9])
def test_weights_that_ran_away_give_finite_gradients(wild, data):
    weights = np.zeros((3, 4))
    weights[1, 2] = wild
    brought = on_weight_grid(weights)
    assert np.linalg.norm(brought) <= 2.0**10
    np.testing.assert_array_equal(on_weight_grid(brought), brought)
    found = clipped_gradient(SoftmaxLoss(3), 0.1, *data, brought)
    assert np.isfinite(found).all()
    assert np.linalg.norm(found) <= 0.1 * 60


def test_descent_literally(rng):
    target = rng.normal(size=(2, 3))
    descent = Descent((2, 3), 10.0, 7, 0.3)
    for _ in range(7):
        descent.follow(10 * (descent.weights - target))
    w, v, kept = np.zeros((2, 3)), np.zeros((2, 3)), []
    for step in range(7):
        v = 0.9 * v - 0.3 * (w - target)
        w = w + v
        kept += [w] if step >= 3 else []
    np.testing.assert_allclose(descent.average, np.mean(kept, axis=0), atol=1e-6)


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("whiten", [False, True])
def test_the_releases_cost_exactly_the_budget(relation, whiten, data):
    model = PrivateLinearClassifier(
        epsilon=1.5, delta=1e-5, n_steps=50, whiten=whiten, relation=relation, bounds=BALL
    )
    with taped() as tape:
        promised = model.fit(*data).guarantee_
    assert len(tape.releases) == 50 + whiten + (relation is Relation.ADD_OR_REMOVE_ONE)
    mu = math.hypot(*(1 / each.mechanism.noise_multiplier for each in tape.releases))
    assert mu == pytest.approx(mu_from_budget(1.5, 1e-5), rel=1e-12)
    assert promised.epsilon == 1.5
    moved = 0.2 if relation is Relation.REPLACE_ONE else 0.1
    assert tape.releases[-1].mechanism.sensitivity == pytest.approx(moved, rel=1e-6)


# Rows -------------------------------------------------------------------------------------------


@pytest.fixture
def wild_rows(rng):
    rows = rng.normal(0, 2, (40, 5))
    rows[3], rows[4, 1], rows[5, 0], rows[6], rows[7] = np.nan, np.inf, -np.inf, 1e200, 0.0
    return rows


@pytest.mark.parametrize(
    "bounds",
    [{"norm": 2.0}, {"lower": -1.0, "upper": 3.0}, {"norm": 2.0, "lower": -1.0, "upper": 3.0}],
)
def test_unit_rows_of_another_library_are_the_same(bounds, wild_rows):
    into_ball = IntoUnitBall(Bounds(**bounds), 5)
    here = into_ball(wild_rows)
    there = to_numpy(into_ball(array_api_strict.asarray(wild_rows)))
    np.testing.assert_allclose(there, here, atol=2.0**-25)
    assert max(np.linalg.norm(rows, axis=1).max() for rows in (here, there)) <= 1


@pytest.mark.parametrize("unit_length", [False, True])
def test_a_row_of_another_library_does_not_depend_on_its_neighbours(wild_rows, unit_length, rng):
    basis = np.linalg.qr(rng.normal(size=(5, 5)))[0] * [1, 0.5, 0.3, 0.2, 0.1]
    into_ball, mapping = IntoUnitBall(Bounds(norm=3.0), 5), LinearRows(5, True, basis, unit_length)

    def mapped(rows):
        return to_numpy(mapping(into_ball(array_api_strict.asarray(rows))))

    whole = mapped(wild_rows)
    alone = [mapped(wild_rows[i : i + 1])[0] for i in range(len(wild_rows))]
    np.testing.assert_array_equal(alone, whole)
    assert np.linalg.norm(whole, axis=1).max() <= 1
    lengths = np.linalg.norm(whole[:, :-1], axis=1) * np.sqrt(2)
    assert not unit_length or np.all((np.abs(lengths - 1) < 1e-4) | (lengths == 0))


# The classifier ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def unit_digits(digits):
    X, y = digits
    return X / np.linalg.norm(X, axis=1, keepdims=True), y


def fitted(data, **settings):
    model = PrivateLinearClassifier(**{"bounds": BALL, "epsilon": 4.0, "delta": 1e-5, **settings})
    with seeded(3):
        return model.fit(*data)


@pytest.mark.parametrize(
    ("settings", "floor"),
    [
        ({}, 0.85),
        ({"whiten": False}, 0.75),
        ({"relation": "add_or_remove_one"}, 0.9),
        ({"n_components": 20}, 0.8),
        ({"epsilon": math.inf, "delta": 0.0}, 0.93),
    ],
)
def test_digits_are_learned(unit_digits, settings, floor):
    model = fitted(unit_digits, **settings)
    assert model.score(*unit_digits) > floor
    assert model.guarantee_.epsilon <= model.epsilon
    shares = model.predict_proba(unit_digits[0][:7])
    np.testing.assert_allclose(shares.sum(axis=1), 1)


def test_other_libraries_give_the_same_weights_and_add_a_condition(unit_digits):
    X, y = unit_digits[0][:400], unit_digits[1][:400]
    foreign = array_api_strict.asarray(X)
    here, there = (fitted((rows, y), n_steps=20) for rows in (X, foreign))
    np.testing.assert_array_equal(here.coef_, there.coef_)
    np.testing.assert_array_equal(here.intercept_, there.intercept_)
    np.testing.assert_array_equal(here.predict(X), there.predict(foreign))
    with pytest.raises(InvalidInputError, match="expecting 64 features"):
        there.predict(array_api_strict.asarray(X[:, :5]))
    model = PrivateLinearClassifier(bounds=BALL, n_steps=2)
    with drawing_from(None):
        assert model.fit(X, y).guarantee_.status is Status.PROVED
        assert model.fit(foreign, y).guarantee_.status is Status.CONDITIONAL
    assert "at every place" in model.guarantee_.conditions[0]


def test_a_constant_is_appended_by_public_facts():
    ball, zero, centred = (
        Bounds(labels=[0, 1], **each)
        for each in (
            {"norm": 1.0},
            {"lower": 0.0, "upper": 1.0},
            {"lower": (-1.0,) * 64, "upper": (1.0,) * 64},
        )
    )
    for bounds, width, settings, has_constant in (
        (ball, 64, {}, False),
        (ball, 63, {}, True),
        (ball, 64, {"whiten": False}, True),
        (ball, 64, {"fit_intercept": True}, True),
        (zero, 64, {}, True),
        (centred, 64, {}, True),
        (zero, 64, {"fit_intercept": False}, False),
    ):
        X = np.random.default_rng(0).normal(size=(40, width))
        model = fitted((X, np.arange(40) % 2), bounds=bounds, n_steps=3, **settings)
        assert bool(model.intercept_.any()) == has_constant
    labels = np.array(["no", "yes"])[np.arange(40) % 2]
    frame = pd.DataFrame({"x": np.linspace(0, 1, 40), "kind": [f"k{i % 8}" for i in range(40)]})
    facts = {"x": (0.0, 1.0), "kind": [f"k{i}" for i in range(8)], "y": ["no", "yes"]}
    for names, has_constant in ((["x", "kind"], False), (["x"], True)):  # categories do without
        bounds = TableBounds.from_dict({name: facts[name] for name in (*names, "y")}, target="y")
        model = fitted((frame[names], labels), bounds=bounds, n_steps=3)
        assert bool(model.intercept_.any()) == has_constant


# Accelerators -----------------------------------------------------------------------------------


@pytest.fixture
def sphere(rng):
    X = rng.normal(size=(300, 16))
    return X / np.linalg.norm(X, axis=1, keepdims=True), np.arange(300) % 3


@pytest.fixture
def cuda():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    return lambda x: torch.as_tensor(x, device="cuda")


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("whiten", [False, True])
def test_weights_on_a_gpu_are_those_of_a_processor(cuda, sphere, whiten, relation, monkeypatch):
    """Products and noise are exact; eigenvectors of the released moment are the library's own."""
    plain = linear.whitening_projection
    monkeypatch.setattr(
        linear,
        "whitening_projection",
        lambda moment, *rest: (cuda if moment is not to_numpy(moment) else np.asarray)(
            plain(to_numpy(moment), *rest)
        ),
    )
    (X, y), settings = sphere, {"whiten": whiten, "relation": relation, "n_steps": 25}
    bounds = Bounds(norm=1.0, labels=range(3))
    here, there = (fitted((rows, y), bounds=bounds, **settings) for rows in (X, cuda(X)))
    np.testing.assert_array_equal(here.coef_, there.coef_)
    np.testing.assert_array_equal(here.predict(X), there.predict(cuda(X)))
    turned = fitted((cuda(X[::-1].copy()), y[::-1]), bounds=bounds, **settings)
    np.testing.assert_array_equal(turned.coef_, there.coef_)  # the order of rows is nothing


# The regressor ----------------------------------------------------------------------------------


def lines(n_rows=5000):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 3, size=(n_rows, 3))
    return X, X @ [1.0, -0.5, 0.0] + 0.3 + 0.2 * rng.normal(size=n_rows)


def regressor(**options):
    usual = {"delta": 1e-5, "target_bounds": (-5, 5), "bounds": Bounds(lower=-1.0, upper=3.0)}
    return PrivateLinearRegressor(**{**usual, **options})


def test_without_noise_it_is_a_robust_line():
    X, y = lines()
    robust = regressor(epsilon=np.inf).fit(X, y)
    found = robust.coef_ @ X.T + robust.intercept_
    np.testing.assert_allclose(found, X @ [1, -0.5, 0] + 0.3, atol=0.1)


def test_predictions_have_the_mean_of_a_skewed_target(rng):
    X = rng.uniform(size=(20_000, 2))
    y = (1 + X[:, 0]) * rng.exponential(size=len(X)) ** 2  # the mean is 2 (1 + x), the middle .48
    model = regressor(epsilon=3.0, target_bounds=(0, 50), bounds=Bounds(lower=0.0, upper=1.0))
    assert model.fit(X, y).predict(X).mean() == pytest.approx(y.mean(), rel=0.1)


@pytest.mark.parametrize("relation", list(Relation))
def test_a_line_is_found_for_the_whole_budget(relation):
    X, y = lines(20_000)
    with taped() as tape:
        model = regressor(epsilon=2.0, relation=relation).fit(X, y)
    assert len(tape.releases) == 61
    mu = math.hypot(*(1 / each.mechanism.noise_multiplier for each in tape.releases))
    assert mu == pytest.approx(mu_from_budget(2.0, 1e-5), rel=1e-12)
    assert model.score(X, y) > 0.9


def test_half_of_the_gradients_where_noise_hides_little() -> None:
    model = PrivateLinearClassifier(epsilon=1.0, delta=1e-5)
    enough = math.ceil(50 * 4 / mu_from_budget(1.0, 1e-5))
    found = [linear.choose_steps(model, n, 4) for n in (enough, enough - 1, None)]
    assert found == [120, 240, 240]
    assert linear.choose_steps(PrivateLinearClassifier(n_steps=7), enough, 4) == 7
