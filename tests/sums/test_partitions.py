"""A table gives the same bits wherever it lies; engines that lose, repeat or make up sums."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import dask
import dask.dataframe
import duckdb
import numpy as np
import pandas as pd
import polars
import polars as pl
import pytest

import sfumato
from sfumato import (
    Bounds,
    Fabricator,
    Ledger,
    PrivateAdditiveClassifier,
    PrivateAdditiveRegressor,
    PrivateGaussianClassifier,
    PrivateLinearClassifier,
    PrivateLinearRegressor,
    PrivateMoments,
    PrivatePCA,
    TableBounds,
    release_counts,
)
from sfumato.audit.testing.taint import compare_replays
from sfumato.exceptions import (
    EngineError,
    InvalidInputError,
    MissingBoundsError,
    SfumatoError,
    UnsupportedModeError,
)
from sfumato.mechanisms.base import taped
from sfumato.models.curves import PrivateMeanCurve
from sfumato.models.density import PrivateDensity
from sfumato.sums import grid, table_parts as engine_tables
from sfumato.sums.dask import DelayedParts, FrameParts
from sfumato.sums.grid import SecretSum
from sfumato.sums.partitions import PartitionedRecords, SecretMessage, open_sum, seal_sum
from sfumato.sums.persons import PersonSum
from sfumato.sums.statistics import ClassCounts, SecondMoment
from sfumato.sums.table_parts import FileParts, LocalParts
from sfumato.tables import files
from tests.sums.sources import (
    ThreadParts,
    in_parts,
    messy_table,
    same_bits,
    table_bounds,
    write_files,
)

PERSONS = {"person": "person", "person_rows": 2}
CURVES = TableBounds.from_dict({"age": (0.0, 100.0), "income": (0.0, 200.0), "spent": (0.0, 60.0)})
DENSITY = TableBounds.from_dict({"age": (0.0, 100.0)})


def _of(kind: Any, target: str | None, **settings: Any) -> Callable[[], Any]:
    return lambda: kind(bounds=table_bounds(target), delta=1e-5, **settings)


ESTIMATORS: dict[str, Callable[[], Any]] = {
    "moments": _of(PrivateMoments, "bought"),
    "pca": _of(PrivatePCA, None, n_components=2),
    "gaussian": _of(PrivateGaussianClassifier, "bought"),
    "linear": _of(PrivateLinearClassifier, "bought", n_steps=4),
    "linear, n secret": _of(
        PrivateLinearClassifier, "bought", n_steps=4, relation="add_or_remove_one"
    ),
    "linear, not whitened": _of(PrivateLinearClassifier, "bought", n_steps=4, whiten=False),
    "additive with knots": _of(
        PrivateAdditiveClassifier, "bought", n_steps=4, knots="private", interactions=True
    ),
    "additive regression": _of(
        PrivateAdditiveRegressor, "spent", n_steps=4, knots="private", interactions=True
    ),
    "regression": _of(PrivateLinearRegressor, "spent", n_steps=4),
    "tree": _of(Fabricator, "bought"),
    "mean curve": lambda: PrivateMeanCurve(bounds=CURVES, delta=1e-5),
    "mean curve, n secret": lambda: PrivateMeanCurve(
        bounds=CURVES, delta=1e-5, relation="add_or_remove_one"
    ),
    "grid density": lambda: PrivateDensity(bounds=DENSITY, delta=1e-5),
}


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return messy_table()


@pytest.fixture(scope="module")
def sources(table: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    found = write_files(table, tmp_path_factory.mktemp("tables"))
    found["duckdb"] = duckdb.sql(f"select * from '{found['glob']}'")
    found["polars"] = pl.scan_parquet(found["glob"])
    found["threads"] = ThreadParts(in_parts(table, 7))
    return found


@pytest.mark.parametrize("name", ESTIMATORS)
def test_bits_do_not_depend_on_the_place(
    name: str, table: pd.DataFrame, sources: dict[str, Any]
) -> None:
    everywhere = name in ("moments", "linear", "tree", "mean curve")
    chosen = sources if everywhere else {key: sources[key] for key in ("glob", "polars", "threads")}
    same_bits(ESTIMATORS[name], table, chosen)


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("moments", "sum"),
        ("linear", "average"),
        ("linear", "sum"),
        ("additive with knots", "sum"),
        ("tree", "average"),
        ("mean curve", "average"),
    ],
)
def test_persons_are_brought_together(
    name: str,
    way: str,
    table: pd.DataFrame,
    sources: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine_tables, "PERSON_BYTES", 2**15)  # several buckets
    monkeypatch.setattr(engine_tables, "free_memory", lambda: 2.0**19)
    monkeypatch.setattr(engine_tables, "fits_in_memory", lambda _: way == "sum")

    def make() -> Any:
        model = ESTIMATORS[name]()
        bounds = replace(model.bounds, per_person=way, **PERSONS)
        return model.set_params(unit="person", bounds=bounds)

    local = {key: sources[key] for key in ("glob", "duckdb")}
    same_bits(make, table, local)


def test_persons_are_refused_where_an_engine_cannot_gather_them(table: pd.DataFrame) -> None:
    model = PrivateMoments(bounds=table_bounds("bought", **PERSONS), unit="person", delta=1e-5)
    with pytest.raises(UnsupportedModeError, match="Nothing was charged"):
        model.fit(ThreadParts(in_parts(table, 3)))


def test_rows_are_written_aside_where_memory_is_short(
    table: pd.DataFrame, sources: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grid, "SMALL_BYTES", 0)
    monkeypatch.setattr(grid, "fits_in_memory", lambda _: False)
    for name in ("linear", "regression"):
        same_bits(ESTIMATORS[name], table, {"glob": sources["glob"]})


@pytest.mark.parametrize(("place", "n_passes"), [("memory", 1), ("disk", 1), ("full disk", 2)])
def test_a_text_is_parsed_once(
    place: str,
    n_passes: int,
    table: pd.DataFrame,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its cells are kept, unless there is no room for them: then each pass parses it."""
    table.to_csv(tmp_path / "rows.csv", index=False)
    monkeypatch.setattr(engine_tables, "fits_in_memory", lambda _: place == "memory")
    if place == "full disk":
        monkeypatch.setattr("tempfile.TemporaryFile", Mock(side_effect=OSError(28, "")))
    parse = Mock(wraps=files.csv_batches)
    monkeypatch.setattr(files, "csv_batches", parse)
    same_bits(ESTIMATORS["moments"], table, {"csv": tmp_path / "rows.csv"})
    assert parse.call_count == n_passes
    monkeypatch.setattr("sfumato.tables.text.BLOCK_BYTES", 2**10)  # half a pass is not kept
    parts = FileParts([tmp_path / "rows.csv"]).declared({"age": "float64"})
    assert next(parts.map(lambda _, batches: len(next(iter(batches))))) < len(table)
    assert next(parts.map(lambda _, batches: sum(map(len, batches)))) == len(table)


