"""Leading eigenvectors by products: against LAPACK, and refused where they cannot be certified."""

from __future__ import annotations

import array_api_strict
import numpy as np
import pytest

from sfumato.models import least_squares as leading
from sfumato.models.least_squares import N_LEADING, completed_basis, leading_eigenvectors

N_WANTED = 12


def matrices(rng: np.random.Generator, decay: float = 0.9, p: int = 150) -> np.ndarray:
    """Two positive definite matrices with eigenvalues ``decay**i``, the second ten times those."""
    turned = [np.linalg.qr(rng.standard_normal((p, p)))[0] for _ in range(2)]
    values = decay ** np.arange(p)
    return np.stack([(u * (10.0**i * values)) @ u.T for i, u in enumerate(turned)])


@pytest.mark.parametrize("array", [np.asarray, array_api_strict.asarray])
def test_equal_those_of_lapack(rng: np.random.Generator, array: object) -> None:
    stack = matrices(rng)
    found = leading_eigenvectors(array(stack), N_WANTED)  # type: ignore[operator]
    assert found is not None
    values, vectors = (np.asarray(part) for part in found)
    assert vectors.shape == (2, 150, N_LEADING)
    expected, directions = np.linalg.eigh(stack)
    expected, directions = expected[:, ::-1], directions[..., ::-1]
    np.testing.assert_allclose(values[:, :N_WANTED], expected[:, :N_WANTED], rtol=1e-11)
    overlap = np.sum(vectors[..., :N_WANTED] * directions[..., :N_WANTED], axis=1)
    np.testing.assert_allclose(np.abs(overlap), 1.0, rtol=1e-12)


@pytest.mark.parametrize("decay", [0.999, 0.3], ids=["flat", "low rank"])
def test_nothing_is_given_that_is_not_certain(rng: np.random.Generator, decay: float) -> None:
    """A flat spectrum does not converge; one that falls to zero has no 64 directions."""
    stack = matrices(rng, decay)
    if decay < 0.5:  # exactly of rank 30
        rows = rng.standard_normal((30, 150))
        stack = np.stack([rows.T @ rows] * 2)
    assert leading_eigenvectors(stack, N_WANTED) is None


def test_a_missed_direction_is_noticed(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The start has no share of the largest direction, and rounding brings none in."""
    values = np.append(0.9 ** np.arange(149), 5.0)
    stack = np.diag(values)
    start = rng.standard_normal((150, N_LEADING))
    start[-1] = 0.0
    monkeypatch.setattr(
        leading, "like", lambda matrix, given: start if given.shape == start.shape else given
    )
    assert leading_eigenvectors(stack, N_WANTED) is None
    monkeypatch.setattr(leading, "_require_nothing_above", lambda *given: None)
    found = leading_eigenvectors(stack, N_WANTED)
    assert found is not None  # without the certificate it would have passed
    assert found[0][0] < 2


@pytest.mark.parametrize("kind", ["random", "identity", "minus", "elsewhere"])
def test_a_basis_is_completed_to_a_rotation(rng: np.random.Generator, kind: str) -> None:
    columns = np.linalg.qr(rng.standard_normal((9, 4)))[0]
    if kind in ("identity", "minus"):
        columns = np.eye(9)[:, :4] * (1 if kind == "identity" else -1)
    elif kind == "elsewhere":
        columns = np.eye(9)[:, 5:]
    stack = np.stack([columns, np.roll(columns, 1, axis=0)])
    found = completed_basis(stack)
    np.testing.assert_array_equal(found[..., :4], stack)
    np.testing.assert_allclose(
        np.swapaxes(found, 1, 2) @ found, np.broadcast_to(np.eye(9), (2, 9, 9)), atol=1e-14
    )
