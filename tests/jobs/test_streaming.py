"""Rows in batches give the same model to the bit, and are read no oftener than needed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from sfumato import (
    Bounds,
    Ledger,
    PrivateGaussianClassifier,
    PrivateMoments,
    PrivatePCA,
)
from sfumato.audit.testing import seeded_noise
from sfumato.cli.jobs.streaming import fit_in_batches
from sfumato.exceptions import BudgetExceededError, InvalidInputError

N, P = 9001, 5


class Source:
    """Rows that are handed out in batches, and count their passes."""

    def __init__(self, seed: int, batch: int) -> None:
        rng = np.random.default_rng(seed)
        self.X = rng.normal(size=(N, P))
        self.y = rng.choice(["a", "b", "c"], N)
        self.batch, self.passes = batch, 0

    def read(self) -> Iterator[tuple[Any, Any]]:
        self.passes += 1
        for start in range(0, N, self.batch):
            yield self.X[start : start + self.batch], self.y[start : start + self.batch]


@pytest.mark.parametrize("batch", [1000, 4096, 20000])
@pytest.mark.parametrize("labels", [["a", "b", "c"], ["b", "d"]])
@pytest.mark.parametrize("n_components", [None, 2])
@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_the_model_is_that_of_fit(
    seed: int, batch: int, labels: Any, n_components: int | None, single: bool, relation: str
) -> None:
    source = Source(seed, batch)
    bounds = Bounds(norm=3.0, labels=labels)
    options: dict[str, Any] = {"n_components": n_components, "single_release": single}
    options |= {"bounds": bounds, "relation": relation}
    with seeded_noise(seed):
        whole = PrivateGaussianClassifier(**options).fit(source.X, source.y)
    with seeded_noise(seed):
        model = PrivateGaussianClassifier(**options)
        assert fit_in_batches(model, source.read, n_rows=N, n_features=P) is model
    assert source.passes == len(model.guarantee_.events)
    assert type(model) is PrivateGaussianClassifier
    assert vars(model).keys() == vars(whole).keys()
    for name, value in vars(whole).items():
        np.testing.assert_array_equal(getattr(model, name), value, err_msg=name)
    np.testing.assert_array_equal(model.predict(source.X[:50]), whole.predict(source.X[:50]))


def test_the_ledger_is_charged_before_a_row_is_read() -> None:
    source = Source(0, 1000)
    budget = Ledger().create("rows", epsilon=0.5, delta=1e-5)
    bounds = Bounds(norm=3.0, labels=["a", "b"])
    model = PrivateGaussianClassifier(epsilon=1.0, bounds=bounds, ledger=budget)
    with pytest.raises(BudgetExceededError):
        fit_in_batches(model, source.read, n_rows=N, n_features=P)
    assert source.passes == 0
    assert not hasattr(model, "guarantee_")


def test_rows_that_are_missing_are_noticed() -> None:
    source = Source(0, 1000)
    model = PrivateGaussianClassifier(bounds=Bounds(norm=3.0, labels=["a", "b"]))
    with pytest.raises(InvalidInputError, match="were declared"):
        fit_in_batches(model, source.read, n_rows=N + 1, n_features=P)
    with pytest.raises(InvalidInputError, match="no records"):
        fit_in_batches(model, source.read, n_rows=0, n_features=P)
    assert not hasattr(model, "guarantee_")


@pytest.mark.parametrize("batch", [1000, 20000])
@pytest.mark.parametrize("labels", [None, ["a", "b", "c"]])
@pytest.mark.parametrize("kind", [PrivateMoments, PrivatePCA])
def test_moments_and_components_in_one_pass(seed: int, batch: int, labels: Any, kind: Any) -> None:
    source = Source(seed, batch)
    options = {"bounds": Bounds(norm=3.0, labels=labels), "epsilon": 2.0}
    asks_labels = kind is PrivateMoments and labels is not None
    with seeded_noise(seed):
        whole = kind(**options).fit(source.X, source.y if asks_labels else None)
    with seeded_noise(seed):
        model = fit_in_batches(kind(**options), source.read, n_rows=N, n_features=P)
    assert source.passes == 1
    assert type(model) is kind
    for name, value in vars(whole).items():
        np.testing.assert_array_equal(getattr(model, name), value, err_msg=name)
