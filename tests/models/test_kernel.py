"""Private kernel machines: oracles, sensitivity, promises, utility."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import huber

from sfumato import Bounds
from sfumato.exceptions import InvalidInputError
from sfumato.mechanisms.base import taped
from sfumato.models import kernel
from sfumato.models.features import features_from_dict
from sfumato.models.kernel import PrivateKernelClassifier, PrivateKernelRegressor

BOX = Bounds(lower=0.0, upper=1.0, labels=[0, 1])
BOX3 = Bounds(lower=0.0, upper=1.0, labels=[0, 1, 2])


# Without noise ----------------------------------------------------------------------------------


def test_regressor_minimises_the_huber_loss(rng: np.random.Generator) -> None:
    X = rng.uniform(size=(120, 1))
    y = np.sin(6 * X[:, 0])
    ours = PrivateKernelRegressor(
        target_bounds=(-2.0, 2.0), bandwidth=0.2, regularization=0.01, epsilon=np.inf,
        tolerance=1e-3, bounds=BOX,
    ).fit(X, y)  # fmt: skip
    mapped = features_from_dict(ours.features_).transform(X)

    def objective(w: np.ndarray) -> float:
        return float(huber(0.1, mapped @ w - y / 2).mean() / 0.1 + 0.01 * w @ w)

    oracle = minimize(objective, np.zeros(mapped.shape[1]), tol=1e-12).x
    np.testing.assert_allclose(ours.predict(X), 2 * mapped @ oracle, atol=1e-3)


# Sensitivity and noise --------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["huber", "hinge"])
@pytest.mark.parametrize("regularization", [0.01, 1.0])
def test_neighbours_stay_within_the_sensitivity(
    loss: str, regularization: float, rng: np.random.Generator
) -> None:
    shares = []
    for n_classes, bounds in ((2, BOX), (3, BOX3)):
        model = PrivateKernelClassifier(
            loss, bandwidth=0.4, regularization=regularization, delta=1e-3, bounds=bounds
        )
        for trial in range(6):
            X, y = rng.uniform(size=(15, 2)), rng.integers(n_classes, size=15)
            other, y_other = X.copy(), y.copy()
            y_other[0] = (y[0] + 1) % n_classes
            if trial % 2:
                other[0] = rng.uniform(size=2)
            with taped() as tape:
                model.fit(X, y)
                model.fit(other, y_other)
            here, there = (np.asarray(each.statistic) for each in tape.releases)
            shares.append(np.linalg.norm(here - there) / tape.releases[0].mechanism.sensitivity)
    assert max(shares) <= 1
    if loss == "hinge" and regularization == 1.0:
        assert max(shares) > 0.98  # the label turned where the loss is linear


def test_noise_of_a_score(rng: np.random.Generator) -> None:
    X, y = rng.uniform(size=(200, 2)), rng.integers(2, size=200)
    settings = {"bandwidth": 0.4, "regularization": 0.1, "delta": 1e-5, "bounds": BOX}
    plain = PrivateKernelClassifier(epsilon=np.inf, **settings).fit(X, y)
    x = np.array([[0.5, 0.5]])
    exact = plain.decision_function(x)
    noise = [
        (PrivateKernelClassifier(**settings).fit(X, y).decision_function(x) - exact).item()
        for _ in range(60)
    ]
    stated = PrivateKernelClassifier(**settings).fit(X, y).noise_std_
    assert stated == pytest.approx(3.7306 * 1.01 / (0.1 * 200), rel=2e-3)
    assert np.std(noise) == pytest.approx(stated, rel=0.4)


@pytest.mark.parametrize("n", [1000, 20_000])
def test_no_row_decides_whether_a_fit_ends(n: int) -> None:
    """Two places, labels at random: rows stand at the kink together, and one row tips them."""
    X = np.where(np.arange(n) % 2, 0.1, 0.9)[:, None]
    for seed in range(3):
        y = np.random.default_rng(seed).integers(2, size=n)
        for first in (0.9, 0.5):
            X[0] = first
            for loss in ("hinge", "huber"):
                model = PrivateKernelClassifier(
                    loss, bandwidth=0.5, tolerance=1e-3, regularization=17 / n, bounds=BOX
                )
                model.fit(X, y)
            regressor = PrivateKernelRegressor(
                target_bounds=(0.0, 1.0), bandwidth=0.5, regularization=17 / n,
                tolerance=1e-3, bounds=BOX,
            )  # fmt: skip
            regressor.fit(X, y)


@pytest.mark.parametrize("loss", ["hinge", "huber"])
def test_what_doubles_cannot_certify_is_refused_whatever_the_rows_are(
    loss: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel, "ROUNDING_SHARE", 1e-12)  # as if there were a billion times more
    model = PrivateKernelClassifier(loss, regularization=1e-4, bounds=BOX)
    for X in (np.zeros((3, 1)), np.ones((50, 1))):
        with pytest.raises(InvalidInputError, match="doubles certify"):
            model.fit(X, np.arange(len(X)) % 2)
