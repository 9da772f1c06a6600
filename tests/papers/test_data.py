"""Rows of a reproduction: in [0, 1], split as published, embedded when quick."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra.numpy import arrays

from sfumato.datasets import Dataset
from sfumato.papers import Setting, data
from sfumato.papers.data import digits, images, unit_rows


def test_a_quick_run_gets_the_embedded_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "load", lambda name: pytest.fail(f"{name} was asked for"))
    split = images(Setting(quick=True), "mnist")
    assert len(split.X) + len(split.X_test) == 1797
    assert split.X.min() == 0.0
    assert split.X.max() == 1.0
    together = np.concatenate([split.y, split.y_test])
    assert set(together.tolist()) == set(range(10))
    np.testing.assert_array_equal(split.X, digits().X)


@pytest.mark.parametrize(("name", "low", "high"), [("mnist", 0, 255), ("usps", -1, 1)])
def test_pixels_are_scaled_by_their_public_range(
    monkeypatch: pytest.MonkeyPatch, name: str, low: float, high: float
) -> None:
    """Scaled by what a pixel can be, not by what it is: no row changes another."""
    middle = (low + high) / 2
    columns = {"a": np.array([low, middle, middle]), "b": np.array([middle, middle, high])}
    stored = Dataset(name, columns, np.array(["3", "1", "3"]), "label", n_train=2)
    monkeypatch.setattr(data, "load", lambda _: stored)
    split = images(Setting(), name)
    np.testing.assert_allclose(split.X, [[0, 0.5], [0.5, 0.5]])
    np.testing.assert_allclose(split.X_test, [[0.5, 1.0]])
    assert (split.y.tolist(), split.y_test.tolist()) == ([3, 1], [3])


def test_the_first_rows_of_each_part() -> None:
    few = digits().first(5, 3)
    assert (len(few.X), len(few.y), len(few.X_test), len(few.y_test)) == (5, 5, 3, 3)
    np.testing.assert_array_equal(few.X, digits().X[:5])
    assert len(digits().first(5).X_test) == len(digits().X_test)


@given(arrays(np.float32, (4, 3), elements=st.floats(-100, 100, width=32)))
def test_rows_get_length_one_by_themselves(rows: np.ndarray) -> None:
    rows = np.where(np.abs(rows) < 1e-3, 0, rows)
    found = unit_rows(rows)
    lengths = np.linalg.norm(found, axis=1)
    zero = ~rows.any(axis=1)
    np.testing.assert_allclose(lengths[~zero], 1.0, rtol=1e-12)
    assert not found[zero].any()
    np.testing.assert_array_equal(unit_rows(rows[:1]), found[:1])
