"""The fast autoencoder against Algorithms 1 and 2 as printed, and where they would never end."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits

from sfumato.models.mapping_layers import (
    choose_inducing,
    errors,
    filtered,
    fit_branch,
    fit_layer,
    layer_outputs,
    sizes_below,
)
from tests.mappings import literal


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
        filtered(fast, queries), literal.filtered(slow, queries), atol=1e-7 * span
    )


def test_errors_are_those_of_the_filtered_rows() -> None:
    rows = digit_rows()
    branch = branch_of(rows, 6, center=True)
    centred = rows - branch["centre"]
    np.testing.assert_allclose(
        errors(branch, centred), np.sum((centred - filtered(branch, centred)) ** 2, axis=1)
    )


def test_an_offset_harms_only_without_centring() -> None:
    rows = digit_rows()
    plain, moved = branch_of(rows, 6, center=True), branch_of(rows + 50, 6, center=True)
    np.testing.assert_allclose(
        filtered(plain, rows - plain["centre"]),
        filtered(moved, rows + 50 - moved["centre"]),
        atol=1e-6,
    )
    printed = branch_of(rows + 50, 6, center=False)
    away = errors(printed, rows + 50).mean()
    assert away > 2 * errors(plain, rows - plain["centre"]).mean()


def test_a_rotation_into_more_coordinates_changes_nothing() -> None:
    """Equation (79) is an isometry, if averages keep the wider p."""
    rows = digit_rows() @ np.linalg.qr(np.random.default_rng(0).normal(size=(64, 20)))[0]
    wide = rows @ np.linalg.qr(np.random.default_rng(1).normal(size=(90, 20)))[0].T
    narrow, broad = branch_of(rows, 6, width=90), branch_of(wide, 6)
    np.testing.assert_allclose(errors(narrow, rows), errors(broad, wide), rtol=1e-9)
    other = branch_of(rows, 6, width=20)
    assert not np.allclose(errors(narrow, rows), errors(other, rows), rtol=1e-9)


def test_the_list_of_sizes_goes_down_to_one() -> None:
    assert sizes_below(12) == [12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1]
    assert sizes_below(100)[:4] == [100, 90, 81, 73]
    assert sizes_below(1) == [1]


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
    for size in sizes_below(most):
        a = literal.clusters(x, size, 0)
        if literal.tau(x, a, scale**2, 1.0) >= 0.1 or size == 1:
            break
    assert len(found.points) == size


def test_ten_labels_end_below_nine_points() -> None:
    """As printed ceil(0.9 · 9) = 9: the loop would stand still at tau(9) < kappa."""
    rows = digit_rows()[:10]
    branch = branch_of(rows, 9, n_layers=1, inducing_ratio=1.0)
    assert len(branch["layers"][0]["inducing"]) <= 8


HARD = {
    "one row": np.ones((1, 4)),
    "two rows": np.eye(2, 4),
    "three rows": np.eye(3, 4),
    "one feature": np.linspace(0, 1, 30)[:, None],
    "two features": np.random.default_rng(0).random((30, 2)),
    "duplicates": np.repeat(np.random.default_rng(0).random((5, 4)), 10, axis=0),
    "identical": np.full((20, 4), 0.3),
    "zero": np.zeros((20, 4)),
    "a constant feature": np.column_stack([np.random.default_rng(0).random((30, 3)), np.ones(30)]),
    "large": 1e6 * np.random.default_rng(0).random((30, 4)),
    "small": 1e-6 * np.random.default_rng(0).random((30, 4)),
    "wider than long": np.random.default_rng(0).random((10, 50)),
}


@pytest.mark.parametrize("rows", HARD.values(), ids=HARD.keys())
@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_hard_rows_end_with_finite_outputs(rows: np.ndarray, center: bool, dtype: str) -> None:
    branch = branch_of(rows, 20, n_layers=4, inducing_ratio=1.0, center=center, dtype=dtype)
    found = filtered(branch, (rows - branch["centre"]).astype(dtype))
    assert np.all(np.isfinite(found))
    assert all(np.isfinite(layer["noise_precision"]) for layer in branch["layers"])
    if center:  # the mean is always within reach
        spread = np.sum((rows - rows.mean(axis=0)) ** 2)
        left = np.sum((rows - branch["centre"] - found) ** 2)
        assert left <= spread * 1.01 + 1e-12


def test_a_layer_keeps_its_outputs_at_the_training_inputs() -> None:
    rng = np.random.default_rng(0)
    x, Y = rng.random((80, 3)), rng.random((80, 2))
    layer, outputs = fit_layer(x, Y, max_points=40, kappa=0.1, seed=0, width=2)
    slow = literal.algorithm_1(x, Y, 40, kappa=0.1, seed=0, width=2)
    np.testing.assert_allclose(outputs, literal.prediction(slow, x), atol=1e-8)
    assert layer["tau"] == pytest.approx(literal.tau(x, slow["a"], slow["w"], 1.0), rel=1e-6)
