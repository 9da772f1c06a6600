"""The frozen net: its file, its arithmetic against plain loops, and what it knows."""

import hashlib
import importlib.util
from pathlib import Path

import numpy as np
import pytest
from scipy.signal import correlate
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import FeatureUnion

from sfumato import RandomProcessFeatures, ScatteringFeatures, load, save
from sfumato.exceptions import InvalidInputError, StoredModelError
from sfumato.models.image_features import images, random_process

SCRIPT = Path(__file__).parents[2] / "tools" / "random_process_net" / "train.py"


@pytest.fixture
def without_torch(monkeypatch):
    there = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "torch" else there(name)
    )


def test_the_weights_say_how_they_were_made():
    with np.load(random_process.WEIGHTS, allow_pickle=False) as stored:
        facts = dict(part.split("=") for part in str(stored["made_by"]).split())
        assert all(stored[name].dtype == np.float16 for name in stored.files if name != "made_by")
    assert facts["script"] == hashlib.sha256(SCRIPT.read_bytes()).hexdigest()
    assert int(facts["steps"]) == 13_944
    assert random_process.WEIGHTS.stat().st_size < 8e6


def test_the_script_reads_no_file():
    """The evidence that nobody's record was seen: nothing is opened, loaded or downloaded."""
    text = SCRIPT.read_text()
    for word in (
        "open(",
        "np.load",
        "torch.load",
        "datasets",
        "torchvision",
        "urlopen",
        "requests",
    ):
        assert word not in text
    assert text.count("read_bytes") == 1  # of the script itself


@pytest.mark.parametrize("stride", [1, 2])
def test_convolution_by_loops(stride, rng, without_torch):
    x, kernel = rng.normal(size=(2, 3, 7, 6)), rng.normal(size=(4, 3, 3, 3))
    found = random_process._convolved(x, kernel, stride)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    for image in range(2):
        for out in range(4):
            whole = correlate(padded[image], kernel[out], mode="valid")[0]
            np.testing.assert_allclose(found[image, out], whole[::stride, ::stride], atol=1e-12)


def test_group_normalisation_by_loops(rng):
    x = rng.normal(size=(2, 16, 3, 4))
    weights = {"n.weight": rng.normal(size=16), "n.bias": rng.normal(size=16)}
    found = random_process._normalised(x, weights, "n")
    for image in range(2):
        for group in range(8):
            part = x[image, 2 * group : 2 * group + 2]
            part = (part - part.mean()) / np.sqrt(part.var() + 1e-5)
            scale = weights["n.weight"][2 * group : 2 * group + 2, None, None]
            shift = weights["n.bias"][2 * group : 2 * group + 2, None, None]
            np.testing.assert_allclose(
                found[image, 2 * group : 2 * group + 2], part * scale + shift, atol=1e-12
            )


@pytest.mark.parametrize("shape", [(2, 3), (8, 8), (12, 9, 3), (34, 32, 1)])
def test_any_size_gives_unit_rows_that_stand_alone(
    shape, rng, tmp_path, without_torch, monkeypatch
):
    monkeypatch.setattr(images, "BLOCK", 4)  # three images are one block
    X = rng.random((3, int(np.prod(shape))))
    X[1, 0] = np.inf
    features = RandomProcessFeatures(shape).fit(X)
    rows = features.transform(X)
    assert rows.shape == (3, 3500)
    assert np.linalg.norm(rows, axis=1).max() <= 1
    np.testing.assert_allclose(rows[1], features.transform(np.zeros_like(X[:1]))[0], atol=1e-6)
    np.testing.assert_allclose(features.transform(X[2:3])[0], rows[2], atol=1e-6)
    mirrored = X.reshape(3, *features.image_shape_)[:, :, ::-1].reshape(3, -1)
    np.testing.assert_allclose(features.transform(mirrored), rows, atol=1e-5)
    save(features, tmp_path / "net.sfumato")
    assert np.array_equal(load(tmp_path / "net.sfumato").transform(X), rows)


