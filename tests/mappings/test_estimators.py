"""Mapping, autoencoders and classifier as estimators: what they compute, keep and refuse."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

import sfumato
from sfumato import (
    MembershipAutoencoder,
    MembershipClassifier,
    MembershipMapping,
    WideMembershipAutoencoder,
)
from sfumato.exceptions import InvalidInputError
from sfumato.models.mapping_layers import SEEDS
from tests.mappings import literal


@pytest.fixture(scope="module")
def digits() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_digits(n_class=4, return_X_y=True)
    return X / 16, y


def seed_of(random_state: int) -> int:
    return int(np.random.RandomState(random_state).randint(SEEDS))


def test_mapping_is_algorithm_1(rng: np.random.Generator) -> None:
    x, Y = rng.random((90, 3)), rng.random((90, 2))
    mapping = MembershipMapping(center=False, random_state=1).fit(x, Y)
    slow = literal.algorithm_1(x, Y, 45, kappa=0.1, seed=seed_of(1), width=2)
    queries = rng.random((20, 3))
    np.testing.assert_allclose(
        mapping.predict(queries), literal.prediction(slow, queries), atol=1e-8
    )
    np.testing.assert_allclose(mapping.inducing_points_, slow["a"], atol=1e-12)
    assert mapping.noise_precision_ == pytest.approx(slow["beta"], rel=1e-7)
    assert mapping.kernel_variance_ == pytest.approx(slow["variance"], rel=1e-7)


def test_mapping_learns_a_curve_and_centring_forgives_an_offset(rng: np.random.Generator) -> None:
    x = rng.random((200, 1))
    y = np.sin(5 * x[:, 0])
    model = MembershipMapping(kappa=1e-6, random_state=0)
    assert model.fit(x, y).score(x, y) > 0.95
    x = rng.random((200, 4))
    y = x.sum(axis=1)
    model = MembershipMapping(random_state=0)
    plain = model.fit(x, y).score(x, y)
    assert model.fit(x, y + 100).score(x, y + 100) == pytest.approx(plain, abs=1e-6)
    assert model.set_params(center=False).fit(x, y + 100).score(x, y + 100) < plain - 0.3


def test_mapping_with_a_constant_input(rng: np.random.Generator) -> None:
    x = np.column_stack([rng.random(60), np.full(60, 7.0)])
    mapping = MembershipMapping(random_state=0).fit(x, x[:, 0])
    np.testing.assert_allclose(mapping.inducing_points_[:, 1], 7.0)
    assert np.all(np.isfinite(mapping.predict(x + np.array([0.0, 1.0]))))


def test_autoencoder_is_algorithm_2(digits: tuple[np.ndarray, np.ndarray]) -> None:
    rows = digits[0][digits[1] == 2]
    model = MembershipAutoencoder(6, n_layers=3, center=False, random_state=4).fit(rows)
    slow = literal.algorithm_2(rows, 6, round(len(rows) / 2), 3, seed=seed_of(4))
    np.testing.assert_allclose(
        model.transform(rows[:30]), literal.filtered(slow, rows[:30]), atol=1e-7
    )
    assert model.n_inducing_ == [m["M"] for _, m in slow]
    stacked = np.stack(literal.outputs(slow, rows[:30]), axis=1)
    np.testing.assert_allclose(model.layer_outputs(rows[:30]), stacked, atol=1e-7)
    away = np.sum((rows[:30] - literal.filtered(slow, rows[:30])) ** 2, axis=1)
    np.testing.assert_allclose(model.errors(rows[:30]), away, rtol=1e-6)


def test_wide_autoencoder_keeps_the_nearest_output(digits: tuple[np.ndarray, np.ndarray]) -> None:
    rows = digits[0]
    model = WideMembershipAutoencoder(5, n_layers=2, branch_size=200, random_state=0).fit(rows)
    assert len(model.branches_) == 4
    away = np.sum((rows - model.transform(rows)) ** 2, axis=1)
    np.testing.assert_allclose(model.errors(rows), away, rtol=1e-9)
    single = []
    for branch in model.branches_:
        alone = WideMembershipAutoencoder().set_params(**model.get_params())
        alone.branches_, alone.n_features_in_ = [branch], 64
        single.append(alone.errors(rows))
    np.testing.assert_allclose(model.errors(rows), np.min(single, axis=0), rtol=1e-9)


def test_classifier_gives_the_class_with_the_least_error(
    digits: tuple[np.ndarray, np.ndarray],
) -> None:
    X, y = digits
    names = np.array(["zero", "one", "two", "three"])[y]
    model = MembershipClassifier(8, n_layers=2, branch_size=100, random_state=0).fit(
        X[:500], names[:500]
    )
    found = model.errors(X[500:])
    np.testing.assert_array_equal(model.predict(X[500:]), model.classes_[found.argmin(axis=1)])
    assert model.score(X[500:], names[500:]) > 0.97
    assert np.all(np.diff(model.branch_classes_) >= 0)
    own = np.arange(len(X) - 500) % 4
    filtered = model.filtered(X[500:], own)
    away = np.sum((X[500:] - filtered) ** 2, axis=1)
    np.testing.assert_allclose(away, found[np.arange(len(own)), own], rtol=1e-9)


def test_single_precision_is_close_and_jobs_do_not_matter(
    digits: tuple[np.ndarray, np.ndarray],
) -> None:
    X, y = digits
    one = MembershipClassifier(8, n_layers=2, random_state=0).fit(X, y)
    two = MembershipClassifier(8, n_layers=2, random_state=0, n_jobs=2).fit(X, y)
    single = MembershipClassifier(8, n_layers=2, random_state=0, dtype="float32").fit(X, y)
    np.testing.assert_array_equal(one.errors(X), two.errors(X))
    assert single.errors(X).dtype == np.float32
    np.testing.assert_allclose(single.errors(X), one.errors(X), atol=1e-4)


@pytest.mark.parametrize(
    "model",
    [
        MembershipMapping(random_state=0),
        MembershipAutoencoder(4, n_layers=2, random_state=0),
        WideMembershipAutoencoder(4, n_layers=2, branch_size=300, random_state=0),
        MembershipClassifier(4, n_layers=1, random_state=0, dtype="float32"),
    ],
    ids=lambda model: type(model).__name__,
)
def test_saved_models_answer_to_the_bit(
    model: object, digits: tuple[np.ndarray, np.ndarray], tmp_path: Path
) -> None:
    X, y = digits
    model.fit(X, y)
    sfumato.save(model, tmp_path / "model.sfumato")
    again = sfumato.load(tmp_path / "model.sfumato")
    method = "predict" if hasattr(model, "predict") else "transform"
    np.testing.assert_array_equal(getattr(model, method)(X), getattr(again, method)(X))


@pytest.mark.parametrize(
    ("parameters", "word"),
    [
        ({"n_components": 0}, "n_components"),
        ({"n_layers": 1.5}, "n_layers"),
        ({"inducing_ratio": 0.0}, "inducing_ratio"),
        ({"inducing_ratio": 1.2}, "inducing_ratio"),
        ({"kappa": -1.0}, "kappa"),
        ({"kappa": "much"}, "kappa"),
        ({"branch_size": 0}, "branch_size"),
        ({"dtype": "float16"}, "dtype"),
    ],
)
def test_wrong_parameters_are_named(
    parameters: dict[str, object], word: str, digits: tuple[np.ndarray, np.ndarray]
) -> None:
    with pytest.raises(InvalidInputError, match=f"'{word}'"):
        MembershipClassifier(**parameters).fit(*digits)


def test_wrong_outputs_are_refused() -> None:
    x = np.ones((3, 2))
    with pytest.raises(InvalidInputError, match="y"):
        MembershipMapping().fit(x, None)
    with pytest.raises(InvalidInputError, match="inconsistent"):
        MembershipMapping().fit(x, np.ones(4))
    with pytest.raises(InvalidInputError, match="numbers"):
        MembershipMapping().fit(x, ["secret", "b", "c"])
    with pytest.raises(InvalidInputError, match="NaN"):
        MembershipMapping().fit(x, [1.0, np.nan, 2.0])
