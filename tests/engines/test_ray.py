"""The engine for Ray that the page on large tables shows: the same bits, a killed worker."""

from __future__ import annotations

import gc
import os
import signal
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.engines.ray_parts import engines_of_the_page
from tests.engines.sources import in_parts, messy_table, same_bits
from tests.engines.test_same_bits import ESTIMATORS

ray = pytest.importorskip("ray", reason="needs Ray: pip install ray")
pytestmark = [pytest.mark.servers, pytest.mark.xdist_group("ray")]


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
        yield
        ray.shutdown()
        gc.collect()  # Ray leaves files open; no later test should hear of them


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return messy_table(n_rows=300)


@pytest.fixture(scope="module")
def paths(table: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("ray")
    for number, part in enumerate(in_parts(table, 3)):
        part.to_parquet(folder / f"{number}.parquet")
    return sorted(folder.iterdir())


@pytest.mark.filterwarnings("ignore")
def test_the_page_s_engine(cluster: None, table: pd.DataFrame, paths: list[Path]) -> None:
    parts = engines_of_the_page()["RayParts"](paths)
    same_bits(ESTIMATORS["moments"], table, {"ray": parts})


class _KillsOnce:
    """A task that kills its worker the first time."""

    def __init__(self, task: Any, mark: Path) -> None:
        self.task, self.mark = task, mark

    def __call__(self, number: int, batches: Any) -> Any:
        if not self.mark.exists():
            self.mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return self.task(number, batches)


@pytest.mark.filterwarnings("ignore")
def test_a_killed_worker_changes_no_bit(
    cluster: None, table: pd.DataFrame, paths: list[Path], tmp_path: Path
) -> None:
    kind: Any = engines_of_the_page()["RayParts"]

    class Killing(kind):  # type: ignore[misc]
        def map(self, task: Any) -> Any:
            return super().map(_KillsOnce(task, tmp_path / "killed"))

    same_bits(ESTIMATORS["moments"], table, {"ray": Killing(paths)})
    assert (tmp_path / "killed").exists()