@pytest.mark.parametrize("shape", [(8, 8), (7, 5)])
@pytest.mark.parametrize("grid", [1, 2, 4])
def test_cells_by_loops(shape, grid, rng):
    """Means and deviations of each cell; where the grid does not divide, neighbours overlap."""
    maps = rng.normal(size=(2, 3, *shape))
    for what, of in (("mean", np.mean), ("deviation", np.std)):
        found = random_process._cells(maps, grid, what).reshape(2, grid, grid, 3)
        for i in range(grid):
            for j in range(grid):
                rows = slice(i * shape[0] // grid, -(-(i + 1) * shape[0] // grid))
                columns = slice(j * shape[1] // grid, -(-(j + 1) * shape[1] // grid))
                wanted = of(maps[:, :, rows, columns], axis=(2, 3))
                np.testing.assert_allclose(found[:, i, j], wanted, atol=1e-12)


def test_all_numbers_are_kept_or_a_public_projection_of_them(rng, without_torch):
    X = rng.random((2, 64))
    whole = RandomProcessFeatures((8, 8), n_projected=None).fit_transform(X)
    assert whole.shape == (2, 11_808)
    kept = RandomProcessFeatures((8, 8), n_projected=3000, seed=4).fit_transform(X)
    assert kept.shape == (2, 3000)
    assert abs(whole[0] @ whole[1] - kept[0] @ kept[1]) < 0.1  # angles are kept, about
    with pytest.raises(InvalidInputError, match="between 1 and the 11808 features"):
        RandomProcessFeatures((8, 8), n_projected=11_809).fit(X)


def test_images_that_the_net_cannot_take_are_refused():
    with pytest.raises(InvalidInputError, match="1 or 3 channels"):
        RandomProcessFeatures((8, 8, 2)).fit(np.zeros((1, 128)))


def test_damaged_weights_are_refused(monkeypatch, tmp_path):
    damaged = tmp_path / "random_process.npz"
    content = bytearray(random_process.WEIGHTS.read_bytes())
    content[len(content) // 2] ^= 1
    damaged.write_bytes(content)
    monkeypatch.setattr(random_process, "WEIGHTS", damaged)
    random_process._weights.cache_clear()
    try:
        with pytest.raises(StoredModelError, match="damaged"):
            RandomProcessFeatures((8, 8)).fit(np.zeros((1, 64)))
    finally:
        random_process._weights.cache_clear()


def test_beside_scattering_in_a_union(rng):
    shape = (8, 8)
    union = FeatureUnion(
        [
            ("scattering", ScatteringFeatures(shape, mirror="average", n_projected=100)),
            ("net", RandomProcessFeatures(shape)),
        ],
        transformer_weights={"net": 2.0},
    )
    rows = union.fit_transform(rng.random((3, 64)))
    assert rows.shape == (3, 3600)
    assert np.linalg.norm(rows, axis=1).max() <= 5**0.5


def test_shapes_can_be_told_apart_by_it(rng):
    """Squares and discs at random places and lights: pixels cannot tell them, the net can."""
    y, x = np.mgrid[:16, :16]

    def draw(is_disc):
        cy, cx, r = rng.uniform(6, 9), rng.uniform(6, 9), rng.uniform(4, 6)
        far = np.hypot(y - cy, x - cx) if is_disc else np.maximum(abs(y - cy), abs(x - cx)) / 0.886
        inside, outside = rng.random(2)
        return np.where(far < r, inside, outside).ravel()

    labels = np.arange(120) % 2
    X = np.stack([draw(label) for label in labels])
    rows = RandomProcessFeatures((16, 16), mirror=None).fit_transform(X)
    net = LogisticRegression(C=100.0).fit(rows[:80], labels[:80]).score(rows[80:], labels[80:])
    raw = LogisticRegression(max_iter=500).fit(X[:80], labels[:80])
    assert net > 0.75
    assert net > raw.score(X[80:], labels[80:])
