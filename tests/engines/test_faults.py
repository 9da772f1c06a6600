"""Engines that lose, repeat, change or make up sums: the same bits, or a refusal; never a part."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

import sfumato
from sfumato import Ledger, PrivateLinearClassifier, PrivateMoments, TableBounds
from sfumato.exceptions import EngineError, InvalidInputError, SfumatoError
from sfumato.mechanisms.base import taped
from sfumato.sums.grid import SecretSum
from sfumato.sums.partitions import SecretMessage, open_sum, seal_sum
from sfumato.sums.persons import PersonSum
from sfumato.sums.statistics import ClassCounts, SecondMoment
from tests.engines.sources import ThreadParts, in_parts, messy_table, table_bounds

Answers = Callable[[list[bytes]], Any]


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return messy_table(n_rows=300)


def _model(**settings: Any) -> PrivateMoments:
    return PrivateMoments(bounds=table_bounds("bought"), delta=1e-5, **settings)


def _budget(folder: Path) -> Any:
    return Ledger(folder / "ledger.db").create("patients", epsilon=10.0, delta=1e-4)


def _other_units(message: bytes) -> bytes:
    return message[:-8] + np.array([1], dtype="<i8").tobytes()


def _grown(message: bytes) -> bytes:
    return message[:-8] + np.array([2**62], dtype="<i8").tobytes()


HARMLESS: dict[str, Answers] = {
    "in another order": lambda answers: answers[::-1],
    "each twice": lambda answers: [*answers, *answers],
    "one late": lambda answers: [*answers[1:], answers[0], answers[1]],
}
REFUSED: dict[str, Answers] = {
    "one lost": lambda answers: answers[1:],
    "all lost": lambda _: [],
    "one lost, another twice": lambda answers: [*answers[1:], answers[1]],
    "one changed when it came again": lambda answers: [*answers, _other_units(answers[0])],
    "more than the rows can have": lambda answers: [_grown(answers[0]), *answers[1:]],
    "cut short": lambda answers: [answers[0][:-8], *answers[1:]],
    "no sum at all": lambda answers: [b"hello", *answers[1:]],
    "an array": lambda answers: [np.zeros(3), *answers[1:]],
    "of another pass": lambda answers: [
        seal_sum(SecretSum((2, 7, 7)), task="other", part=0),
        *answers[1:],
    ],
}


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
@pytest.mark.parametrize("name", HARMLESS)
def test_what_an_engine_may_do(name: str, relation: str, table: pd.DataFrame) -> None:
    with taped() as tape:
        _model(relation=relation).fit(table)
    with taped(playback=tape) as played:
        _model(relation=relation).fit(ThreadParts(in_parts(table, 5), HARMLESS[name]))
    for mine, theirs in zip(tape.releases, played.releases, strict=True):
        np.testing.assert_array_equal(mine.statistic, theirs.statistic)


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str, relation: str, table: pd.DataFrame) -> None:
    with taped() as tape, pytest.raises(EngineError):
        _model(relation=relation).fit(ThreadParts(in_parts(table, 5), REFUSED[name]))
    assert not tape.releases  # nothing was drawn


def test_a_changed_number_of_records_is_refused(table: pd.DataFrame) -> None:
    class Shrinking(ThreadParts):
        n_passes = 0

        def map(self, task: Any) -> Any:
            self.n_passes += 1
            if self.n_passes == 2:
                self._frames = [self._frames[0].iloc[1:], *self._frames[1:]]
            return super().map(task)

    parts = Shrinking([table.iloc[:200], table.iloc[200:]])
    with pytest.raises(EngineError, match="number of records changed"):
        _model().fit(parts)


class _Failing(ThreadParts):
    """Fails in its passes from `first` to `last`, the first being number 1."""

    def __init__(self, frames: list[pd.DataFrame], first: int, last: int) -> None:
        super().__init__(frames)
        self._failing, self.n_passes = range(first, last + 1), 0

    def map(self, task: Any) -> Any:
        self.n_passes += 1
        if self.n_passes in self._failing:
            raise EngineError("The cluster has gone.")
        yield from super().map(task)


def test_a_failed_fit_is_resumed_without_a_second_charge(
    table: pd.DataFrame, tmp_path: Path
) -> None:
    budget = _budget(tmp_path)
    model = _model(ledger=budget)
    parts = _Failing(in_parts(table, 3), 2, 2)  # the first pass counts the records
    with pytest.raises(EngineError, match=r"No noise was drawn.*call fit again"):
        model.fit(parts)
    charged = len(budget.history())
    assert charged == 1
    copied = copy.deepcopy(model)
    model.fit(parts)
    assert len(budget.history()) == charged
    model.fit(parts)
    assert len(budget.history()) == charged + 1  # a fit of its own
    copied.fit(parts)
    assert len(budget.history()) == charged + 2  # a copy did not come with a charge of its own


def test_other_settings_do_not_draw_on_the_charge(table: pd.DataFrame, tmp_path: Path) -> None:
    budget = _budget(tmp_path)
    model = _model(ledger=budget)
    with pytest.raises(EngineError):
        model.fit(_Failing(in_parts(table, 3), 2, 2))
    model.set_params(epsilon=0.5).fit(table)
    assert len(budget.history()) == 2


def test_a_fit_that_has_drawn_says_so(table: pd.DataFrame, tmp_path: Path) -> None:
    budget = _budget(tmp_path)
    model = PrivateLinearClassifier(
        bounds=table_bounds("bought"), delta=1e-5, n_steps=4, ledger=budget
    )
    with pytest.raises(EngineError, match="another fit is another charge"):
        model.fit(_Failing(in_parts(table, 3), 4, 4))
    model.fit(_Failing(in_parts(table, 3), 0, 0))
    assert len(budget.history()) == 2


def test_secret_sums_are_not_shown_or_stored(tmp_path: Path) -> None:
    total = SecretSum((1,))
    total.add(np.array([12345.0]), 12345)
    of_persons = PersonSum((1,))
    of_persons.add(np.array([12345.0]), 12345, 1)
    message = seal_sum(total, task="t", part=0)
    for secret in (total, of_persons, message):
        for shown in (repr(secret), str(secret), f"{secret}", format(secret)):
            assert "12345" not in shown
    for secret in (total, of_persons):
        for store in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(InvalidInputError):
                store(secret)
    for secret in (total, message):
        with pytest.raises((SfumatoError, TypeError)):
            sfumato.save(secret, tmp_path / "secret.sfumato")


def test_messages_are_what_they_were(tmp_path: Path) -> None:
    statistic = SecondMoment(3)
    total, of_persons = SecretSum((3, 3)), PersonSum((3, 3))
    rows = np.random.default_rng(0).uniform(-0.5, 0.5, size=(40, 3))
    codes = np.zeros(40, dtype=np.intp)
    total.add(statistic.add_up(rows, codes), 40)
    for size in (1, 2, 4):
        of_persons.add(statistic.add_up(rows, codes), 40, size)
    for sent in (total, of_persons):
        message = seal_sum(sent, task="t", part=3)
        assert isinstance(message, SecretMessage)
        part, found = open_sum(message, statistic, task="t", n_parts=4)
        assert part == 3
        assert type(found) is type(sent)
        if isinstance(found, PersonSum) and isinstance(sent, PersonSum):
            np.testing.assert_array_equal(found.averaged(), sent.averaged())
            assert found.n_persons == sent.n_persons
        else:
            assert found == sent
    with pytest.raises(EngineError, match="shape"):
        open_sum(message, ClassCounts(9), task="t", n_parts=4)
    with pytest.raises(EngineError, match="another task"):
        open_sum(message, statistic, task="u", n_parts=4)
    with pytest.raises(EngineError, match="another task"):
        open_sum(message, statistic, task="t", n_parts=3)


def test_a_remote_engine_makes_the_guarantee_conditional(
    table: pd.DataFrame, tmp_path: Path
) -> None:
    table.to_parquet(tmp_path / "table.parquet")
    model = _model()
    assert model.fit(ThreadParts([table])).guarantee_.status == "conditional"
    assert "workers of the engine" in str(model.guarantee_)
    assert model.fit(tmp_path / "table.parquet").guarantee_.status == "proved"
    assert model.fit(table).guarantee_.status == "proved"


def test_errors_of_queries_quote_no_cell(table: pd.DataFrame) -> None:
    """A cast that fails for one cell names it; the fit tells that the engine gave up."""
    texts = table.assign(level=["secret", *["1"] * (len(table) - 1)])
    cast = "SELECT * REPLACE (CAST(level AS INTEGER) AS level) FROM texts"
    queries = {
        "DuckDB": duckdb.sql(cast),
        "Polars": polars.from_pandas(texts).lazy().with_columns(polars.col("level").cast(int)),
    }
    for engine, query in queries.items():
        with pytest.raises(EngineError, match=engine) as error:
            _model(relation="add_or_remove_one").fit(query)
        assert "secret" not in str(error.value)


LISTS = pa.table({"c": [[1.0]] * 20, "y": ["a"] * 20})


@pytest.mark.parametrize("source", ["parquet", "feather", "folder", "url", "DuckDB", "polars"])
def test_a_column_of_a_type_that_cannot_be_read_costs_nothing(source: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    pyarrow.parquet.write_table(LISTS, tmp_path / "folder" / "rows.parquet")
    pyarrow.feather.write_feather(LISTS, tmp_path / "rows.feather")
    table: dict[str, Any] = {
        "parquet": tmp_path / "folder" / "rows.parquet",
        "feather": tmp_path / "rows.feather",
        "folder": tmp_path / "folder",
        "url": (tmp_path / "folder" / "rows.parquet").as_uri(),
        "DuckDB": duckdb.from_arrow(LISTS),
        "polars": polars.from_arrow(LISTS).lazy(),
    }
    bounds = TableBounds.from_dict({"c": (0, 1), "y": ["a", "b"]}, target="y")
    paid = Ledger().create("rows", epsilon=9.0, delta=1e-3, relation="add_or_remove_one")
    model = PrivateMoments(
        epsilon=1.0, delta=1e-5, bounds=bounds, relation="add_or_remove_one", ledger=paid
    )
    with pytest.raises(InvalidInputError, match=r"type .*list.* cannot be read as double"):
        model.fit(table[source])
    assert paid.statement().charges == 0
