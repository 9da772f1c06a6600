import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.spatial.distance import cdist

from sfumato.core.arrays import regularized_solver
from sfumato.models import least_squares
from sfumato.models.least_squares import (
    gaussian_kernel,
    relative_gaussian_kernel,
    rounding_of_kernel,
    solve_at_fixed_point,
    solve_in_one_factoring,
)


def problem(seed, scale=1.0, n=30, p=4):
    rng = np.random.default_rng(seed)
    Y = scale * rng.random((n, p))
    return gaussian_kernel(rng.normal(size=(n, 3))), Y, 2 * np.mean(Y**2)


def literal_residual(kernel, Y, e, tau):
    fitted = kernel @ np.linalg.solve(kernel + (e + tau) * np.eye(len(Y)), Y)
    return np.mean((Y - fitted) ** 2)


def mean_squared_residual(kernel, Y, regularization):
    """R and dR/de of Theorem 1 at ``e + τ = regularization``."""
    solve = regularized_solver(kernel, np.asarray(regularization))
    once = solve(Y)
    square, cube = np.mean(once * once), np.mean(once * solve(once))
    return regularization**2 * square, 2 * regularization * (square - regularization * cube)


def mean_square(solution):
    return np.mean(solution**2)


def solve(kernel, Y, tau, start=None):
    return solve_at_fixed_point(kernel, Y, mean_square, tau=np.asarray(tau), start=start)


problems = st.tuples(st.integers(0, 1000), st.sampled_from([1e-3, 0.1, 1.0, 30.0]))


@settings(max_examples=30)
@given(problems, st.floats(0.01, 3.0))
def test_residual_lies_in_the_range_of_theorem_1(case, share):
    kernel, Y, tau = problem(*case)
    residual, _ = mean_squared_residual(kernel, Y, tau * (1 + share))
    assert 0 < residual < np.mean(Y**2)
    np.testing.assert_allclose(residual, literal_residual(kernel, Y, share * tau, tau), rtol=1e-8)


@settings(max_examples=30)
@given(problems, st.floats(0.01, 3.0))
def test_derivative_lies_in_the_range_of_theorem_1(case, share):
    kernel, Y, tau = problem(*case)
    regularization = tau * (1 + share)
    _, slope = mean_squared_residual(kernel, Y, regularization)
    assert 0 < slope < 2 / regularization * np.mean(Y**2)
    h = 1e-4 * regularization
    above, below = (mean_squared_residual(kernel, Y, regularization + d)[0] for d in (h, -h))
    np.testing.assert_allclose(slope, (above - below) / (2 * h), rtol=1e-5)


@pytest.mark.parametrize("scale", [1e-3, 0.1, 1.0, 30.0])
def test_fixed_point_is_the_same_from_three_starts(seed, scale):
    kernel, Y, tau = problem(seed, scale)
    found = []
    for share in (1e-6, 0.2, 0.499):
        e = share * tau
        for _ in range(200):
            e = literal_residual(kernel, Y, e, tau)
        start = np.asarray(share * tau), np.asarray(0.0)
        found += [tau + e, float(solve(kernel, Y, tau, start).regularization)]
    np.testing.assert_allclose(found, found[0], rtol=1e-8)


def test_solution_belongs_to_the_fixed_point(seed):
    kernel, Y, tau = problem(seed)
    found = solve(kernel, Y, tau)
    regularization = float(found.regularization)
    expected = np.linalg.solve(kernel + regularization * np.eye(len(Y)), Y)
    np.testing.assert_allclose(found.coefficients, expected, rtol=1e-9, atol=1e-11)
    residual, slope = mean_squared_residual(kernel, Y, regularization)
    np.testing.assert_allclose(regularization, tau + residual, rtol=1e-9)
    np.testing.assert_allclose(float(found.slope), slope, rtol=0.1)


def test_wrong_slope_of_a_start_does_no_harm():
    kernel, Y, tau = problem(0)
    good = solve(kernel, Y, tau)
    bad = solve(kernel, Y, tau, (np.asarray(0.4 * tau), np.asarray(0.85)))
    np.testing.assert_allclose(bad.regularization, good.regularization, rtol=1e-7)


def test_batch_equals_one_by_one():
    cases = [problem(seed, scale) for seed, scale in ((0, 1.0), (1, 0.1), (2, 5.0))]
    kernels, responses, taus = (np.stack(x) for x in zip(*cases, strict=True))
    batch = solve_at_fixed_point(
        kernels, responses, lambda b: np.mean(b**2, axis=(-2, -1)), tau=taus
    )
    for i, (kernel, Y, tau) in enumerate(cases):
        one = solve(kernel, Y, tau)
        np.testing.assert_allclose(batch.regularization[i], one.regularization, rtol=1e-9)
        np.testing.assert_allclose(batch.coefficients[i], one.coefficients, rtol=1e-7, atol=1e-9)


