"""The private linear classifier: utility, taint, refusals, accelerators."""

import math

import array_api_strict
import numpy as np
import pytest

from sfumato import Bounds, PrivateLinearClassifier, load, save
from sfumato.audit.testing import taint_test
from sfumato.exceptions import InvalidInputError
from sfumato.mechanisms import entropy, sampling
from sfumato.mechanisms.entropy import drawing_from, seeded
from sfumato.privacy.guarantee import Status

BALL = Bounds(norm=1.0, labels=range(10))


@pytest.fixture(scope="module")
def unit_digits(digits):
    X, y = digits
    return X / np.linalg.norm(X, axis=1, keepdims=True), y


def fitted(data, **settings):
    model = PrivateLinearClassifier(bounds=BALL, **{"epsilon": 4.0, "delta": 1e-5, **settings})
    with seeded(3):
        return model.fit(*data)


# Utility ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "floor"),
    [
        ({}, 0.85),
        ({"whiten": False}, 0.75),
        ({"whiten": True, "relation": "add_or_remove_one"}, 0.9),
        ({"n_components": 20, "whiten": True}, 0.8),
    ],
)
@pytest.mark.usefixtures("noise")
def test_digits_are_learned(unit_digits, settings, floor):
    model = fitted(unit_digits, **settings)
    assert model.score(*unit_digits) > floor
    assert model.guarantee_.epsilon <= model.epsilon


def test_without_noise_it_is_the_linear_classifier(unit_digits):
    model = fitted(unit_digits, epsilon=math.inf)
    assert math.isinf(model.guarantee_.epsilon)
    assert model.score(*unit_digits) > 0.93


@pytest.mark.usefixtures("noise")
def test_accuracy_rises_with_epsilon(unit_digits):
    found = [
        np.mean([fitted(unit_digits, epsilon=e, whiten=True).score(*unit_digits)])
        for e in (0.1, 1.0, 10.0)
    ]
    assert found[0] < found[1] < found[2]


def test_probabilities_only_of_softmax(unit_digits):
    shares = fitted(unit_digits).predict_proba(unit_digits[0][:7])
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    assert not hasattr(fitted(unit_digits, loss="huber"), "predict_proba")


def test_other_libraries_give_the_same_weights(unit_digits):
    X, y = unit_digits[0][:400], unit_digits[1][:400]
    here = fitted((X, y), whiten=True, n_steps=20)
    there = fitted((array_api_strict.asarray(X), y), whiten=True, n_steps=20)
    np.testing.assert_array_equal(here.coef_, there.coef_)
    np.testing.assert_array_equal(here.intercept_, there.intercept_)
    np.testing.assert_array_equal(here.predict(X), there.predict(array_api_strict.asarray(X)))
    with pytest.raises(InvalidInputError, match="expecting 64 features"):
        there.predict(array_api_strict.asarray(X[:, :5]))


def test_saved_and_loaded(unit_digits, tmp_path):
    model = fitted(unit_digits, whiten=True, n_steps=5)
    save(model, tmp_path / "m.sfumato")
    again = load(tmp_path / "m.sfumato")
    np.testing.assert_array_equal(again.predict(unit_digits[0]), model.predict(unit_digits[0]))
    assert again.guarantee_ == model.guarantee_


# Budgets ----------------------------------------------------------------------------------------


def test_whitening_is_the_default(unit_digits):
    assert fitted(unit_digits, n_steps=3).projection_.shape == (64, 64)
    assert fitted(unit_digits, n_steps=3, whiten=False).projection_ is None
    wide = np.zeros((20, 8193))
    assert fitted((wide, np.arange(20) % 10), n_steps=1).projection_ is None


def test_events_are_those_of_gradients(unit_digits):
    model = fitted(unit_digits, whiten=True, relation="add_or_remove_one")
    assert model.guarantee_.events[2].count == 240
    assert "at most 2**26 rows" in model.guarantee_.public
    assert "number of rows" not in model.guarantee_.public


