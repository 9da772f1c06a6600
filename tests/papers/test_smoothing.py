"""Definition 13 and 14 against the printed formulas, and the stopping rules."""

from __future__ import annotations

import array_api_strict
import numpy as np
import pytest
from hypothesis import given, strategies as st

from sfumato.papers.kahm.smoothing import Stop, fabricate_groups, fabricate_rows, modelling_error
from tests.models.literal_hulls import LiteralHull


def literal_fabrication(Y: np.ndarray, n: int, passes: int) -> np.ndarray:
    """Equations (80) to (82) and (89), one matrix at a time."""
    for _ in range(passes - 1):
        hull = LiteralHull(Y, n)
        sums = hull.h(Y).sum(axis=1, keepdims=True)
        Y = sums * hull.image(Y)
    return LiteralHull(Y, n).image(Y)


def literal_error(Y: np.ndarray, n: int) -> float:
    return float(np.linalg.norm(Y - LiteralHull(Y, n).image(Y), axis=1).sum())


@pytest.mark.parametrize("passes", [1, 2, 4])
@pytest.mark.parametrize("shape", [(40, 6), (12, 30)])
def test_equals_the_printed_recursion(
    rng: np.random.Generator, passes: int, shape: tuple[int, int]
) -> None:
    Y = rng.random(shape) + 0.2 * rng.laplace(size=shape)
    found = fabricate_rows(Y, n_components=3, stop=Stop(passes))
    assert found.n_passes == passes
    np.testing.assert_allclose(found.rows, literal_fabrication(Y, 3, passes), atol=1e-10)


def test_single_precision_is_close(rng: np.random.Generator) -> None:
    Y = rng.random((60, 8)) + rng.laplace(size=(60, 8))
    exact, fast = (
        fabricate_rows(Y, n_components=4, stop=Stop(3), dtype=dtype).rows
        for dtype in ("float64", "float32")
    )
    np.testing.assert_allclose(fast, exact, atol=1e-4)


def test_modelling_error_is_equation_88(rng: np.random.Generator) -> None:
    Y = rng.random((30, 5))
    assert modelling_error(Y, n_components=2) == pytest.approx(literal_error(Y, 2), rel=1e-10)


@given(st.integers(0, 10_000), st.floats(0.05, 0.9))
def test_a_threshold_stops_at_the_first_pass_below_it(seed: int, ratio: float) -> None:
    Y = np.random.default_rng(seed).normal(size=(15, 3))
    stop = Stop(6, threshold=ratio * literal_error(Y, 2))
    found = fabricate_rows(Y, n_components=2, stop=stop)
    errors = []
    for _ in range(6):
        errors.append(literal_error(Y, 2))
        hull = LiteralHull(Y, 2)
        Y = hull.K @ hull.inverse @ Y
    below = [i + 1 for i, error in enumerate(errors) if error <= ratio * errors[0]]
    assert found.n_passes == (below[0] if below else 6)


def test_threshold_of_the_paper_and_the_cap(rng: np.random.Generator) -> None:
    Y = rng.random((40, 4))
    noisy = Y + rng.laplace(size=Y.shape)
    r = modelling_error(Y, n_components=3)
    found = fabricate_rows(noisy, n_components=3, stop=Stop(60, threshold=r))
    assert 1 < found.n_passes < 60
    never = fabricate_rows(noisy, n_components=3, stop=Stop(5, threshold=0.0))
    assert never.n_passes == 5
    at_once = fabricate_rows(noisy, n_components=3, stop=Stop(5, threshold=np.inf))
    assert at_once.n_passes == 1


def test_error_falls_from_pass_to_pass(rng: np.random.Generator) -> None:
    Y = rng.random((50, 6)) + rng.laplace(size=(50, 6))
    errors = []
    for _ in range(8):
        errors.append(literal_error(Y, 4))
        hull = LiteralHull(Y, 4)
        Y = hull.K @ hull.inverse @ Y
    assert errors == sorted(errors, reverse=True)


@pytest.mark.parametrize(
    "Y",
    [
        np.full((5, 3), 0.3),
        np.zeros((4, 2)),
        np.array([[0.1, 0.2, 0.3]]),
        np.array([[0.0, 1.0], [1.0, 1.0]]),
        np.column_stack([np.linspace(0, 1, 9), np.ones(9)]),
    ],
    ids=["equal", "zero", "one row", "two rows", "constant column"],
)
def test_degenerate_rows_stay_finite(Y: np.ndarray) -> None:
    found = fabricate_rows(Y, n_components=20, stop=Stop(3)).rows
    assert found.shape == Y.shape
    assert np.isfinite(found).all()
    if len(np.unique(Y, axis=0)) == 1:
        np.testing.assert_array_equal(found, Y)


def test_groups_are_fabricated_one_by_one(
    rng: np.random.Generator, capsys: pytest.CaptureFixture[str]
) -> None:
    groups = [rng.random((n, 4)) for n in (9, 1, 20)]
    stops = [Stop(1), Stop(2), Stop(2)]
    found = fabricate_groups(
        groups, n_components=2, stops=stops, dtype="float64", n_jobs=2, verbose=True
    )
    for rows, stop, one in zip(groups, stops, found, strict=True):
        alone = fabricate_rows(rows, n_components=2, stop=stop)
        np.testing.assert_array_equal(one.rows, alone.rows)
        assert one.n_passes == alone.n_passes
    assert "Fabricating" in capsys.readouterr().err


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_other_arrays_give_the_same(rng: np.random.Generator, dtype: str) -> None:
    Y = rng.random((30, 6))
    plain = fabricate_rows(Y, n_components=3, stop=Stop(3), dtype=dtype)
    strict = array_api_strict.asarray(Y)
    foreign = fabricate_rows(strict, n_components=3, stop=Stop(3), dtype=dtype)
    assert type(foreign.rows) is type(strict)
    np.testing.assert_allclose(np.asarray(foreign.rows), plain.rows, atol=1e-6)
