"""Mappings and autoencoders against Algorithms 1 and 2 as printed, and where they never end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

import sfumato
from sfumato import MembershipAutoencoder, MembershipClassifier, MembershipMapping
from sfumato.models.mappings import (
    SEEDS,
    choose_inducing,
    fit_branch,
    layer_outputs,
    nearest_output,
)
from tests.models import literal_mappings as literal

Digits = tuple[np.ndarray, np.ndarray]


def digit_rows(digit: int = 8, noise: float = 0.0, seed: int = 0) -> np.ndarray:
    X, y = load_digits(return_X_y=True)
    rows = X[y == digit] / 16
    return rows + noise * np.random.default_rng(seed).laplace(size=rows.shape)


def branch_of(rows: np.ndarray, n: int, n_layers: int = 3, **options: object) -> dict:
    usual = {"inducing_ratio": 0.5, "kappa": 0.1, "center": False, "seed": 3}
    return fit_branch(rows, n_components=n, n_layers=n_layers, **(usual | options))


@pytest.mark.parametrize("n", [12, 5])
@pytest.mark.parametrize("noise", [0.0, 10.0], ids=["clean", "noisy"])
@pytest.mark.parametrize("start", [0, 1])
def test_equals_the_printed_algorithms(n: int, noise: float, start: int) -> None:
    rows = digit_rows(3 + start, noise)
    fast = branch_of(rows, n, seed=start)
    slow = literal.algorithm_2(rows, n, round(len(rows) / 2), 3, seed=start)
    assert [len(each["inducing"]) for each in fast["layers"]] == [m["M"] for _, m in slow]
    for here, (_, there) in zip(fast["layers"], slow, strict=True):
        assert here["noise_precision"] == pytest.approx(there["beta"], rel=1e-7)
        assert here["variance"] == pytest.approx(there["variance"], rel=1e-7)
    queries = np.vstack([rows[:40], digit_rows(1)[:20]])
    span = np.ptp(rows)
    for one, other in zip(
        layer_outputs(fast, queries), literal.outputs(slow, queries), strict=True
    ):
        np.testing.assert_allclose(one, other, atol=1e-7 * span)
    np.testing.assert_allclose(
        nearest_output(fast, queries)[0], literal.filtered(slow, queries), atol=1e-7 * span
    )


@pytest.mark.parametrize("n", [1, 2, 4, 9])
@pytest.mark.parametrize("most", [5, 60])
@pytest.mark.parametrize("first_layer", [True, False])
def test_galloping_finds_the_place_where_a_walk_would_stop(
    n: int, most: int, first_layer: bool
) -> None:
    x = np.random.default_rng(n).normal(size=(120, n))
    x -= x.mean(axis=0)
    scale = 1 / np.ptp(x, axis=0)
    found = choose_inducing(x, scale, most, kappa=0.1, seed=0, first_layer=first_layer)
    size = most
    while size > 1 and literal.tau(x, literal.clusters(x, size, 0), scale**2, 1.0) < 0.1:
        size = min(-(-9 * size // 10), size - 1)
    assert len(found.points) == size


@pytest.fixture(scope="module")
def digits() -> Digits:
    X, y = load_digits(n_class=4, return_X_y=True)
    return X / 16, y


def test_mapping_is_algorithm_1(rng: np.random.Generator) -> None:
    x, Y = rng.random((90, 3)), rng.random((90, 2))
    mapping = MembershipMapping(center=False, random_state=1).fit(x, Y)
    seed = np.random.RandomState(1).randint(SEEDS)
    slow = literal.algorithm_1(x, Y, 45, kappa=0.1, seed=seed, width=2)
    queries = rng.random((20, 3))
    np.testing.assert_allclose(
        mapping.predict(queries), literal.prediction(slow, queries), atol=1e-8
    )
    points = mapping.scaled_points_ / mapping.scale_ + mapping.origin_
    np.testing.assert_allclose(points, slow["a"], atol=1e-12)
    assert mapping.noise_precision_ == pytest.approx(slow["beta"], rel=1e-7)
    assert mapping.kernel_variance_ == pytest.approx(slow["variance"], rel=1e-7)


def test_classifier_gives_the_class_with_the_least_error(digits: Digits) -> None:
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


@pytest.mark.parametrize("xp", ["array_api_strict", pytest.param("torch", marks=pytest.mark.torch)])
@pytest.mark.parametrize(
    "model",
    [
        MembershipMapping(random_state=0),
        MembershipAutoencoder(4, n_layers=2, random_state=0),
        MembershipClassifier(4, n_layers=1, random_state=0, dtype="float32"),
    ],
    ids=lambda model: type(model).__name__,
)
def test_tensors_and_saved_models_answer_alike(
    xp: str, model: Any, digits: Digits, tmp_path: Path
) -> None:
    asarray = pytest.importorskip(xp, reason="PyTorch is not installed").asarray
    # Few grey values lie as far from one centre as from another, and rounding, which each library
    # does in its own way, would choose.
    X = digits[0][:, 20:40] + 1e-3 * np.random.default_rng(0).random((len(digits[0]), 20))
    y = digits[1] if hasattr(model, "classes_") or "Classifier" in type(model).__name__ else X[:, 0]
    method = "predict" if hasattr(model, "predict") else "transform"
    expected = getattr(model.fit(X, y), method)(X)
    sfumato.save(model, tmp_path / "model.sfumato")
    again = sfumato.load(tmp_path / "model.sfumato")
    np.testing.assert_array_equal(getattr(again, method)(X), expected)
    answer = getattr(model.fit(asarray(X), y), method)(asarray(X))
    assert type(answer) is type(asarray(X))
    np.testing.assert_allclose(np.asarray(answer), expected, atol=1e-3)