def test_a_file_that_lies_in_a_folder_twice_is_read_once(
    table: pd.DataFrame, tmp_path: Path
) -> None:
    """Else each record would count twice, as those of a CSV beside its Parquet did."""
    rows, kept = tmp_path / "rows.parquet", tmp_path / ".kept"
    table.to_parquet(rows)
    kept.mkdir()
    table.to_parquet(kept / "rows.parquet")
    (tmp_path / "latest.parquet").symlink_to(rows)
    assert FileParts.of(tmp_path).n_parts == FileParts.of(tmp_path / "*.parquet").n_parts == 1
    table.to_csv(tmp_path / "rows.csv", index=False)
    with pytest.raises(InvalidInputError, match="same columns and format"):
        FileParts.of(tmp_path)


@pytest.mark.parametrize("kind", [np.int64, np.uint64])
def test_one_missing_id_takes_that_of_no_other_in_a_frame_of_dask(kind: Any) -> None:
    """In pandas it makes doubles of the whole numbers of its part, which have fewer digits."""
    ids, counted = (2**60 + 4097 * np.arange(80)).astype(kind), []
    bounds = TableBounds.from_dict({"x": (0, 1)}, person="id", person_rows=1)
    for last in (kind(7), np.nan):
        parts = [pd.DataFrame({"id": each, "x": 0.5}) for each in (ids, np.append(ids[:9], last))]
        frame = dask.dataframe.from_map(lambda part: part, parts, meta=parts[0])
        with taped() as tape:
            release_counts(frame, bounds=bounds, epsilon=1.0, relation="add_or_remove_one")
        counted.append(tape.releases[0].statistic.sum())
    assert abs(counted[0] - counted[1]) <= 1


def test_plain_bounds_take_named_columns(table: pd.DataFrame, sources: dict[str, Any]) -> None:
    plain = table[["age", "income", "bought"]]
    bounds = Bounds(lower=[0, 0], upper=[100, 200], labels=["no", "yes"])
    make = lambda: PrivateMoments(bounds=bounds, delta=1e-5)  # noqa: E731
    relation = duckdb.sql(f"select age, income, bought from '{sources['glob']}'")
    with taped() as tape:
        make().fit(plain[["age", "income"]], plain["bought"])
    with taped(playback=tape) as played:
        model = make().fit(relation, "bought")
    np.testing.assert_array_equal(played.releases[0].statistic, tape.releases[0].statistic)
    assert list(model.feature_names_in_) == ["age", "income"]


