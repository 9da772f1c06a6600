"""Fuzzed tables: one cell or line changed, every release held fixed, and nothing else differs.

python -m benchmarks.bench_fuzzed_tables [--tables 10000]

Tables of random sizes go through Python (frames of pandas, polars and Arrow; files of every format)
and through the command line. A table and its neighbours must give the same model, file, table,
words and errors to the bit (`audit.testing.tables.compare_tables`), and the same rows but one.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typer.testing import CliRunner

from benchmarks.odd_tables import (
    BOUNDS,
    CELLS,
    FILES,
    FRAMES,
    LINES,
    columns,
    with_cell,
    with_line,
)
from benchmarks.recording import write
from sfumato import Fabricator, PrivateMoments
from sfumato.audit.testing.tables import compare_tables
from sfumato.cli.jobs.pipeline import PrivacyRequest, all_labelled_rows, fabricate_table, fit_table
from sfumato.cli.jobs.publishing import release_table
from sfumato.cli.main import app
from sfumato.sums.table_parts import LocalParts
from sfumato.tables import TableEncoder
from sfumato.tables.files import TableFile

NEIGHBOURS = 10  # of each table
FEATURES = [column.name for column in BOUNDS.used]
OF_PERSONS = BOUNDS.with_person("id", 3)
Array = NDArray[Any]
RELATIONS = ("replace_one", "add_or_remove_one")


def an_odd_cell(chance: random.Random) -> Any:
    """Return one of the known oddities, or a random number, text or handful of bytes."""
    return chance.choice(
        [
            lambda: chance.choice(CELLS),
            lambda: chance.choice(CELLS),
            lambda: chance.uniform(-1, 1) * 10.0 ** chance.randrange(-320, 308),
            lambda: chance.randrange(-(2**70), 2**70),
            lambda: "".join(chr(chance.randrange(14, 0x300)) for _ in range(chance.randrange(9))),
            lambda: chance.randbytes(chance.randrange(9)),
            lambda: str(chance.randrange(10**20)) + chance.choice(["", ".0", ".5", "e3", "x", " "]),
        ]
    )()


def an_odd_line(kind: str, chance: random.Random) -> bytes:
    if chance.random() < 0.5:
        return chance.choice(LINES[kind])
    signs = b'",0.5{}[]:\r\x00\xff x\\' if chance.random() < 0.7 else bytes(range(256))
    line = bytes(chance.choice(signs) for _ in range(chance.randrange(40)))
    return line.replace(b"\n", b"")


# Ways from a table to something that is seen -------------------------------------------------


def in_memory(chance: random.Random, folder: Path) -> None:  # noqa: ARG001 - as the other ways
    kind, base = chance.choice([*FRAMES]), _base(chance)
    relation = chance.choice(RELATIONS)
    given = {name: base[name] for name in FEATURES}

    def run(table: Any) -> tuple[Any, ...]:
        fabricator = Fabricator(
            delta=1e-5,
            relation=relation,
            bounds=BOUNDS,
            random_state=0,
        ).fit(table, base["label"])
        return fabricator, *fabricator.fabricate()

    def encoded(table: Any) -> tuple[Array, ...]:
        return (TableEncoder(BOUNDS).transform(table),)

    odd = [_with_odd_cell(given, chance) for _ in range(NEIGHBOURS)]
    tables = [(place, FRAMES[kind](table)) for place, table in odd]
    compare_tables(run, FRAMES[kind](given), (table for _, table in tables))
    require_other_rows(encoded, FRAMES[kind](given), tables)


def of_persons(chance: random.Random, folder: Path) -> None:  # noqa: ARG001 - as the other ways
    """Fit persons of some rows each, in frames and in batches of them."""
    kind, base = chance.choice([*FRAMES]), _base(chance)
    base["id"] = [place % 7 for place in range(len(base["id"]))]
    in_parts = chance.random() < 0.5

    def run(table: Any) -> tuple[Any, ...]:
        parts = LocalParts([lambda: [table]], [*base]) if in_parts else table
        model = PrivateMoments(
            delta=1e-5, unit="person", relation="add_or_remove_one", bounds=OF_PERSONS
        )
        return (model.fit(parts, "label"),)

    odd = [_with_odd_cell(base, chance) for _ in range(NEIGHBOURS)]
    compare_tables(run, FRAMES[kind](base), (FRAMES[kind](table) for _, table in odd))


def require_other_rows(
    encoded: Callable[[Any], tuple[Array, ...]], table: Any, others: Iterable[tuple[int, Any]]
) -> None:
    """Raise unless each of the others differs from the table in the row of its place alone."""
    whole = encoded(table)
    for place, other in others:
        for here, there in zip(whole, encoded(other), strict=True):
            rest = (np.delete(each, place, axis=0) for each in (here, there))
            if not np.array_equal(*rest, equal_nan=here.dtype.kind == "f"):
                raise AssertionError(f"A cell of row {place} changes other rows.")


def from_file(chance: random.Random, folder: Path) -> None:
    promise = PrivacyRequest(epsilon=1.0, delta=1e-5, relation=chance.choice(RELATIONS))
    options = {"bandwidth": 0.1}
    used = replace(BOUNDS, columns=BOUNDS.columns[:3])
    tasks: list[Callable[[TableFile], tuple[Any, ...]]] = [
        lambda source: (fit_table(source, BOUNDS, promise),),
        lambda source: (fit_table(source, used, promise, model="linear"),),
        lambda source: fabricate_table(source, BOUNDS, promise),
        lambda source: (
            release_table(
                source, BOUNDS, promise, function="density", columns=["share"], options=options
            ),
        ),
        lambda source: (
            release_table(source, BOUNDS, promise, function="curve", columns=["whole", "share"]),
        ),
    ]
    task = chance.choice(tasks)
    (_, first), *others = _files(chance, folder)
    compare_tables(
        lambda make: task(TableFile(make(), BOUNDS.types())), first, (make for _, make in others)
    )

    def encoded(make: Callable[[], Path]) -> tuple[Array, ...]:
        source = TableFile(make(), BOUNDS.types())
        return all_labelled_rows(source, BOUNDS)

    require_other_rows(encoded, first, others)


def by_command(chance: random.Random, folder: Path) -> None:
    commands = {
        "fit": ("model.sfumato",),
        "fabricate": (chance.choice(["made.csv", "made.parquet", "made.feather", "made.jsonl"]),),
        "release density": ("density.sfumato", "--columns", "share", "--set", "bandwidth=0.1"),
    }
    command = chance.choice([*commands])
    output, *further = commands[command]
    relation = chance.choice(RELATIONS)

    def run(make: Callable[[], Path]) -> tuple[Any, ...]:
        words = [*command.split(), make().name, "--epsilon", "1", "--delta", "1e-5", *further]
        words += ["--relation", relation, "--bounds", "bounds.toml", "-o", output]
        Path(output).unlink(missing_ok=True)
        done = CliRunner().invoke(app, words)
        made = Path(output).read_bytes() if Path(output).is_file() else None
        return done.exit_code, done.stdout, done.stderr, repr(done.exception), made

    with contextlib.chdir(folder):
        BOUNDS.write("bounds.toml")
        (_, first), *others = _files(chance, folder)
        compare_tables(run, first, (make for _, make in others))


WAYS = {
    "frames": in_memory,
    "persons": of_persons,
    "files": from_file,
    "command line": by_command,
}


def _base(chance: random.Random) -> dict[str, list[Any]]:
    return columns(chance.randrange(5, 60), chance.randrange(10**6))


def _with_odd_cell(given: Any, chance: random.Random) -> tuple[int, dict[str, list[Any]]]:
    name = chance.choice([*given])
    place = chance.randrange(len(given[name]))
    return place, with_cell(given, name, place, an_odd_cell(chance))


def _files(chance: random.Random, folder: Path) -> Iterator[tuple[int, Callable[[], Path]]]:
    """Yield functions that write a table, and its neighbours, to one and the same path."""
    suffix, write_rows = FILES[chance.choice([*FILES])]
    base, path = _base(chance), folder / f"rows.{suffix}"

    def with_cells(given: Any) -> Callable[[], Path]:
        return lambda: (write_rows(given, path), path)[1]

    def with_odd_line(place: int, line: bytes) -> Callable[[], Path]:
        return lambda: (write_rows(base, path), with_line(path, place, line), path)[2]

    yield 0, with_cells(base)
    for _ in range(NEIGHBOURS):
        if suffix in LINES and chance.random() < 0.4:
            place = chance.randrange(len(base["id"]))
            yield place, with_odd_line(place, an_odd_line(suffix, chance))
        else:
            place, given = _with_odd_cell(base, chance)
            yield place, with_cells(given)


def fuzz(n_tables: int, seed: int = 0) -> dict[str, Any]:
    """Compare tables with neighbours; gives how many of each way, and what told them apart."""
    counts: Counter[str] = Counter()
    differences: list[str] = []
    started = time.process_time()
    while counts.total() < n_tables:
        number = seed * 10**6 + counts.total()
        chance = random.Random(number)
        way = chance.choice([*WAYS])
        with tempfile.TemporaryDirectory() as folder:
            try:
                WAYS[way](chance, Path(folder))
            except AssertionError as error:
                differences.append(f"{way}, {number}: {error}")
        counts[way] += NEIGHBOURS
    return {
        "tables": dict(counts),
        "differences": differences,
        "cpu_s": round(time.process_time() - started, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tables", type=int, default=10_000)
    os.environ.setdefault("COLUMNS", "200")
    write("fuzzed_tables", fuzz(parser.parse_args().tables), seed=0)


if __name__ == "__main__":
    main()
