"""One small messy table, wherever it can lie, and comparisons to the bit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from sfumato.mechanisms.base import Tape, taped
from sfumato.sums.grid import SecretSum, revealed
from sfumato.sums.partitions import Partitions, Task
from sfumato.tables.schema import TableBounds

N_ROWS = 1500


def messy_table(seed: int = 0, n_rows: int = N_ROWS) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    age = rng.normal(45, 15, n_rows)
    income = np.exp(rng.normal(3, 1, n_rows))
    town = rng.choice(["Oslo", "Rome", "Wien"], n_rows)
    score = 0.03 * age + 0.2 * np.log(income) + (town == "Rome") + rng.normal(0, 0.5, n_rows)
    table = pd.DataFrame(
        {
            "age": age,
            "income": income,
            "town": town,
            "level": rng.integers(0, 9, n_rows),
            "person": rng.integers(0, n_rows // 3, n_rows),
            "bought": np.where(score > np.median(score), "yes", "no"),
            "spent": 10 * score,
        }
    )
    table.loc[rng.choice(n_rows, 20), "age"] = np.nan
    table.loc[rng.choice(n_rows, 20), "income"] = 1e9
    table.loc[rng.choice(n_rows, 20), "town"] = "nowhere"
    return table


def table_bounds(target: str | None, **persons: Any) -> TableBounds:
    columns: dict[str, Any] = {
        "age": {"lower": 0.0, "upper": 100.0, "missing": True},
        "income": (0.0, 200.0),
        "town": {"categories": ["Oslo", "Rome", "Wien"], "missing": True},
        "level": (0, 8),
    }
    targets: dict[str, Any] = {"bought": ["no", "yes"], "spent": (0.0, 60.0)}
    if target is not None:
        columns[target] = targets[target]
    return TableBounds.from_dict(columns, target=target, **persons)


class ThreadParts(Partitions):
    """The engine of the documentation: parts of a frame, mapped by a pool."""

    def __init__(
        self, frames: list[pd.DataFrame], answers: Callable[[list[Any]], Any] | None = None
    ):
        self._frames, self._answers = frames, answers
        self.n_parts, self.columns = len(frames), list(map(str, frames[0].columns))

    def map(self, task: Task) -> Iterator[Any]:
        with ThreadPoolExecutor(2) as pool:
            found: Iterable[Any] = list(
                pool.map(lambda i: task(i, [self._frames[i]]), range(self.n_parts))
            )
        yield from found if self._answers is None else self._answers(list(found))


def in_parts(table: pd.DataFrame, n_parts: int) -> list[pd.DataFrame]:
    """Cut a table unevenly, one part of it empty."""
    ends = np.sort(np.random.default_rng(1).integers(0, len(table), n_parts - 1))
    cuts = [0, *ends.tolist(), len(table)]
    return [table.iloc[a:b] for a, b in pairwise(cuts)]


def write_files(table: pd.DataFrame, folder: Path) -> dict[str, Any]:
    """Write the table as files of every kind; return what `fit` takes."""
    for number, part in enumerate(in_parts(table.sample(frac=1.0, random_state=0), 4)):
        part.to_parquet(folder / f"part{number}.parquet", row_group_size=97)
    table.to_csv(folder / "table.csv.gz", index=False)
    for level, part in table.groupby("level"):
        (folder / "levels" / str(level)).mkdir(parents=True)
        part.to_parquet(folder / "levels" / str(level) / "0.parquet")
    return {
        "glob": str(folder / "part*.parquet"),
        "gzip": folder / "table.csv.gz",
        "folder": folder / "levels",
    }


def same_bits(make: Callable[[], Any], table: pd.DataFrame, sources: dict[str, Any]) -> Tape:
    """Assert that fits give the same exact statistics and, with noise from tape, one model."""
    with taped() as tape:
        first = make().fit(table)
    for name, source in sources.items():
        with taped(playback=tape) as played:
            other = make().fit(source)
        assert len(played.releases) == len(tape.releases), name
        for mine, theirs in zip(tape.releases, played.releases, strict=True):
            np.testing.assert_array_equal(theirs.statistic, mine.statistic, err_msg=name)
            assert theirs.mechanism == mine.mechanism or repr(theirs.mechanism) == repr(
                mine.mechanism
            ), name
        assert_same_model(first, other, name)
    return tape


def assert_same_model(first: Any, other: Any, name: str) -> None:
    mine, theirs = vars(first), vars(other)
    fitted = [key for key in mine if key.endswith("_") and key not in ("library_", "guarantee_")]
    assert fitted
    for key in fitted:
        _assert_equal(theirs[key], mine[key], f"{name}: {key}")
    for word in ("epsilon", "delta", "unit", "relation", "public", "events"):
        assert getattr(other.guarantee_, word) == getattr(first.guarantee_, word)


def _assert_equal(theirs: Any, mine: Any, name: str) -> None:
    if isinstance(mine, dict):
        assert theirs.keys() == mine.keys(), name
        for key in mine:
            _assert_equal(theirs[key], mine[key], f"{name}.{key}")
    elif isinstance(mine, np.ndarray):
        np.testing.assert_array_equal(theirs, mine, err_msg=name)
    else:
        assert theirs == mine, name


def doubles(total: Any) -> np.ndarray:
    """Exact sums as doubles."""
    return revealed(total) if isinstance(total, SecretSum) else total.averaged()
