"""The private mean curve: oracle, clipping, irregular grids, utility."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge

from sfumato import Bounds
from sfumato.mechanisms.base import taped
from sfumato.models.curves import MIN_SMOOTHING, CurveSum, PrivateMeanCurve, smoothing_weights
from sfumato.models.features import GaussianKernel

RANGE = Bounds(lower=-1.0, upper=1.0)
T = np.linspace(0, 1, 40)


def curves(rng: np.random.Generator, n: int) -> np.ndarray:
    phases = rng.normal(0, 0.3, size=(n, 1))
    return 0.7 * np.sin(6 * T + phases) + 0.05 * rng.normal(size=(n, len(T)))


def test_smoothing_is_kernel_ridge_regression(rng: np.random.Generator) -> None:
    """``(K + λ m I) a = y`` for each curve on the points where it was seen."""
    Y = curves(rng, 4)
    seen = rng.random(Y.shape) < 0.6
    gram = GaussianKernel(0.2)(T[:, None], T[:, None])
    for y, mask in zip(Y, seen, strict=True):
        a = y[mask] @ smoothing_weights(gram, mask, 0.01)
        oracle = KernelRidge(alpha=0.01 * mask.sum(), kernel="rbf", gamma=1 / (2 * 0.2**2))
        oracle.fit(T[mask, None], y[mask])
        np.testing.assert_allclose(a[mask], oracle.dual_coef_, atol=1e-9)
        assert not a[~mask].any()
    assert smoothing_weights(gram, mask & False, 0.01).shape == (0, 40)


def test_missing_values_are_points_not_seen(rng: np.random.Generator) -> None:
    Y = curves(rng, 400)
    holes = Y.copy()
    holes[rng.random(Y.shape) < 0.4] = np.nan
    holes[0] = np.nan  # a curve of which nothing is known is flat
    full = PrivateMeanCurve(T, epsilon=np.inf, bounds=RANGE).fit(Y)
    partial = PrivateMeanCurve(T, epsilon=np.inf, bounds=RANGE).fit(holes)
    assert np.abs(full.curve(T) - partial.curve(T)).max() < 0.05


def test_replacing_a_curve_stays_within_the_sensitivity(rng: np.random.Generator) -> None:
    shares = []
    for relation in ("replace_one", "add_or_remove_one"):
        model = PrivateMeanCurve(T, norm=1.0, relation=relation, delta=1e-3, bounds=RANGE)
        for trial in range(20):
            Y = curves(rng, 12)
            other = Y.copy()
            Y[0], other[0] = (1.0, -1.0) if trial == 0 else rng.uniform(-9, 9, size=(2, len(T)))
            if relation == "add_or_remove_one":
                other = Y[1:]
            statistics = []
            for rows in (Y, other):
                with taped() as tape:
                    model.fit(rows)
                statistics.append(np.asarray(tape.releases[0].statistic))
            moved = np.linalg.norm(statistics[0] - statistics[1])
            shares.append(moved / tape.releases[0].mechanism.sensitivity)
        assert max(shares) <= 1
    assert max(shares) > 0.99


def test_stated_noise_is_the_noise(rng: np.random.Generator) -> None:
    Y = curves(rng, 300)
    exact = PrivateMeanCurve(T, epsilon=np.inf, bounds=RANGE).fit(Y).curve(T)
    models = [PrivateMeanCurve(T, delta=1e-5, bounds=RANGE).fit(Y) for _ in range(200)]
    noise = np.array([model.curve(T) - exact for model in models])
    stated = models[0].noise_std(T)
    np.testing.assert_allclose(noise.std(axis=0), stated, rtol=0.3)
    # 2 τ / n times 3.73, and the length of φ is 1 at the points.
    np.testing.assert_allclose(stated, 3.7306 * 2 * 2.0 / 300, rtol=2e-3)


@pytest.mark.parametrize("norm", [0.3, 1.0, 2.0, 7.0])
def test_a_curve_is_counted_with_the_weight_that_costs_least(norm: float) -> None:
    """Worst variance at a point, over the weights of the count; the old weight was the norm."""
    model = PrivateMeanCurve(T, relation="add_or_remove_one", norm=norm, bounds=RANGE)
    with taped() as tape:
        model.fit(np.zeros((10, len(T))))

    def worst(weight: float) -> float:
        largest = np.linspace(0, min(norm, 1.0), 50)
        return float(((norm**2 + weight**2) * (1 + largest**2 / weight**2)).max())

    least = min(worst(w) for w in np.geomspace(norm / 20, norm * 20, 400))
    weight = float(tape.releases[0].statistic[-1]) / 10  # of curves divided by their norm
    assert worst(norm * weight) <= 1.001 * least
    assert worst(norm * weight) <= 1.001 * worst(norm)
    paid = norm * CurveSum(len(T), weight).sensitivity("add_or_remove_one", 10)
    assert paid <= 1.002 * np.sqrt(2) * norm  # 2.45 for 2.83 at norm 2
    if norm == 2.0:
        assert paid == pytest.approx(6**0.5, rel=2e-3)


def test_the_least_smoothing_works_for_every_pattern_of_holes(rng: np.random.Generator) -> None:
    """The kernel matrix of near points is singular in doubles; what was seen decides how much."""
    Y = np.full((40, 200), 0.1)
    for row, share in zip(Y, np.linspace(0, 1, 40), strict=True):
        row[rng.random(200) < share] = np.nan
    model = PrivateMeanCurve(length=1.0, smoothing=MIN_SMOOTHING, delta=1e-5, bounds=RANGE)
    assert np.isfinite(model.fit(Y).coefficients_).all()


@pytest.mark.filterwarnings("default:The noise of this mean curve:UserWarning")
def test_a_curve_that_is_mostly_noise_is_pointed_out(recwarn: pytest.WarningsRecorder) -> None:
    t = np.linspace(0, 1, 20)
    shape = np.sin(2 * np.pi * t) + np.zeros((3000, 1))
    for n, said in ((3000, 0), (30, 1)):  # 30 curves: the noise is larger than the sine
        recwarn.clear()
        PrivateMeanCurve(
            epsilon=1.0, delta=1e-5, relation="replace_one", bounds=Bounds(lower=-2, upper=2)
        ).fit(shape[:n])
        assert sum("noise of this mean curve" in str(w.message) for w in recwarn) == said
