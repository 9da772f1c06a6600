"""Responses to patches: their file, their arithmetic against plain loops, refusals."""

import hashlib
import math
from pathlib import Path

import array_api_strict
import numpy as np
import pytest

from sfumato import RandomPatchFeatures, load, save
from sfumato.core.arrays import to_numpy
from sfumato.exceptions import InvalidInputError, StoredModelError
from sfumato.models.image_features import patches

SCRIPT = Path(__file__).parents[2] / "tools" / "random_process_net" / "patches.py"


def test_the_filters_say_how_they_were_made():
    with np.load(patches.FILTERS, allow_pickle=False) as stored:
        facts = dict(part.split("=") for part in str(stored["made_by"]).split())
        assert stored["filters"].dtype == np.float16
    assert facts["script"] == hashlib.sha256(SCRIPT.read_bytes()).hexdigest()
    assert patches.FILTERS.stat().st_size < 2e6


def test_the_script_reads_no_file():
    """The evidence that nobody's record was seen; what it imports is looked at beside the net."""
    text = SCRIPT.read_text()
    for word in ("open(", "np.load", "torch.load", "datasets", "torchvision", "urlopen"):
        assert word not in text
    assert text.count("read_bytes") == 1  # of the script itself


def test_no_product_overflows_in_half_precision():
    max_patch = math.sqrt(3 * patches.SIDE**2)
    assert np.linalg.norm(patches._filters(), axis=1).max() * max_patch < 2**15


def literal(image, n_filters):
    """Features of one image ``(height, width, 3)`` with numbers in [0, 1], by loops."""
    side, pixels = patches.SIDE, (image - 0.5) / 0.25
    down, across = (size - side + 1 for size in image.shape[:2])
    upwards, downwards = np.zeros((2, 4, n_filters))
    sizes = np.zeros(4)
    for i in range(down):
        for j in range(across):
            patch = pixels[i : i + side, j : j + side].transpose(2, 0, 1).reshape(-1)
            patch = (patch - patch.mean()) / math.sqrt(patch.var() + patches.FLAT)
            response = patches._filters()[:n_filters].astype(float) @ patch
            for row in (0, 1):
                for column in (0, 1):
                    starts = row * down // 2, column * across // 2
                    ends = -(-(row + 1) * down // 2), -(-(column + 1) * across // 2)
                    if starts[0] <= i < ends[0] and starts[1] <= j < ends[1]:
                        cell = 2 * row + column
                        sizes[cell] += 1
                        upwards[cell] += np.maximum(response - patches.THRESHOLD, 0)
                        downwards[cell] += np.maximum(-response - patches.THRESHOLD, 0)
    return np.sqrt(np.concatenate([upwards / sizes[:, None], downwards / sizes[:, None]]))


@pytest.mark.parametrize("shape", [(10, 11, 3), (9, 9, 3)])
def test_features_by_loops(shape, rng):
    X, n_filters = rng.random((2, math.prod(shape))), 100  # more than one block of filters
    features = RandomPatchFeatures(shape, n_filters=n_filters, mirror=None, n_projected=None)
    found = features.fit_transform(X).reshape(2, 8, n_filters)
    for row, image in zip(found, X.reshape(2, *shape), strict=True):
        wanted = literal(image, n_filters)
        np.testing.assert_allclose(row, wanted / np.linalg.norm(wanted), atol=1e-4)


@pytest.mark.torch
def test_pytorch_adds_up_to_the_same(rng):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    X = rng.random((3, 10 * 12))
    features = RandomPatchFeatures((10, 12), n_filters=100, n_projected=50).fit(X)
    found = features.transform(torch.from_numpy(X))
    np.testing.assert_allclose(to_numpy(found), features.transform(X), atol=1e-3)


@pytest.mark.parametrize("shape", [(2, 3), (8, 8), (12, 9, 3), (70, 66, 1)])
def test_any_size_gives_unit_rows(shape, rng, tmp_path):
    X = rng.random((3, math.prod(shape)))
    X[1, 0] = np.inf
    X[2] = 0.3  # nothing to be seen
    features = RandomPatchFeatures(shape, n_filters=20, n_projected=60).fit(X)
    rows = features.transform(X)
    assert rows.shape == (3, 60)
    assert np.linalg.norm(rows, axis=1).max() <= 1
    assert not rows[1:].any()
    mirrored = X.reshape(3, *features.image_shape_)[:, :, ::-1].reshape(3, -1)
    np.testing.assert_allclose(features.transform(mirrored), rows, atol=1e-4)
    there = features.transform(array_api_strict.asarray(X))
    np.testing.assert_array_equal(to_numpy(there), rows)
    save(features, tmp_path / "patches.sfumato")
    assert np.array_equal(load(tmp_path / "patches.sfumato").transform(X), rows)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"n_filters": 0}, "between 1 and 8192"),
        ({"n_filters": 8193}, "between 1 and 8192"),
        ({"n_filters": 10, "n_projected": 81}, "between 1 and the 80 features"),
        ({"mirror": "sum"}, "None or 'average'"),
        ({"image_shape": (4, 4, 4)}, "1 or 3 channels"),
    ],
)
def test_refusals(settings, words, rng):
    with pytest.raises(InvalidInputError, match=words):
        RandomPatchFeatures(**settings).fit(rng.random((2, 64)))


def test_damaged_filters_are_refused(tmp_path, monkeypatch):
    other = tmp_path / "random_patches.npz"
    np.savez(other, filters=np.zeros((1, 108)))
    monkeypatch.setattr(patches, "FILTERS", other)
    patches._filters.cache_clear()
    try:
        with pytest.raises(StoredModelError, match="damaged"):
            RandomPatchFeatures((8, 8)).fit(np.zeros((1, 64)))
    finally:
        patches._filters.cache_clear()