def test_zero_rows_and_tiny_rows_still_solve():
    kernel, Y, _ = problem(0)
    kernel = np.ones_like(kernel)  # all points equal
    assert np.isfinite(solve(kernel, 0 * Y, 0.0).coefficients).all()
    tiny = solve(kernel, 1e-12 * Y, 2e-24 * np.mean(Y**2))
    assert np.isfinite(tiny.coefficients).all()
    assert float(tiny.regularization) >= rounding_of_kernel(len(Y))


@pytest.mark.parametrize("scale", [0.1, 1.0, 30.0])
def test_a_solution_for_single_precision_is_corrected_without_a_second_factoring(
    seed, scale, monkeypatch
):
    kernel, Y, tau = problem(seed, scale, n=300)
    factored = []

    def counted(matrix, shift):
        factored.append(matrix.dtype)
        return regularized_solver(matrix, shift)

    monkeypatch.setattr(least_squares, "regularized_solver", counted)
    found = solve_at_fixed_point(kernel, Y, mean_square, tau=np.asarray(tau), correct=False)
    assert set(factored) == {np.dtype("float32")}
    exact = solve(kernel, Y, tau)
    np.testing.assert_allclose(found.regularization, exact.regularization, rtol=1e-6)
    away = np.linalg.norm(found.coefficients - exact.coefficients)
    assert away < 1e-5 * np.linalg.norm(exact.coefficients)


def test_factors_that_do_not_help_are_given_up(seed, monkeypatch):
    """Corrections that do not shrink end in a factoring in double precision."""
    kernel, Y, tau = problem(seed, n=300)
    run = least_squares._Search.run

    def spoiled(search, *args, **kwargs):
        found = run(search, *args, **kwargs)
        if search.precision == "float32":
            search.solve = lambda columns: -columns  # no inverse of anything here
        return found

    monkeypatch.setattr(least_squares._Search, "run", spoiled)
    found = solve_at_fixed_point(kernel, Y, mean_square, tau=np.asarray(tau), correct=False)
    expected = np.linalg.solve(kernel + float(found.regularization) * np.eye(len(Y)), Y)
    away = np.linalg.norm(found.coefficients - expected)
    assert away < 1e-5 * np.linalg.norm(expected)


@pytest.mark.parametrize("n_columns", [4, 40])
@pytest.mark.parametrize("scale", [0.3, 1.0, 30.0])
def test_one_factoring_in_single_precision_is_close(seed, scale, n_columns, monkeypatch):
    """λ* is guessed from landmarks; a guess that is far off costs factorings and no accuracy."""
    kernel, _, _ = problem(seed, n=400)
    generator = np.random.default_rng(seed)
    Y = scale * (kernel @ generator.normal(size=(400, n_columns)) / 20 + generator.normal())
    tau = 2 * np.mean(Y**2)
    exact = solve(kernel, Y, tau)
    singles = kernel.astype(np.float32), Y.astype(np.float32), mean_square
    start = np.asarray(0.49 * tau), np.asarray(0.0)
    factored = []

    def counted(matrix, shift):
        factored.append(matrix.dtype)
        return regularized_solver(matrix, shift)

    monkeypatch.setattr(least_squares, "regularized_solver", counted)
    for words in ({}, {"start": start}):
        found = solve_in_one_factoring(*singles, tau=np.asarray(tau), **words)
        np.testing.assert_allclose(found.regularization, exact.regularization, rtol=3e-5)
        away = np.linalg.norm(found.coefficients - exact.coefficients)
        assert away < 3e-4 * np.linalg.norm(exact.coefficients)
        assert set(factored) == {np.dtype("float32")}
        np.testing.assert_allclose(float(found.slope), float(exact.slope), rtol=0.1, atol=0.01)
    assert len(factored) > 2  # the start was far off


def test_kernel_matrix_equals_its_definition(seed):
    X = np.random.default_rng(seed).normal(size=(3, 20, 4))
    found = gaussian_kernel(X)
    for rows, kernel in zip(X, found, strict=True):
        np.testing.assert_allclose(kernel, np.exp(-(cdist(rows, rows) ** 2) / 2), atol=1e-14)


def test_kernel_of_duplicates_never_passes_one():
    X = np.repeat(np.random.default_rng(0).normal(size=(5, 3)) * 1e3, 4, axis=0)
    kernel = gaussian_kernel(X)
    assert kernel.max() <= 1.0
    np.testing.assert_allclose(np.diag(kernel), 1.0, atol=1e-8)


@given(scale=st.floats(1e-3, 1e4), seed=st.integers(0, 5))
def test_relative_kernel_is_the_kernel_over_its_largest_value(scale, seed):
    rng = np.random.default_rng(seed)
    X, centres = scale * rng.normal(size=(6, 3)), rng.normal(size=(9, 3))
    found = relative_gaussian_kernel(X, centres)
    exponents = -(cdist(X, centres) ** 2) / 2
    expected = np.exp(exponents - exponents.max(axis=1, keepdims=True))
    np.testing.assert_allclose(found, expected, atol=1e-6)
    np.testing.assert_array_equal(found.max(axis=1), 1.0)
