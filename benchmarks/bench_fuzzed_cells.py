"""Fuzzed cells: one cell changed, in a table of any kind, and no other record differs.

python -m benchmarks.bench_fuzzed_cells [--cells 100000] [--workers 16]

A column of one type, or of cells that have types of their own, is put into a table, and one cell is
replaced by an odd one (`benchmarks.odd_types`). It is then read as numbers, truth values,
categories, dates, labels, plain rows and IDs: the other records must come out the same to the bit,
with the same errors and warnings. A cell that a library or format does not hold is not counted.
Each round of one table of every kind is kept as a line of JSON, so that a run that was cut off goes
on where it was.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet

from benchmarks.odd_tables import write_csv, write_workbook
from benchmarks.odd_types import DUCKDB, OBJECTS, TYPES, WIDE
from benchmarks.recording import write
from sfumato import Bounds, TableBounds, TableEncoder
from sfumato.exceptions import SfumatoError
from sfumato.sums.persons import person_codes, person_digests
from sfumato.sums.table_parts import QueryParts, all_missing_record
from sfumato.tables.cells import as_cells, as_rows, columns_of
from sfumato.tables.files import TableFile
from sfumato.tables.text import TextFormat

ROWS = 8
NEIGHBOURS = 20  # of each table
MOST_WAYS = 3  # of reading a table
SPAN = {"lower": "1900-01-01", "upper": "2100-01-01"}
PARTS = ["time", "year", "month", "weekday", "hour"]
FACTS: dict[str, Any] = {
    "number": (0, 10),
    "logarithm": {"lower": 0, "upper": 10, "log": True, "missing": True},
    "single": {"type": "float", "lower": 0, "upper": 10},
    "whole": {"type": "int64", "lower": 0, "upper": 10},
    "short": {"type": "uint8", "lower": 0, "upper": 255},
    "truth": bool,
    "texts": ["1", "2", "true", "2020-01-31"],
    "numbers": [1.0, 2.0, 2.5],
    "date": {"type": "date32[day]", "parts": PARTS, **SPAN},
    "time": {"type": "timestamp[ms]", "parts": PARTS, **SPAN},
    "time there": {"type": "timestamp[s, tz=Europe/Berlin]", "parts": PARTS, **SPAN},
    "written date": {"type": "date32[day]", "parts": PARTS, "format": "%d.%m.%Y", **SPAN},
}
ENCODERS = {name: TableEncoder(TableBounds.from_dict({"c": fact})) for name, fact in FACTS.items()}
TARGETS = {
    name: TableBounds.from_dict({"x": (0, 1), "c": fact}, target="c")
    for name, fact in {"labels": ["1", "2"], "numbers": [1, 2], "target": (0, 10)}.items()
}
LABELS = {"texts": Bounds(norm=1.0, labels=["1", "2"]), "numbers": Bounds(norm=1.0, labels=[1, 2])}
FORMATS = {
    "CSV": TextFormat(),
    "CSV, missing markers": TextFormat(missing=("NA", "x", "0000-01-01")),
    "CSV, commas": TextFormat(";", decimal=",", thousands=".", missing=("NA",)),
    "CSV, one byte per letter": TextFormat("|", encoding="cp1252"),
}
RAW = "not an error of ours"
Ways = dict[str, Callable[[], tuple[Any, ...]]]


# Ways of reading a table ------------------------------------------------------------------------


def persons(column: Any) -> tuple[Any, ...]:
    """Return digests of IDs, and which rows are of one person."""
    codes = person_codes(column)
    return person_digests(column), (codes[:, None] == codes) & (codes >= 0)


def in_memory(table: Any) -> Ways:
    column = columns_of(table, ["c"])["c"]
    ways: Ways = {name: lambda e=e: (e.transform(table),) for name, e in ENCODERS.items()}
    ways |= {f"as {name}": lambda b=b: (b.target_of(table),) for name, b in TARGETS.items()}
    return ways | by_cells(column) | {"rows": lambda: (as_rows(table),)}


def by_cells(column: Any) -> Ways:
    """Read a column, a list or an array without any table."""
    ways: Ways = {f"in {n}": lambda b=b: b.clip_labels(column)[:1] for n, b in LABELS.items()}
    return ways | {"persons": lambda: persons(column)}


def in_rows(rows: Any) -> Ways:
    """Read records of two cells each."""
    box = Bounds(lower=[0, 0], upper=[10, 10])
    column = as_cells([row[0] for row in rows])
    ways: Ways = {"rows": lambda: (as_rows(rows, 2),), "clipped": lambda: (box.clip(rows),)}
    return ways | by_cells(column) | {"encoded": lambda: (TableEncoder(box).fit_transform(rows),)}


def in_batches(read: Callable[[dict[str, str]], Iterator[Any]]) -> Ways:
    """Read batches of a table with declared types; the first has no rows, as types are public."""

    def joined(declared: str, of: Callable[[Any], Any]) -> tuple[Any, ...]:
        return (np.concatenate([of(batch) for batch in read({"c": declared})]),)

    ways: Ways = {
        name: lambda e=e: joined(e.bounds.types()["c"], e.transform) for name, e in ENCODERS.items()
    }
    ways |= {
        f"as {name}": lambda b=b: joined(b.types()["c"], b.target_of) for name, b in TARGETS.items()
    }
    return ways | {"persons": lambda: persons(pa.concat_tables(read({"c": "string"}))["c"])}


def in_file(path: Path, text: TextFormat | None = None) -> Ways:
    def read(types: dict[str, str]) -> Iterator[Any]:
        file = TableFile(path, types, text)
        yield from (file.read(["c"], may_be_empty=True).slice(0, 0), *file.batches(["c"]))

    def length() -> tuple[Any, ...]:
        return (np.full(ROWS, TableFile(path, {"c": "double"}, text).n_rows),)

    return in_batches(read) | {"length": length}


def by_query(query: Any) -> Ways:
    def read(types: dict[str, str]) -> Iterator[Any]:
        parts: Any = QueryParts(query).declared(types)
        yield all_missing_record(parts.columns, parts.schema).slice(0, 0)
        for part in parts._parts:
            yield from part()

    return in_batches(read)


# Kinds of tables, by what their cells are: of one type, objects, or what DuckDB writes -----------

Typed = Callable[[pa.Table, Path], Ways]
Column = Sequence[Any]


def _written(write_rows: Callable[..., Any], suffix: str) -> Typed:
    def written(table: pa.Table, folder: Path) -> Ways:
        write_rows(table, folder / f"c.{suffix}")
        return in_file(folder / f"c.{suffix}")

    return written


def _query_of_duckdb(table: pa.Table) -> Ways:
    duckdb.register("given", table)
    duckdb.execute("CREATE OR REPLACE TEMP TABLE held AS SELECT * FROM given")
    return by_query(duckdb.sql("SELECT c FROM held"))


TYPED: dict[str, Typed] = {
    "Arrow": lambda table, _: in_memory(table),
    "Arrow, one chunk": lambda table, _: in_memory(table.combine_chunks()),
    "polars": lambda table, _: in_memory(pl.from_arrow(table)),
    "polars, lazy": lambda table, _: by_query(pl.from_arrow(table).lazy()),
    "pandas": lambda table, _: in_memory(table.to_pandas()),
    "pandas on Arrow": lambda table, _: in_memory(table.to_pandas(types_mapper=pd.ArrowDtype)),
    "Parquet": _written(pyarrow.parquet.write_table, "parquet"),
    "DuckDB, query": lambda table, _: _query_of_duckdb(table),
}


def _array(cells: Column) -> Any:
    found = np.empty(len(cells), dtype=object)
    for place, cell in enumerate(cells):
        found[place] = cell
    return found


def _pandas(cells: Column) -> Any:
    return pd.DataFrame({"c": pd.Series(_array(cells), dtype=object)})


def _text_file(name: str) -> Callable[[Column, Path], Ways]:
    text = FORMATS[name]

    def written(cells: Column, folder: Path) -> Ways:
        path = folder / "c.csv"
        if any(isinstance(cell, str) and "\n" in cell for cell in cells):
            raise ValueError("A line is a record.")
        write_csv({"c": list(cells), "d": [0] * len(cells)}, path, text)
        return in_file(path, text)

    return written


def _stored(write_rows: Callable[..., None], suffix: str) -> Callable[[Column, Path], Ways]:
    def written(cells: Column, folder: Path) -> Ways:
        path = folder / f"c.{suffix}"
        path.unlink(missing_ok=True)
        write_rows({"c": list(cells), "d": [0] * len(cells)}, path)
        return in_file(path)

    return written


OF_OBJECTS: dict[str, Callable[[Column, Path], Ways]] = {
    "pandas, objects": lambda cells, _: in_memory(_pandas(cells)),
    "polars, objects": lambda cells, _: in_memory(
        pl.DataFrame({"c": pl.Series(list(cells), dtype=pl.Object)})
    ),
    "polars, lazy, objects": lambda cells, _: by_query(
        pl.DataFrame({"c": pl.Series(list(cells), dtype=pl.Object)}).lazy()
    ),
    "NumPy": lambda cells, _: by_cells(_array(cells)),
    "lists": lambda cells, _: in_rows([[cell, 0.5] for cell in cells]),
    **{name: _text_file(name) for name in FORMATS},
    "Excel": _stored(write_workbook, "xlsx"),
}


def _wide(cells: Column) -> pl.DataFrame:
    return pl.DataFrame({"c": pl.Series(list(cells), dtype=pl.Int128)})


def _asked_of_duckdb(literals: Column, name: str) -> Ways:
    rows = ", ".join(f"({place}, ({cell})::{name})" for place, cell in enumerate(literals))
    return by_query(duckdb.sql(f"SELECT c FROM (VALUES {rows}) AS t(place, c) ORDER BY place"))


OF_WIDE_NUMBERS = {
    "polars, 128 bits": lambda cells, _: in_memory(_wide(cells)),
    "polars, lazy, 128 bits": lambda cells, _: by_query(_wide(cells).lazy()),
}
KINDS = (*TYPED, *OF_OBJECTS, *OF_WIDE_NUMBERS, "DuckDB, its own types")


# Tables and their neighbours --------------------------------------------------------------------


def seen(ways: Ways, asked: list[str], place: int) -> dict[str, Any]:
    """Return what some ways of reading show, without the record at a place."""
    found = {}
    for name in asked:
        shown: list[Any]
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                shown = [_others(each, place) for each in ways[name]()]
            except (KeyboardInterrupt, MemoryError):
                raise
            except SfumatoError as error:
                shown = [type(error).__name__, str(error)]
            except BaseException as error:  # a panic of polars is no Exception
                shown = [RAW, error]  # which is equal to no other
        found[name] = [*shown, *(str(each.message) for each in said)]
    return found


def _others(array: Any, place: int) -> tuple[Any, ...]:
    kept = np.delete(array, place, axis=0)
    if array.dtype == bool:  # pairs of rows
        kept = np.delete(kept, place, axis=1)
    return str(kept.dtype), array.shape, kept.tolist() if kept.dtype == object else kept.tobytes()


def cells_for(kind: str, chance: random.Random) -> tuple[str, Column, Column, Callable[..., Ways]]:
    """Return the name of a type, its plain and odd cells, and what makes a table of a column."""
    if kind in OF_OBJECTS:
        return "objects", *_holdable(kind), OF_OBJECTS[kind]
    if kind in OF_WIDE_NUMBERS:
        return "Int128", *WIDE, OF_WIDE_NUMBERS[kind]
    if kind not in TYPED:
        name = chance.choice([*DUCKDB])
        return name, *DUCKDB[name], lambda literals, _: _asked_of_duckdb(literals, name)
    name = chance.choice([*TYPES])

    def opened(column: Column, folder: Path) -> Ways:
        return TYPED[kind](pa.table({"c": pa.chunked_array(list(column))}), folder)

    return name, *TYPES[name], opened


@cache
def _holdable(kind: str) -> tuple[Column, Column]:
    """Return the plain and the odd cells that a kind of table holds."""
    with tempfile.TemporaryDirectory() as folder:
        plain, odd = (
            [cell for cell in cells if _held(OF_OBJECTS[kind], [cell], Path(folder))]
            for cells in OBJECTS
        )
    return plain, odd


def fuzz_table(
    kind: str, chance: random.Random, folder: Path, n_neighbours: int = NEIGHBOURS
) -> tuple[Counter[str], list[str]]:
    """Change cells of one column; returns how many were changed, and what differed."""
    name, plain, odd, opened = cells_for(kind, chance)
    company = [*plain, *odd] if chance.random() < 0.5 else [*plain]
    base = [chance.choice(company) for _ in range(ROWS)]
    place = chance.randrange(ROWS)
    counts: Counter[str] = Counter()
    differences: list[str] = []
    first = _held(opened, base, folder)
    if first is None:
        return Counter({"not held": n_neighbours}), []
    asked = chance.sample(sorted(first), min(MOST_WAYS, len(first)))
    expected = seen(first, asked, place)
    differences += [f"{kind}, {name}, read as {w}: {s}" for w, s in expected.items() if s[0] is RAW]
    for _ in range(n_neighbours):
        cell = chance.choice(odd)
        ways = _held(opened, [*base[:place], cell, *base[place + 1 :]], folder)
        if ways is None:
            counts["not held"] += 1
            continue
        counts.update([kind, *(f"read as {way}" for way in asked)])
        found = seen(ways, asked, place)
        differences += [
            f"{kind}, {name}, read as {way}: {_short(cell)} gives {_short(found[way])} instead of "
            f"{_short(expected[way])}"
            for way in asked
            if found[way] != expected[way]
        ]
    return counts, differences


def _held(opened: Callable[..., Ways], column: Column, folder: Path) -> Ways | None:
    """Make a table, unless the library or format cannot hold its cells."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return opened(column, folder)
        except (KeyboardInterrupt, MemoryError):
            raise
        except BaseException:
            return None


