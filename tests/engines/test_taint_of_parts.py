"""What adds up parts leaves nothing of their rows behind: the taint test over engines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dask
import dask.dataframe
import pandas as pd
import pytest

from sfumato import PrivateGaussianClassifier
from sfumato.audit.testing.taint import compare_replays
from sfumato.sums.dask import DelayedParts, FrameParts
from sfumato.sums.partitions import PartitionedRecords
from sfumato.sums.table_parts import LocalParts
from tests.engines.sources import messy_table, table_bounds

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
