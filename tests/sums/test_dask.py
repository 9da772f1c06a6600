"""A real cluster of Dask: worker processes, killed and lost, and what leaves them."""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sfumato import Ledger, PrivateLinearClassifier
from sfumato.mechanisms.base import taped
from tests.sums.sources import in_parts, messy_table, same_bits, table_bounds
from tests.sums.test_partitions import ESTIMATORS, PERSONS

distributed = pytest.importorskip("distributed", reason="needs Dask: pip install 'sfumato[dask]'")
dd = pytest.importorskip("dask.dataframe")
delayed = pytest.importorskip("dask").delayed
MemoryFileSystem = pytest.importorskip("fsspec.implementations.memory").MemoryFileSystem
pytestmark = pytest.mark.xdist_group("dask")
# `make test` runs a cluster of processes, moments on it, and a worker that is killed; the others
# cost more time and are left to `make test-servers`.
more = pytest.mark.servers

CANARY = 7.770133771e-5  # a value of one record, whose bytes must not leave a worker


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cluster = distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            host="127.0.0.1",
            silence_logs=False,  # levels of loggers are settings that the taint test looks at
        )
        with cluster, distributed.Client(cluster) as found:
            yield found


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Dask's own, of sizes of graphs and of sockets
        yield


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return messy_table()


def _frame(table: pd.DataFrame, n_parts: int) -> Any:
    return _lazy([_Given(part) for part in in_parts(table, n_parts)], table)


@pytest.mark.parametrize(
    "name",
    [
        "moments",
        *(
            pytest.param(name, marks=more)
            for name in ("gaussian", "linear", "additive with knots", "tree", "grid density")
        ),
    ],
)
def test_bits_do_not_depend_on_partitions(
    name: str, client: Any, table: pd.DataFrame, tmp_path: Path
) -> None:
    assert client.status == "running"
    counts = (1, 2, 7) if name in ("moments", "linear") else (2,)
    for number, part in enumerate(in_parts(table, 2)):
        part.to_parquet(tmp_path / f"{number}.parquet")
    frames = {str(n): _frame(table, n) for n in counts}
    same_bits(ESTIMATORS[name], table, frames | {"files": dd.read_parquet(tmp_path)})


def test_a_frame_of_nothing_but_files_is_read_as_files(table: pd.DataFrame, tmp_path: Path) -> None:
    from sfumato.sums.dask import FrameParts

    dd.from_pandas(table.rename_axis("row"), npartitions=3).to_parquet(tmp_path)
    read = dd.read_parquet(tmp_path)  # its index is no column
    assert FrameParts(read)._files.n_parts == 3
    others = [read[read["age"] > 40], read.partitions[1:], dd.read_parquet(tmp_path, index="age")]
    others += [dd.read_parquet(tmp_path, filters=[("age", ">", 40)]), read.assign(age=1.0)]
    memory = MemoryFileSystem()  # where the same path leads to other rows
    table[:9].to_parquet(str(tmp_path / "0.parquet"), filesystem=memory)
    others.append(dd.read_parquet(str(tmp_path), filesystem=memory))
    assert [FrameParts(each)._files for each in others] == [None] * 6
    table.to_csv(tmp_path / "beside.csv")  # Dask does not read it, nor what _metadata leaves out
    assert FrameParts(dd.read_parquet(tmp_path))._files.n_parts == 3
    dd.from_pandas(table, npartitions=2).to_parquet(tmp_path / "2", write_metadata_file=True)
    table.to_parquet(tmp_path / "2" / "old.parquet")
    assert FrameParts(dd.read_parquet(tmp_path / "2"))._files.n_parts == 2
    same_bits(ESTIMATORS["moments"], table, {"read": read, "some": dd.concat([read])})
    some = table.iloc[table["age"].to_numpy(na_value=0) > 40].reset_index(drop=True)
    same_bits(ESTIMATORS["moments"], some, {"filtered": others[0]})


