"""A density in a store: one charge, the right function, no rows."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sfumato import Ledger
from sfumato.accounting import epsilon_spent
from sfumato.exceptions import BudgetExceededError, InvalidInputError
from sfumato.function_stores import query_store, release_to_store
from sfumato.functions import features_from_dict
from sfumato.functions.store import AnswerStore
from sfumato.pipeline import Promise
from sfumato.tables.bounds_file import Column, TableBounds
from sfumato.tables.files import TableFile, write_table

pa = pytest.importorskip("pyarrow")
BOUNDS = TableBounds((Column("age", "double", lower=0.0, upper=100.0),), confirmed=True)
PROMISE = Promise(epsilon=10.0, delta=1e-5)
BANDWIDTH = 4.0


@pytest.fixture
def source(tmp_path: Path) -> TableFile:
    ages = np.random.default_rng(0).normal(40, 8, 4000)
    write_table(pa.table({"age": ages}), tmp_path / "rows.parquet")
    return TableFile(tmp_path / "rows.parquet")


def test_answers_follow_the_kernel_estimate(source: TableFile, tmp_path: Path) -> None:
    store = tmp_path / "answers.db"
    promised = release_to_store(
        source, BOUNDS, PROMISE, bandwidth=BANDWIDTH, store=store, name="age"
    )
    spent = epsilon_spent(promised.events, promised.delta, promised.relation)
    assert 0.9 * PROMISE.epsilon < spent <= PROMISE.epsilon
    points = np.linspace(5, 95, 50)
    write_table(pa.table({"x": points}), tmp_path / "points.csv")
    found = query_store(store, "age", TableFile(tmp_path / "points.csv"))
    rows = np.asarray(source.read()["age"])
    kernels = np.exp(-((points[:, None] - rows) ** 2) / (2 * BANDWIDTH**2))
    estimate = kernels.mean(axis=1) / (BANDWIDTH * np.sqrt(2 * np.pi))
    # The noise of one value has a standard deviation of sensitivity times multiplier.
    noise = (
        np.sqrt(2) / (4000 * BANDWIDTH * np.sqrt(2 * np.pi)) * promised.events[0].noise_multiplier
    )
    assert np.abs(np.asarray(found["value"]) - estimate).max() < 6 * noise
    assert 6 * noise < 0.2 * estimate.max()


def test_the_store_holds_no_row(source: TableFile, tmp_path: Path) -> None:
    store = tmp_path / "answers.db"
    release_to_store(source, BOUNDS, PROMISE, bandwidth=BANDWIDTH, store=store, name="age")
    with sqlite3.connect(store) as connection:
        text = "\n".join(connection.iterdump())
    connection.close()
    rows = np.asarray(source.read()["age"])
    assert not any(repr(float(row)) in text for row in rows[:200])


def test_refusals_come_before_the_charge(source: TableFile, tmp_path: Path) -> None:
    budget = Ledger().create("rows", epsilon=12.0, delta=1e-5)
    promise = replace(PROMISE, ledger=budget)
    words = {"bandwidth": BANDWIDTH, "store": tmp_path / "answers.db", "name": "age"}
    for wrong in ({"bandwidth": 0.0}, {"name": " "}, {"columns": ["weight"]}):
        with pytest.raises(InvalidInputError):
            release_to_store(source, BOUNDS, promise, **{**words, **wrong})
    with pytest.raises(InvalidInputError, match="replace_one"):
        release_to_store(source, BOUNDS, replace(promise, relation="add_or_remove_one"), **words)
    assert budget.spent() == 0
    release_to_store(source, BOUNDS, promise, **words)
    charges = budget.statement().charges
    with pytest.raises(InvalidInputError, match="already"):
        release_to_store(source, BOUNDS, promise, **words)
    with pytest.raises(BudgetExceededError):
        release_to_store(source, BOUNDS, promise, **{**words, "name": "again"})
    assert budget.statement().charges == charges == 1


def test_the_noise_covers_the_most_distant_neighbours(tmp_path: Path) -> None:
    """By hand: f and f' differ in one row at either end; their distance is known in H."""
    n, spread = 50, 100.0
    ages = np.full(n, 0.0)
    write_table(pa.table({"age": ages}), tmp_path / "rows.parquet")
    store = tmp_path / "answers.db"
    promised = release_to_store(
        TableFile(tmp_path / "rows.parquet"),
        BOUNDS,
        PROMISE,
        bandwidth=BANDWIDTH,
        store=store,
        name="age",
    )
    header = AnswerStore(store).open("age").header()
    weight = 1 / (n * BANDWIDTH * np.sqrt(2 * np.pi))
    distance = weight * np.sqrt(2 - 2 * np.exp(-(spread**2) / (2 * BANDWIDTH**2)))
    assert distance <= header["sensitivity"] <= 1.01 * distance
    features = features_from_dict(header["features"])
    exact = features.transform(ages[:, None]).sum(axis=0) * weight
    noise = np.asarray(header["coordinates"]) - exact
    scale = header["sensitivity"] * promised.events[0].noise_multiplier
    assert np.std(noise) == pytest.approx(scale, rel=6 / np.sqrt(2 * len(noise)))
