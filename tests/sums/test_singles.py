"""Sums in single precision are those of whole numbers, in memory and on disk."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import array_api_strict
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from sfumato import Bounds, PrivateLinearClassifier
from sfumato.mechanisms.entropy import seeded
from sfumato.sums import ArrayRecords, SecondMoment, grid as disk_module
from sfumato.sums.gradients import GradientSum, SoftmaxLoss, coarse_bits
from sfumato.sums.grid import (
    PART,
    ROW_BITS,
    SINGLE_BITS,
    Float32Rows,
    RowsOnDisk,
    ScoreWeights,
    revealed,
    truncate_to_grid,
)
from sfumato.sums.maps import IntoUnitBall, LinearRows
from sfumato.sums.records import BatchRecords
from sfumato.sums.statistics import ClassCounts

ROWS_UP_TO = 2 * PART + 60  # whole parts and a rest


def whole(values: np.ndarray, bits: int) -> np.ndarray:
    """Return multiples of ``2**-bits`` as Python's integers."""
    steps = values * 2.0**bits
    assert np.array_equal(steps, np.rint(steps))
    return steps.astype(np.int64).astype(object)


def some_rows(generator: np.random.Generator, n_rows: int, width: int, kind: str) -> np.ndarray:
    rows = generator.normal(size=(n_rows, width))
    if kind == "one sign":  # nothing cancels, so partial sums are as large as they get
        rows = np.abs(rows)
    elif kind == "one axis":
        rows = np.eye(width)[generator.integers(min(2, width), size=n_rows)]
    rows /= np.linalg.norm(rows, axis=1, keepdims=True) * (1 + 2.0**-14)  # 1 becomes odd
    return truncate_to_grid(rows, SINGLE_BITS)


def gathered_exactly(rows: np.ndarray, slopes: np.ndarray, bits: int) -> np.ndarray:
    return whole(slopes, bits).T @ whole(rows, SINGLE_BITS)


