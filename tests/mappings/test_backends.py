"""Arrays of other libraries give the same answers, in the library they came from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

from sfumato import (
    MembershipAutoencoder,
    MembershipClassifier,
    MembershipMapping,
    WideMembershipAutoencoder,
)


@pytest.fixture(
    params=["array_api_strict", pytest.param("torch", marks=pytest.mark.torch)], scope="module"
)
def xp(request: pytest.FixtureRequest) -> Any:
    return pytest.importorskip(request.param, reason="PyTorch is not installed")


@pytest.fixture(scope="module")
def digits() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_digits(n_class=3, return_X_y=True)
    return X / 16, y


def test_mapping(xp: Any, digits: tuple[np.ndarray, np.ndarray]) -> None:
    X = digits[0]
    x, Y = X[:100, 20:23], X[:100, 30:32]
    # Few grey values lie as far from one centre as from another, and rounding, which each library
    # does in its own way, would choose.
    x = x + 1e-3 * np.random.default_rng(0).random(x.shape)
    here = MembershipMapping(random_state=0).fit(x, Y)
    there = MembershipMapping(random_state=0).fit(xp.asarray(x), xp.asarray(Y))
    answer = there.predict(xp.asarray(x))
    assert type(answer) is type(xp.asarray(x))
    np.testing.assert_allclose(np.asarray(answer), here.predict(x), atol=1e-8)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_autoencoders(xp: Any, dtype: str, digits: tuple[np.ndarray, np.ndarray]) -> None:
    X = digits[0]
    for kind in (
        MembershipAutoencoder(5, n_layers=2, random_state=0, dtype=dtype),
        WideMembershipAutoencoder(5, n_layers=2, branch_size=300, random_state=0, dtype=dtype),
    ):
        expected = kind.fit(X).transform(X)
        rows = xp.asarray(X)
        answer = kind.fit(rows).transform(rows)
        assert type(answer) is type(rows)
        np.testing.assert_allclose(np.asarray(answer), expected, atol=1e-3)


def test_classifier(xp: Any, digits: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = digits
    here = MembershipClassifier(6, n_layers=2, branch_size=100, random_state=0).fit(X, y)
    rows = xp.asarray(X)
    there = MembershipClassifier(6, n_layers=2, branch_size=100, random_state=0).fit(rows, y)
    np.testing.assert_array_equal(np.asarray(there.predict(rows)), here.predict(X))
    np.testing.assert_allclose(np.asarray(there.errors(rows)), here.errors(X), rtol=1e-3)
