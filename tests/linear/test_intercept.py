"""The constant of the linear classifier: where rows get one by default."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from sfumato import Bounds, PrivateLinearClassifier, TableBounds, load, save


def fitted(bounds, width, **settings):
    X = np.random.default_rng(0).normal(size=(40, width))
    model = PrivateLinearClassifier(epsilon=50.0, delta=1e-5, n_steps=3, bounds=bounds, **settings)
    return model.fit(X, np.arange(40) % 2)


@pytest.mark.parametrize(
    ("bounds", "width", "settings", "has_constant"),
    [
        (Bounds(norm=1.0, labels=[0, 1]), 64, {}, False),
        (Bounds(norm=1.0, labels=[0, 1]), 63, {}, True),
        (Bounds(norm=1.0, labels=[0, 1]), 64, {"whiten": False}, True),
        (Bounds(norm=1.0, labels=[0, 1]), 64, {"fit_intercept": True}, True),
        (Bounds(lower=0.0, upper=1.0, labels=[0, 1]), 64, {}, True),
        (Bounds(lower=(-1.0,) * 64, upper=(1.0,) * 64, labels=[0, 1]), 64, {}, True),
        (Bounds(lower=0.0, upper=1.0, labels=[0, 1]), 64, {"fit_intercept": False}, False),
    ],
)
def test_a_constant_is_appended_by_public_facts(bounds, width, settings, has_constant, tmp_path):
    model = fitted(bounds, width, **settings)
    assert bool(model.intercept_.any()) == has_constant
    rows = np.random.default_rng(1).normal(size=(5, width))
    save(model, tmp_path / "model.sfumato")
    stored = load(tmp_path / "model.sfumato")
    np.testing.assert_array_equal(stored.decision_function(rows), model.decision_function(rows))


def test_tables_with_categories_do_without_a_constant():
    facts = {"x": (0.0, 1.0), "kind": [f"k{i}" for i in range(8)], "y": ["no", "yes"]}
    bounds = TableBounds.from_dict(facts, target="y")
    frame = pd.DataFrame({"x": np.linspace(0, 1, 40), "kind": [f"k{i % 8}" for i in range(40)]})
    labels = np.array(["no", "yes"])[np.arange(40) % 2]
    settings = {"epsilon": 50.0, "delta": 1e-5, "n_steps": 3}
    model = PrivateLinearClassifier(bounds=bounds, **settings).fit(frame, labels)
    assert not model.intercept_.any()
    numbers = TableBounds.from_dict({"x": (0.0, 1.0), "y": ["no", "yes"]}, target="y")
    model = PrivateLinearClassifier(bounds=numbers, **settings).fit(frame[["x"]], labels)
    assert model.intercept_.any()
