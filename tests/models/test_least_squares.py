"""Kernel least squares at the fixed point, against its definition; certified eigenvectors."""

from __future__ import annotations

from typing import Any

import array_api_strict
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from sfumato.core.arrays import regularized_solver
from sfumato.models import least_squares
from sfumato.models.least_squares import (
    N_LEADING,
    gaussian_kernel,
    leading_eigenvectors,
    solve_at_fixed_point,
)

N_WANTED = 12


def problem(seed: int, scale: float = 1.0, n: int = 30, p: int = 4) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    Y = scale * rng.random((n, p))
    return gaussian_kernel(rng.normal(size=(n, 3))), Y, 2 * np.mean(Y**2)


def literal_residual(kernel: Any, Y: Any, e: float, tau: float) -> float:
    fitted = kernel @ np.linalg.solve(kernel + (e + tau) * np.eye(len(Y)), Y)
    return float(np.mean((Y - fitted) ** 2))


def mean_squared_residual(kernel: Any, Y: Any, regularization: float) -> tuple[float, float]:
    """R and dR/de of Theorem 1 at ``e + τ = regularization``."""
    solve = regularized_solver(kernel, np.asarray(regularization))
    once = solve(Y)
    square, cube = np.mean(once * once), np.mean(once * solve(once))
    return regularization**2 * square, 2 * regularization * (square - regularization * cube)


def mean_square(solution: Any) -> Any:
    return np.mean(solution**2)


def solve(kernel: Any, Y: Any, tau: float, start: Any = None, **words: Any) -> Any:
    return solve_at_fixed_point(kernel, Y, mean_square, tau=np.asarray(tau), start=start, **words)


@pytest.fixture
def factored(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Types of the matrices that are factored."""
    found: list[Any] = []

    def counted(matrix: Any, shift: Any) -> Any:
        found.append(matrix.dtype)
        return regularized_solver(matrix, shift)

    monkeypatch.setattr(least_squares, "regularized_solver", counted)
    return found


@settings(max_examples=30)
@given(st.integers(0, 1000), st.sampled_from([1e-3, 0.1, 1.0, 30.0]), st.floats(0.01, 3.0))
def test_residual_and_derivative_lie_in_the_ranges_of_theorem_1(
    seed: int, scale: float, share: float
) -> None:
    kernel, Y, tau = problem(seed, scale)
    at = tau * (1 + share)
    residual, slope = mean_squared_residual(kernel, Y, at)
    assert 0 < residual < np.mean(Y**2)
    np.testing.assert_allclose(residual, literal_residual(kernel, Y, share * tau, tau), rtol=1e-8)
    assert 0 < slope < 2 / at * np.mean(Y**2)
    above, below = (mean_squared_residual(kernel, Y, at * (1 + d))[0] for d in (1e-4, -1e-4))
    np.testing.assert_allclose(slope, (above - below) / (2e-4 * at), rtol=1e-5)


@pytest.mark.parametrize("scale", [1e-3, 0.1, 1.0, 30.0])
def test_the_fixed_point_is_the_same_from_any_start(seed: int, scale: float) -> None:
    kernel, Y, tau = problem(seed, scale)
    found = []
    for share, slope in ((1e-6, 0.0), (0.2, 0.0), (0.499, 0.0), (0.4, 0.85)):
        e = share * tau
        for _ in range(200):
            e = literal_residual(kernel, Y, e, tau)
        start = np.asarray(share * tau), np.asarray(slope)
        found += [tau + e, float(solve(kernel, Y, tau, start).regularization)]
    np.testing.assert_allclose(found, found[0], rtol=1e-7)


def test_the_solution_belongs_to_the_fixed_point_also_in_batches(seed: int) -> None:
    cases = [problem(seed + i, scale) for i, scale in enumerate((1.0, 0.1, 5.0))]
    kernels, responses, taus = (np.stack(x) for x in zip(*cases, strict=True))
    batch = solve_at_fixed_point(
        kernels, responses, lambda b: np.mean(b**2, axis=(-2, -1)), tau=taus
    )
    for i, (kernel, Y, tau) in enumerate(cases):
        found = solve(kernel, Y, tau)
        at = float(found.regularization)
        expected = np.linalg.solve(kernel + at * np.eye(len(Y)), Y)
        np.testing.assert_allclose(found.coefficients, expected, rtol=1e-9, atol=1e-11)
        residual, slope = mean_squared_residual(kernel, Y, at)
        np.testing.assert_allclose(at, tau + residual, rtol=1e-9)
        np.testing.assert_allclose(float(found.slope), slope, rtol=0.1)
        np.testing.assert_allclose(batch.regularization[i], at, rtol=1e-9)
        np.testing.assert_allclose(batch.coefficients[i], expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("scale", [0.1, 1.0, 30.0])
def test_a_solution_for_single_precision_is_corrected_without_a_second_factoring(
    seed: int, scale: float, factored: list[Any]
) -> None:
    kernel, Y, tau = problem(seed, scale, n=300)
    found = solve(kernel, Y, tau, correct=False)
    assert set(factored) == {np.dtype("float32")}
    exact = solve(kernel, Y, tau)
    np.testing.assert_allclose(found.regularization, exact.regularization, rtol=1e-6)
    away = np.linalg.norm(found.coefficients - exact.coefficients)
    assert away < 1e-5 * np.linalg.norm(exact.coefficients)


# Eigenvectors -----------------------------------------------------------------------------------


def matrices(rng: np.random.Generator, decay: float = 0.9, p: int = 150) -> np.ndarray:
    """Two positive definite matrices with eigenvalues ``decay**i``, the second ten times those."""
    turned = [np.linalg.qr(rng.standard_normal((p, p)))[0] for _ in range(2)]
    return np.stack([(u * (10.0**i * decay ** np.arange(p))) @ u.T for i, u in enumerate(turned)])


@pytest.mark.parametrize("array", [np.asarray, array_api_strict.asarray])
def test_leading_eigenvectors_are_those_of_lapack(rng: np.random.Generator, array: Any) -> None:
    stack = matrices(rng)
    found = leading_eigenvectors(array(stack), N_WANTED)
    assert found is not None
    values, vectors = (np.asarray(part) for part in found)
    assert vectors.shape == (2, 150, N_LEADING)
    expected, directions = (part[..., ::-1] for part in np.linalg.eigh(stack))
    np.testing.assert_allclose(values[:, :N_WANTED], expected[:, :N_WANTED], rtol=1e-11)
    overlap = np.sum(vectors[..., :N_WANTED] * directions[..., :N_WANTED], axis=1)
    np.testing.assert_allclose(np.abs(overlap), 1.0, rtol=1e-12)


def test_nothing_is_given_that_is_not_certain(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a flat spectrum, of low rank, or where the start has no share of a large direction."""
    assert leading_eigenvectors(matrices(rng, 0.999), N_WANTED) is None
    rows = rng.standard_normal((30, 150))
    assert leading_eigenvectors(np.stack([rows.T @ rows] * 2), N_WANTED) is None
    stack = np.diag(np.append(0.9 ** np.arange(149), 5.0))
    start = rng.standard_normal((150, N_LEADING))
    start[-1] = 0.0
    monkeypatch.setattr(
        least_squares, "like", lambda matrix, given: start if given.shape == start.shape else given
    )
    assert leading_eigenvectors(stack, N_WANTED) is None
    monkeypatch.setattr(least_squares, "_require_nothing_above", lambda *given: None)
    found = leading_eigenvectors(stack, N_WANTED)
    assert found is not None  # without the certificate it would have passed
    assert found[0][0] < 2
