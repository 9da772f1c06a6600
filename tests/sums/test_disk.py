"""Rows that memory cannot hold are kept on disk, or mapped on each pass: the same bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfumato import Bounds, PrivateLinearClassifier
from sfumato.mechanisms.entropy import seeded
from sfumato.sums import singles as disk_module
from sfumato.sums.records import ArrayRecords
from sfumato.sums.singles import Float32Rows, RowsOnDisk

N_ROWS, WIDTH = 3000, 40


@pytest.fixture
def rows_on_disk(tmp_path: Path) -> tuple[Any, np.ndarray]:
    """Make float32 rows in a file, read as they are needed, and labels."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((N_ROWS, WIDTH)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    np.save(tmp_path / "rows.npy", rows)
    return np.load(tmp_path / "rows.npy", mmap_mode="r"), (rows[:, 0] > 0).astype(int)


def weights(X: Any, y: Any) -> np.ndarray:
    model = PrivateLinearClassifier(
        whiten=True,
        n_steps=4,
        epsilon=2.0,
        delta=1e-5,
        bounds=Bounds(norm=1.0, labels=[0, 1]),
    )
    with seeded(5):
        return model.fit(X, y).coef_


def test_memory_disk_and_passes_give_the_same_bits(
    rows_on_disk: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = rows_on_disk
    in_memory = weights(np.array(X), y)
    assert np.array_equal(weights(X, y), in_memory)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(disk_module, "fits_in_memory", lambda _: False)
    written = []
    held = RowsOnDisk.held

    def watched(self: RowsOnDisk, block: Float32Rows) -> Float32Rows:
        found = held(self, block)
        assert isinstance(found.rows, np.memmap)
        written.append(found.rows.nbytes)
        return found

    monkeypatch.setattr(RowsOnDisk, "held", watched)
    assert np.array_equal(weights(X, y), in_memory)
    assert sum(written) >= 4 * N_ROWS * WIDTH
    assert [path.name for path in tmp_path.iterdir()] == ["rows.npy"]  # a file without a name

    def full(*_: Any) -> Float32Rows:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(RowsOnDisk, "held", full)
    assert np.array_equal(weights(X, y), in_memory)


def test_a_block_comes_back_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_module, "fits_in_memory", lambda _: False)
    rng = np.random.default_rng(1)
    blocks = [Float32Rows.of(np.rint(rng.uniform(-1, 1, (n, 3)) * 99) / 4096) for n in (5, 0, 700)]
    with RowsOnDisk() as disk:
        back = [disk.held(block) for block in blocks]
    for block, found in zip(blocks, back, strict=True):
        np.testing.assert_array_equal(found.rows, block.rows)
        np.testing.assert_array_equal(found.longest, block.longest)


def test_most_rows_go_to_disk_where_little_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept in memory is at most as much as the rule allows."""
    records = ArrayRecords(np.zeros((40_000, 64)), relation="replace_one")
    sizes = [block.rows.nbytes for block, _, _ in records.cache_float32()._blocks()]
    assert len(sizes) > 2
    most = sizes[0] + sizes[1]
    monkeypatch.setattr(disk_module, "fits_in_memory", lambda n: n <= most)
    kept = [block.rows for block, _, _ in records.cache_float32()._blocks()]
    assert [isinstance(rows, np.memmap) for rows in kept] == [False] * 2 + [True] * (len(kept) - 2)