@pytest.mark.parametrize("kind", [PrivateMoments, PrivateLinearClassifier, Fabricator])
def test_labels_must_be_listed(kind: Any, sources: dict[str, Any]) -> None:
    """Batches would find different labels, and number them differently."""
    bounds = TableBounds.from_dict({"age": (0, 100), "bought": "public"}, target="bought")
    with pytest.raises(MissingBoundsError, match="labels listed"):
        kind(bounds=bounds, delta=1e-5).fit(sources["glob"])


Answers = Callable[[list[bytes]], Any]


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
    with pytest.raises(EngineError, match="not given"):
        open_sum(message, statistic, task="u", n_parts=4)
    with pytest.raises(EngineError, match="not given"):
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


TEXT_BOUNDS = TableBounds.from_dict(
    {
        "age": {"lower": 0, "upper": 100, "missing": True},
        "sex": {"categories": ["m", "f"], "missing": True},
        "y": {"labels": ["a", "b"]},
    },
    target="y",
)
LINES = [f"{20 + place},{'mf'[place % 2]},{'ab'[place % 3 == 0]}" for place in range(60)]
ODD = ["44,m,a,9,9", "44", "", '"44,m,a', "\x00,\x00,\x00", "44,m", "x" * 5000]


def fitted(path: Path | str) -> PrivateLinearClassifier:
    model = PrivateLinearClassifier(
        epsilon=1.0, delta=1e-5, bounds=TEXT_BOUNDS, relation="add_or_remove_one", n_steps=2
    )
    return model.fit(str(path))


@pytest.mark.parametrize("place", [0, 30])
@pytest.mark.parametrize("odd", ODD)
def test_a_line_of_text(tmp_path: Path, odd: str, place: int) -> None:
    lines = ["age,sex,y", *LINES[:place], odd, *LINES[place:]]
    (tmp_path / "one.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "two.csv").write_text("\n".join(["age,sex,y", *LINES]) + "\n")
    for path in (tmp_path / "one.csv", tmp_path / "*.csv", tmp_path):
        assert fitted(path).coef_.size


def test_without_declared_types_text_is_refused_whatever_it_holds(tmp_path: Path) -> None:
    (tmp_path / "two.csv").write_text("age,sex,y\n44,m,a\n")
    bounds = Bounds(lower=[0.0] * 3, upper=[1.0] * 3)
    model = PrivateMoments(epsilon=1.0, delta=1e-5, bounds=bounds, relation="add_or_remove_one")
    for path in (tmp_path / "two.csv", tmp_path / "*.csv"):
        with pytest.raises(InvalidInputError, match=r"types of the columns of .* would be guessed"):
            model.fit(str(path))


MODEL = PrivateGaussianClassifier(
    delta=1e-5, relation="add_or_remove_one", bounds=table_bounds("bought")
)


def in_files(table: pd.DataFrame, folder: Path) -> str:
    folder.mkdir(exist_ok=True)
    table[:90].to_parquet(folder / "a.parquet")
    table[90:].to_parquet(folder / "b.parquet")
    return str(folder)


def in_dask(table: pd.DataFrame, folder: Path) -> Any:
    dask.delayed(int)().compute()  # whose first call asks for a function at exit
    return dask.dataframe.from_pandas(table, npartitions=2)


def compare(place: Callable[[pd.DataFrame, Path], Any], folder: Path) -> None:
    """Compare fits on other rows, in another number, at the same place."""
    here = place(messy_table(0, 200), folder)
    other = messy_table(1, 170)

    def others() -> Iterator[tuple[Any, None]]:
        yield place(other, folder), None

    compare_replays(MODEL, (here, None), others())


@pytest.mark.parametrize("place", [in_files, in_dask])
def test_parts_leave_nothing_behind(
    place: Callable[[pd.DataFrame, Path], Any], tmp_path: Path
) -> None:
    compare(place, tmp_path / "table")


@pytest.mark.parametrize(
    ("kind", "place"),
    [
        (PartitionedRecords, in_files),
        (LocalParts, in_files),
        (PartitionedRecords, in_dask),
        (DelayedParts, in_dask),
        (FrameParts, in_dask),
    ],
)
def test_a_number_of_rows_kept_by_a_class_is_found(
    kind: Any,
    place: Callable[[pd.DataFrame, Path], Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    merged = PartitionedRecords._merged

    def noting(self: PartitionedRecords, statistic: Any) -> Any:
        total = merged(self, statistic)
        kind.most_seen = total.n_rows
        return total

    monkeypatch.setattr(PartitionedRecords, "_merged", noting)
    with pytest.raises(AssertionError, match="most_seen depends on the rows"):
        compare(place, tmp_path / "table")
    assert not hasattr(kind, "most_seen")  # put back
