"""Bands against the fit without noise, computed independently; what explanations say."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from sfumato import Bounds, PrivateAdditiveClassifier, PrivateAdditiveRegressor
from sfumato.mechanisms.base import taped
from sfumato.mechanisms.entropy import seeded
from sfumato.models.additive import plot_explanation
from sfumato.models.additive.pairs import DEFAULT_SQUARE
from sfumato.models.linear import CONSTANT, whitened_rows

BOX = Bounds(lower=-1.0, upper=1.0, labels=[0, 1])
OPTIONS = {"delta": 1e-5, "relation": "add_or_remove_one", "bounds": BOX}


def synthetic(seed: int, n_rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n_rows, 4))
    truth = np.sin(3 * X[:, 0]) + np.abs(X[:, 1]) + 0.5 * X[:, 2]
    return X, truth, rng.random(n_rows)


def noiseless_coef(
    model: PrivateAdditiveClassifier, X: np.ndarray, y: np.ndarray, tape
) -> np.ndarray:
    """The same descent from the same knots and moment in plain doubles, without noise."""
    counts, moment = tape.releases[0].output, tape.releases[2].output
    mechanism = tape.releases[3].mechanism
    hats = model._hats()
    z, n_rows = hats(X), float(np.maximum(counts, 1).sum())
    first = tape.releases[2].mechanism
    noise = math.sqrt(first.variance())
    white, steepest = whitened_rows(moment, noise, n_rows, DEFAULT_SQUARE)
    projection, radius = white.projection, white.radius
    u = z @ projection
    u /= np.maximum(np.linalg.norm(u, axis=1, keepdims=True), radius)
    rows = np.column_stack([u, np.full(len(u), CONSTANT)]) / math.sqrt(1 + CONSTANT**2)
    noise = math.sqrt(model.n_steps * mechanism.variance()) / n_rows
    rate = min(1.6 * 0.1 / noise, 4 / steepest)
    rate = min(rate, 32.0 / model.max_gradient_norm)
    weights, move, total = np.zeros(rows.shape[1]), 0.0, 0.0
    for step in range(model.n_steps):
        slopes = np.clip(
            1 / (1 + np.exp(-rows @ weights)) - y, -model.max_gradient_norm, model.max_gradient_norm
        )
        move = 0.9 * move - rate * (slopes @ rows) / n_rows
        weights = weights + move
        total = total + weights * (step >= model.n_steps // 2)
    weights = total / (model.n_steps - model.n_steps // 2)
    length = radius * math.sqrt(1 + CONSTANT**2)
    return projection @ weights[:-1] * hats.height / length * model.score_factor_


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
def test_bands_cover_the_fit_without_noise(epsilon: float) -> None:
    covered, widths = [], []
    for seed in range(5):
        X, truth, uniform = synthetic(seed, 3000)
        y = (uniform < 1 / (1 + np.exp(-2 * truth))).astype(int)
        model = PrivateAdditiveClassifier(
            epsilon=epsilon, n_steps=60, n_knots=5, interactions=False, **OPTIONS
        )
        with seeded(seed), taped() as tape:
            model.fit(X, y)
        exact = noiseless_coef(model, X, y, tape)
        explanation = model.explain()
        for i, part in enumerate(model._hats().slices):
            curve = explanation[f"x{i}"]
            off = curve.curve[0] - (exact[part] - exact[part] @ model.hat_means_[part])
            covered.append(bool((np.abs(off) <= curve.band[0] + 1e-9).all()))
            widths.append(np.abs(off).max() / curve.band[0].max())
    assert np.mean(covered) >= 0.95  # of 20 columns: one may be missed
    assert np.median(widths) > 0.1  # and bands are not merely wide


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_curves_of_a_known_truth_lie_in_their_bands(epsilon: float) -> None:
    covered = []
    for seed in range(3):
        X, truth, uniform = synthetic(seed, 6000)
        y = truth + 0.2 * (uniform - 0.5)
        model = PrivateAdditiveRegressor(
            epsilon=epsilon,
            n_steps=100,
            n_knots=9,
            interactions=False,
            target_bounds=(-3, 3),
            **OPTIONS,
        )
        with seeded(seed):
            explanation = model.fit(X, y).explain()
        shapes = (lambda x: np.sin(3 * x), np.abs, lambda x: x / 2, lambda x: 0 * x)
        for i, shape in enumerate(shapes):
            curve = explanation[f"x{i}"]
            values = shape(np.array(curve.values))
            centred = values - shape(X[:, i]).mean()
            covered.append(bool((np.abs(curve.curve[0] - centred) <= curve.band[0]).all()))
    assert np.mean(covered) >= 0.95, covered  # all of 12, then


def test_what_matters_comes_first_and_can_be_stored(noise: None) -> None:
    X, truth, uniform = synthetic(0, 4000)
    y = (uniform < 1 / (1 + np.exp(-3 * truth))).astype(int)
    model = PrivateAdditiveClassifier(epsilon=3.0, n_steps=60, **OPTIONS).fit(X, y)
    explanation = model.explain()
    assert explanation.curves[0].name == "x0"
    assert explanation["x3"].importance < explanation["x0"].importance / 3
    assert explanation.scores == ("the score of 1",)
    text = json.dumps(explanation.to_dict())
    assert "sampling error" in text
    assert "importance" in str(explanation)
    figure = plot_explanation(explanation, n_columns=4)
    assert len(figure.axes) == 6
    for curve in explanation.curves:
        mean = curve.curve[0] @ model.hat_means_[model._hats().slices[int(curve.name[1])]]
        assert mean == pytest.approx(0, abs=1e-9)