def _short(thing: Any) -> str:
    return " ".join(repr(thing).split())[:120]


def fuzz_round(number: int, seed: int = 0) -> dict[str, Any]:
    """Change cells of one table of each kind; returns how many of each, and what differed."""
    counts: Counter[str] = Counter()
    differences: list[str] = []
    started = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        for place, kind in enumerate(KINDS, 1 + number * len(KINDS)):
            chance = random.Random(f"{seed} {place}")
            more, found = fuzz_table(kind, chance, Path(folder))
            counts += more
            differences += found
    seconds = time.process_time() - started
    return {"round": number, "counts": counts, "differences": differences, "cpu_s": seconds}


def n_cells(rounds: list[dict[str, Any]]) -> int:
    """Return how many cells were changed in some rounds."""
    return sum(each["counts"].get(kind, 0) for each in rounds for kind in KINDS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cells", type=int, default=100_000)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=1e9, help="after which no round is kept")
    parser.add_argument("--out", type=Path, default=Path("build/fuzzed_cells.jsonl"))
    options = parser.parse_args()
    end = time.monotonic() + options.seconds
    options.out.parent.mkdir(parents=True, exist_ok=True)
    lines = options.out.read_text().splitlines() if options.out.exists() else []
    rounds = [json.loads(line) for line in lines]
    done = {each["round"] for each in rounds}
    waiting = (number for number in range(options.cells) if number not in done)
    # Started afresh, not forked: threads of the libraries do not survive a fork.
    with multiprocessing.get_context("spawn").Pool(options.workers) as pool:
        while n_cells(rounds) < options.cells and time.monotonic() < end:
            batch = [number for number, _ in zip(waiting, range(options.workers), strict=False)]
            for each in pool.imap_unordered(partial(fuzz_round, seed=options.seed), batch):
                rounds.append(each)
                with options.out.open("a") as stream:
                    stream.write(json.dumps(each) + "\n")
    counts = sum((Counter(each["counts"]) for each in rounds), Counter())
    numbers = {
        "cells": {kind: counts[kind] for kind in KINDS},
        "readings": {name: counts[name] for name in sorted(counts) if name.startswith("read as")},
        "not held": counts["not held"],
        "types": len(TYPES) + len(DUCKDB),
        "differences": [text for each in rounds for text in each["differences"]],
        "cpu_s": round(sum(each["cpu_s"] for each in rounds), 1),
    }
    write("fuzzed_cells", numbers, seed=options.seed)
    sys.exit(bool(numbers["differences"]))


if __name__ == "__main__":
    main()