def test_arrays_of_other_libraries_add_a_condition(unit_digits):
    X, y = unit_digits[0][:50], unit_digits[1][:50]
    model = PrivateLinearClassifier(bounds=BALL, n_steps=2)
    assert model.fit(X, y).guarantee_.status is Status.PROVED
    promised = model.fit(array_api_strict.asarray(X), y).guarantee_
    assert promised.status is Status.CONDITIONAL
    assert "at every place" in promised.conditions[0]


def test_without_noise_delta_may_be_zero(unit_digits):
    model = fitted(unit_digits, epsilon=math.inf, delta=0.0, n_steps=20)
    assert math.isinf(model.guarantee_.epsilon)


@pytest.mark.parametrize(
    "settings",
    [
        {"whiten": True, "n_steps": 3},
        {"relation": "add_or_remove_one", "n_steps": 3},
    ],
)
def test_nothing_after_the_releases_reads_the_rows(unit_digits, settings):
    X, y = unit_digits[0][:200], unit_digits[1][:200]
    model = PrivateLinearClassifier(bounds=BALL, **{"delta": 1e-5, **settings})
    other = slice(None) if settings.get("relation") is None else slice(5, None)
    taint_test(model, X, -0.5 * X[::-1][other], y, y[::-1][other])


# Refusals ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"delta": 0.0}, "positive 'delta'"),
        ({"loss": "square"}, "'loss' must be one of"),
        ({"max_gradient_norm": 3.0}, "'max_gradient_norm'"),
        ({"n_steps": 0}, "'n_steps'"),
        ({"n_steps": 3.5}, "'n_steps' must be an integer"),
        ({"pca_share": 0.9995, "relation": "add_or_remove_one"}, "'pca_share' must lie below"),
        ({"momentum": 1.0}, "'momentum'"),
        ({"learning_rate": -1.0}, "'learning_rate'"),
        ({"whiten": True, "pca_share": 1.5}, "'pca_share'"),
    ],
)
def test_what_cannot_be_done_is_refused_with_a_sentence(unit_digits, settings, sentence):
    with pytest.raises(InvalidInputError, match=sentence):
        fitted(unit_digits, **settings)


def test_noise_drawn_ahead_is_that_of_all_releases(monkeypatch, rng):
    """On an accelerator: here rows of another library of the processor are taken for such."""
    X = rng.normal(size=(300, 16))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = np.arange(300) % 3
    for room in ("private", "fit"):
        monkeypatch.setattr(f"sfumato.models.linear.{room}.is_accelerated", lambda device: True)
    monkeypatch.setattr(sampling, "FEW_AHEAD", 8)
    handed_out = []
    take = sampling._NoiseQueue.next

    def counted(waiting, *key):
        handed_out.append(take(waiting, *key))
        return handed_out[-1]

    monkeypatch.setattr(sampling._NoiseQueue, "next", counted)
    with drawing_from(entropy._system_words):
        model = PrivateLinearClassifier(
            epsilon=1.0, delta=1e-5, n_steps=20, bounds=Bounds(norm=1.0, labels=range(3))
        ).fit(array_api_strict.asarray(X), y)
    assert len(handed_out) == 22
    assert len({each.tobytes() for each in handed_out}) == 22
    assert [each.size for each in handed_out[:2]] == [16 * 15 // 2, 16]  # of the second moment
    assert handed_out[2].size == model.coef_.size + len(model.intercept_) * model._has_constant
    assert isinstance(model.projection_, np.ndarray)


def test_a_moment_that_stays_where_the_rows_are_gives_the_same_model(monkeypatch, rng):
    X = rng.normal(size=(300, 16))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = np.arange(300) % 3
    bounds = Bounds(norm=1.0, labels=range(3))
    models = []
    for stays in (False, True):
        monkeypatch.setattr(
            "sfumato.models.linear.fit.is_accelerated", lambda device, stays=stays: stays
        )
        with seeded(1):
            model = PrivateLinearClassifier(epsilon=1.0, delta=1e-5, n_steps=20, bounds=bounds)
            models.append(model.fit(array_api_strict.asarray(X), y))
    here, there = (model.projection_ @ model.projection_.T for model in models)
    np.testing.assert_allclose(here, there, atol=1e-9)  # up to the signs of eigenvectors
    scores = [model.decision_function(X[:50]) for model in models]
    assert np.abs(scores[0]).max() > 0.01