@settings(max_examples=60, deadline=None)
@given(
    n_rows=st.integers(0, ROWS_UP_TO),
    width=st.integers(1, 40),
    n_scores=st.integers(1, 4),
    largest=st.sampled_from([2.0**-20, 0.001, 0.1, 1.0, 1.9]),
    bits=st.sampled_from([3, 12, ROW_BITS]),
    kind=st.sampled_from(["any", "one sign", "one axis"]),
    is_largest=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_sums_are_those_of_whole_numbers(
    n_rows, width, n_scores, largest, bits, kind, is_largest, seed
):
    generator = np.random.default_rng(seed)
    rows = some_rows(generator, n_rows, width, kind)
    slopes = generator.uniform(-largest, largest, (n_rows, n_scores))
    slopes = truncate_to_grid(np.full_like(slopes, largest) if is_largest else slopes, bits)
    held = Float32Rows.of(rows)
    starts = range(0, n_rows, PART)
    squares = (sum(whole(rows, SINGLE_BITS)[i : i + PART] ** 2) for i in starts)
    together = [math.gcd(*map(int, column)) for column in whole(rows, SINGLE_BITS).T]
    units = np.array([each & -each or 1 for each in together])
    bounds = (held.longest * units * 2.0**SINGLE_BITS) ** 2
    assert all((each <= bounds).all() for each in squares)
    found = held.gathered(slopes, bits)
    exact = gathered_exactly(rows, slopes, bits)
    assert np.array_equal(whole(found, bits + SINGLE_BITS), exact)
    assert np.array_equal(held.gathered(slopes.astype(np.float32), bits), found)
    assert np.array_equal(held.packed().opened().gathered(slopes, bits), found)


@pytest.mark.parametrize("entry", [2046, 2047, 2048, 2049])  # at 2048 a part adds up to 2**24 steps
def test_columns_at_the_limit_are_exact(entry):
    rows = np.zeros((PART, 40))
    rows[:, 0], rows[::2, 1] = entry, entry + 1
    rows *= 2.0**-SINGLE_BITS
    slopes = np.full((PART, 2), 128 * 2.0**-12)
    slopes[0] -= 2.0**-12
    exact = gathered_exactly(rows, slopes, 12)
    found = Float32Rows.of(rows).gathered(slopes, 12)
    assert np.array_equal(whole(found, 12 + SINGLE_BITS), exact)


def test_without_the_limit_sums_are_rounded():
    generator = np.random.default_rng(0)
    rows = some_rows(generator, PART, 40, "one axis")
    slopes = truncate_to_grid(generator.uniform(1.0, 1.9, (PART, 2)), ROW_BITS)
    exact = gathered_exactly(rows, slopes, ROW_BITS)
    held = Float32Rows.of(rows)
    found = held.gathered(slopes, ROW_BITS)
    assert np.array_equal(whole(found, ROW_BITS + SINGLE_BITS), exact)
    short = Float32Rows(held.panels, np.zeros(40), held.beside)  # as if every column were short
    rounded = short.gathered(slopes, ROW_BITS)
    assert not np.array_equal(rounded * 2.0 ** (ROW_BITS + SINGLE_BITS), exact.astype(float))


@settings(max_examples=30, deadline=None)
@given(
    n_classes=st.sampled_from([2, 3, 10, 60]),
    clip=st.sampled_from([1e-6, 2.0**-16, 0.001, 0.1, 1.0, 1.9]),
    is_coarse=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_rounded_slopes_are_no_longer_than_the_clip(n_classes, clip, is_coarse, seed):
    """Rounding to the nearest step lengthens slopes; the proof needs them within the clip."""
    generator = np.random.default_rng(seed)
    loss = SoftmaxLoss(n_classes)
    clip = min(clip, loss.slope_bound)
    bits = coarse_bits(loss, clip) if is_coarse else ROW_BITS
    statistic = GradientSum(loss, clip, np.zeros((loss.n_scores, 1)), slope_bits=bits)
    scores = generator.normal(0, 4, (200, loss.n_scores))
    slopes = statistic._slopes(scores, generator.integers(n_classes, size=200))
    steps = whole(slopes, bits)
    lengths = (steps * steps).sum(axis=1)  # exact
    assert lengths.max() <= (clip * 2.0**bits) ** 2
    if is_coarse and clip > 0.01:
        assert lengths.max() > (0.98 * clip * 2.0**bits) ** 2


@settings(max_examples=60, deadline=None)
@given(
    n_rows=st.integers(1, 50),
    width=st.integers(1, 300),
    scale=st.sampled_from([0.0, 1e-9, 0.1, 3.0, 60.0]),
    kind=st.sampled_from(["any", "one sign", "one axis"]),
    seed=st.integers(0, 2**32 - 1),
)
def test_scores_are_those_of_whole_numbers(n_rows, width, scale, kind, seed):
    generator = np.random.default_rng(seed)
    rows = some_rows(generator, n_rows, width, kind)
    raw = scale * generator.normal(size=(3, width))
    raw[0] = np.abs(raw[0])
    weights = ScoreWeights(raw)
    assert np.array_equal(weights.singles * 2.0**SINGLE_BITS, weights.rounded)
    assert np.array_equal(ScoreWeights(weights.rounded).rounded, weights.rounded)
    longer = ScoreWeights(np.full((1, 4000), 4000**-0.5)).rounded * 2.0**11  # than 1 by rounding
    assert np.array_equal(longer, np.rint(longer))  # so that the grid is that of a length of 2
    longest = np.linalg.norm(raw, axis=1).max()
    assert np.abs(weights.rounded - raw).max() <= longest * 2.0**-10
    exponent = max(int(np.ceil(np.log2(longest))) if longest else 0, -40)
    bits = 12 - exponent
    exact = whole(rows, SINGLE_BITS) @ whole(weights.rounded, bits).T
    found = Float32Rows.of(rows).scores(weights)
    assert np.array_equal(Float32Rows.of(rows).packed().scores(weights), found)
    assert np.array_equal(whole(found, SINGLE_BITS + bits), exact)


def test_the_slopes_of_one_score_are_those_of_the_loss_a_step_away(rng):
    scores, codes = rng.normal(0, 6, (5000, 1)), rng.integers(2, size=5000)
    scores[:4] = [[0.0], [1e30], [-1e30], [2.0**-11]]
    loss, bits = SoftmaxLoss(2), 10
    found = GradientSum(loss, 1.0, np.zeros((1, 1)), slope_bits=bits)._slopes(scores, codes)
    exact = 1 / (1 + np.exp(-scores[:, 0].clip(-700, 700))) - codes
    off = 2.0**-11 / 4 + 2.0**-bits  # half a place times the steepest slope, rounding and clip
    assert np.abs(found[:, 0] - exact).max() <= off
    assert np.abs(found).max() <= 1.0


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("clip", [0.1, 1.0])
def test_a_gradient_in_singles_is_that_in_doubles_in_any_order_and_library(n_classes, clip, rng):
    """Kept rows give the sum that a library of doubles gives for the same coarse rows."""
    n_rows, width = 3 * PART + 17, 12
    raw, codes = rng.normal(size=(n_rows, width)), rng.integers(n_classes, size=n_rows)
    unit, linear = IntoUnitBall(Bounds(norm=3.0), width), LinearRows(width, True)
    loss = SoftmaxLoss(n_classes)
    weights = ScoreWeights(rng.normal(0, 2, (loss.n_scores, width + 1))).rounded
    statistic = GradientSum(loss, clip, weights, slope_bits=coarse_bits(loss, clip))

    def kept(rows, codes):
        records = ArrayRecords(rows, codes, relation="add_or_remove_one")
        return records.mapped(unit).mapped(linear).cache(in_singles=True)

    total = kept(raw, codes)._sum(statistic)
    order = rng.permutation(n_rows)
    assert kept(raw[order], codes[order])._sum(statistic) == total

    def read():
        for start in range(0, n_rows, 100):
            yield raw[start : start + 100], codes[start : start + 100]

    batches = BatchRecords(read, width=width, relation="add_or_remove_one")
    assert batches.mapped(unit).mapped(linear).cache(in_singles=True)._sum(statistic) == total
    coarse = truncate_to_grid(linear(unit(raw)), SINGLE_BITS)
    doubles = ArrayRecords(coarse, codes, relation="add_or_remove_one")
    assert doubles._sum(statistic) == total
    foreign = ArrayRecords(array_api_strict.asarray(coarse), codes, relation="add_or_remove_one")
    assert foreign.cache(in_singles=True)._sum(statistic) == total
    for other in (ClassCounts(n_classes), SecondMoment(width + 1)):
        assert np.array_equal(revealed(kept(raw, codes)._sum(other)), revealed(doubles._sum(other)))


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
    monkeypatch.setattr(disk_module, "SMALL_BYTES", 0)
    monkeypatch.setattr(disk_module, "fits_in_memory", lambda _: False)
    written = []
    held = RowsOnDisk.held

    def watched(self: RowsOnDisk, block: Float32Rows) -> Float32Rows:
        found = held(self, block)
        assert isinstance(found.panels, np.memmap)
        written.append(found.panels.nbytes)
        return found

    monkeypatch.setattr(RowsOnDisk, "held", watched)
    assert np.array_equal(weights(X, y), in_memory)
    assert sum(written) >= 4 * N_ROWS * WIDTH
    assert [path.name for path in tmp_path.iterdir()] == ["rows.npy"]  # a file without a name

    def full(*_: Any) -> Float32Rows:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(RowsOnDisk, "held", full)
    assert np.array_equal(weights(X, y), in_memory)
