"""A table gives the same bits wherever it lies: exact sums, and models with noise from tape."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest

from sfumato import (
    Bounds,
    Fabricator,
    PrivateAdditiveClassifier,
    PrivateAdditiveRegressor,
    PrivateGaussianClassifier,
    PrivateLinearClassifier,
    PrivateLinearRegressor,
    PrivateMoments,
    PrivatePCA,
)
from sfumato.exceptions import InvalidInputError, MissingBoundsError, UnsupportedModeError
from sfumato.mechanisms.base import taped
from sfumato.models.curves import PrivateMeanCurve
from sfumato.models.density import PrivateDensity
from sfumato.sums import singles, table_parts as engine_tables
from sfumato.sums.table_parts import LocalParts
from sfumato.tables import TableBounds
from tests.engines.sources import (
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
    "regression by moments": _of(PrivateLinearRegressor, "spent", algorithm="moments"),
    "tree": _of(Fabricator, "bought", method="tree"),
    "fabricated Gaussians": _of(Fabricator, "bought", method="moments"),
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
    monkeypatch.setattr(singles, "fits_in_memory", lambda _: False)
    for name in ("linear", "regression"):
        same_bits(ESTIMATORS[name], table, {"glob": sources["glob"]})


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


def test_batches_may_be_arrays() -> None:
    rows = np.random.default_rng(0).uniform(size=(400, 3))
    labels = (rows[:, 0] > 0.5).astype(int)
    parts = LocalParts(
        [lambda a=a, b=b: [(rows[a:b], labels[a:b], None)] for a, b in [(0, 7), (7, 7), (7, 400)]],
        3,
    )
    make = lambda: PrivateLinearClassifier(  # noqa: E731
        bounds=Bounds(norm=2.0, labels=[0, 1]), n_steps=3, delta=1e-5
    )
    with taped() as tape:
        first = make().fit(rows, labels)
    with taped(playback=tape):
        other = make().fit(parts)
    np.testing.assert_array_equal(first.coef_, other.coef_)


def test_text_needs_declared_types(sources: dict[str, Any]) -> None:
    bounds = Bounds(norm=2.0, labels=["no", "yes"])
    with pytest.raises(InvalidInputError, match="declares them"):
        PrivateMoments(bounds=bounds, delta=1e-5).fit(sources["gzip"], "bought")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: PrivateDensity(bounds=DENSITY, method="process", delta=1e-5), "in memory"),
    ],
)
def test_what_needs_all_rows_says_so(
    make: Callable[[], Any], words: str, sources: dict[str, Any]
) -> None:
    with pytest.raises(UnsupportedModeError, match=words):
        make().fit(sources["glob"])


@pytest.mark.parametrize("kind", [PrivateMoments, PrivateLinearClassifier, Fabricator])
def test_labels_must_be_listed(kind: Any, sources: dict[str, Any]) -> None:
    """Batches would find different labels, and number them differently."""
    bounds = TableBounds.from_dict({"age": (0, 100), "bought": "public"}, target="bought")
    with pytest.raises(MissingBoundsError, match="labels listed"):
        kind(bounds=bounds, delta=1e-5).fit(sources["glob"])


@pytest.mark.parametrize("path", ["none*.parquet", "none.parquet", "none.xyz"])
def test_paths_that_name_no_table(path: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="none"):
        PrivateMoments(bounds=table_bounds("bought"), delta=1e-5).fit(tmp_path / path)


def test_files_of_different_columns_are_refused(table: pd.DataFrame, tmp_path: Path) -> None:
    table.to_parquet(tmp_path / "a.parquet")
    table.drop(columns="age").to_parquet(tmp_path / "b.parquet")
    with pytest.raises(InvalidInputError, match="same columns"):
        PrivateMoments(bounds=table_bounds("bought"), delta=1e-5).fit(str(tmp_path / "*.parquet"))


def test_many_remote_passes_are_warned_of(table: pd.DataFrame) -> None:
    parts = ThreadParts(in_parts(table, 2))
    model = PrivateLinearClassifier(bounds=table_bounds("bought"), n_steps=49, delta=1e-5)
    with pytest.warns(UserWarning, match="asks the engine 50 times"):
        model.fit(parts)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.set_params(n_steps=4).fit(parts)