@more
def test_persons_are_moved_to_one_partition(client: Any, table: pd.DataFrame) -> None:
    assert client.status == "running"
    bounds = table_bounds("bought", **PERSONS)
    make = lambda: PrivateLinearClassifier(  # noqa: E731
        bounds=bounds, unit="person", delta=1e-5, n_steps=2
    )
    same_bits(make, table, {"persons": _frame(table, 3)})


# What leaves a worker -------------------------------------------------------------------------


@pytest.fixture
def received(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Every frame that comes into this process, where client and scheduler are."""
    from distributed.comm import tcp

    frames: list[bytes] = []
    plain = tcp.from_frames

    async def overheard(given: Any, **options: Any) -> Any:
        frames.extend(bytes(frame) for frame in given)
        return await plain(given, **options)

    monkeypatch.setattr(tcp, "from_frames", overheard)
    return frames


@more
def test_only_sums_leave_the_workers(
    client: Any, table: pd.DataFrame, received: list[bytes], tmp_path: Path
) -> None:
    marked = table.assign(age=np.where(np.arange(len(table)) == 7, CANARY, table["age"]))
    marked.loc[8, "town"] = "a town nobody knows"
    secrets = [np.array([CANARY]).tobytes(), b"a town nobody knows"]
    marked.to_parquet(tmp_path / "table")
    parts = [_Third(tmp_path / "table", i) for i in range(3)]
    for name in ("moments", "linear", "tree"):
        ESTIMATORS[name]().fit(_lazy(parts, table))
    assert b"sfumato partial sum" in b"".join(received)
    assert not any(secret in b"".join(received) for secret in secrets)
    for part in parts[1:]:
        client.gather(client.submit(_cells, part, pure=False))  # to hear that we would hear it
    assert all(secret in b"".join(received) for secret in secrets)


class _Third:
    def __init__(self, path: Path, number: int) -> None:
        self.path, self.number = path, number

    def __call__(self) -> pd.DataFrame:
        return pd.read_parquet(self.path).iloc[self.number :: 3]


def _cells(part: Any) -> list[Any]:
    return [np.array(part()["age"]), part()["town"].tolist()]


# Faults ---------------------------------------------------------------------------------------


class _Given:
    def __init__(self, part: pd.DataFrame) -> None:
        self.part = part

    def __call__(self) -> pd.DataFrame:
        return self.part


class _KillsOnce(_Given):
    """A reader of a part that kills its worker the first time, as the kernel kills for memory."""

    def __init__(self, part: pd.DataFrame, mark: Path) -> None:
        super().__init__(part)
        self.mark = mark

    def __call__(self) -> pd.DataFrame:
        if not self.mark.exists():
            self.mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return self.part


def _lazy(readers: list[Any], table: pd.DataFrame) -> Any:
    parts = [delayed(reader, pure=False)() for reader in readers]
    return dd.from_delayed(parts, meta=table.iloc[:0], verify_meta=False)


def test_a_killed_worker_changes_no_bit_and_no_charge(
    client: Any, table: pd.DataFrame, tmp_path: Path
) -> None:
    assert client.status == "running"
    words = {"relation": "add_or_remove_one"}
    budget = Ledger(tmp_path / "ledger.db").create("d", epsilon=10.0, delta=1e-4, **words)
    make = lambda **how: PrivateLinearClassifier(  # noqa: E731
        bounds=table_bounds("bought"), delta=1e-5, n_steps=3, **words, **how
    )
    with taped() as tape:
        make().fit(table)
    parts = in_parts(table, 4)
    killer = _KillsOnce(parts[0], tmp_path / "killed")
    with taped(playback=tape) as played:
        make(ledger=budget).fit(_lazy([killer, *map(_Given, parts[1:])], table))
    assert killer.mark.exists()
    assert len(budget.history()) == 1
    for mine, theirs in zip(tape.releases, played.releases, strict=True):
        np.testing.assert_array_equal(mine.statistic, theirs.statistic)
