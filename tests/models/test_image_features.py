"""Image features against literal loops, each image alone to the bit; the classifier on them."""

import hashlib
import importlib.util
import math
from pathlib import Path

import array_api_strict
import numpy as np
import pytest
from scipy.signal import correlate
from sklearn.datasets import load_digits

from sfumato import (
    Bounds,
    HOGFeatures,
    PrivateImageClassifier,
    RandomPatchFeatures,
    RandomProcessFeatures,
    ScatteringFeatures,
)
from sfumato.audit.testing import PRIVATE_CHECKS, PrivateCase
from sfumato.core.arrays import to_numpy
from sfumato.exceptions import StoredModelError
from sfumato.models import generated_features, image_features
from sfumato.models.image_features import project
from sfumato.privacy.guarantee import Status

TOOLS = Path(__file__).parents[2] / "tools" / "random_process_net"
KINDS = [
    HOGFeatures((8, 8), cell=3),
    HOGFeatures((4, 5, 3), cell=2),
    ScatteringFeatures((8, 8), n_scales=1),
    ScatteringFeatures((4, 5, 3), n_orientations=4, mirror="average", n_projected=50, seed=3),
]
GENERATED = [
    RandomProcessFeatures((8, 9, 3)),
    RandomPatchFeatures((9, 8, 3), n_filters=100, n_projected=300),
    RandomPatchFeatures((2, 3), n_filters=30, n_projected=None, mirror=None),
    RandomPatchFeatures((70, 66), n_filters=30, n_projected=60),
]


@pytest.fixture
def without_torch(monkeypatch):
    there = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "torch" else there(name)
    )


def rows_for(features, rng, n=9):
    return rng.random((n, math.prod(features.image_shape)))


@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("features", [*KINDS, *GENERATED], ids=repr)
def test_an_image_has_the_same_bits_alone_and_among_others(features, kind, rng):
    """Else one record would move the features of another, and a sum by more than its own."""
    X = rows_for(features, rng, 18).astype(kind)  # more than one block
    X[3] = 0.5  # a flat image
    X[4] *= 1e6
    found = features.fit(X).transform(X)
    assert found.shape == (18, features.n_features_out_)
    assert np.linalg.norm(found.astype(float), axis=1).max() <= 1
    order = rng.permutation(18)
    assert np.array_equal(features.transform(X[order]), found[order])
    for place in (0, 17):
        assert np.array_equal(features.transform(X[place : place + 1])[0], found[place])
    if getattr(features, "mirror", None):
        mirrored = X.reshape(18, *features.image_shape_)[:, :, ::-1].reshape(18, -1)
        np.testing.assert_allclose(features.transform(mirrored), found, atol=1e-4)


@pytest.mark.parametrize("features", [*KINDS, GENERATED[1]], ids=repr)
def test_other_libraries_and_precisions(features, rng):
    X = rows_for(features, rng)
    expected = features.fit(X).transform(X)
    found = features.transform(array_api_strict.asarray(X))
    assert isinstance(found, type(array_api_strict.asarray(X)))
    np.testing.assert_allclose(to_numpy(found), expected, atol=1e-12)
    single = features.transform(X.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, expected, atol=1e-4)


# Against literal loops ---------------------------------------------------------------------------


def literal_hog(image, cell=4, n_bins=9, block=2):
    height, width = image.shape
    histogram = np.zeros((height // cell, width // cell, n_bins))
    for i in range(height):
        for j in range(width):
            along = image[i + 1, j] - image[i - 1, j] if 0 < i < height - 1 else 0.0
            across = image[i, j + 1] - image[i, j - 1] if 0 < j < width - 1 else 0.0
            place = (math.atan2(along, across) % math.pi) * n_bins / math.pi
            low = math.floor(place)
            weight = math.hypot(along, across)
            histogram[i // cell, j // cell, low % n_bins] += weight * (1 - (place - low))
            histogram[i // cell, j // cell, (low + 1) % n_bins] += weight * (place - low)
    blocks = []
    for i in range(histogram.shape[0] - block + 1):
        for j in range(histogram.shape[1] - block + 1):
            v = histogram[i : i + block, j : j + block].reshape(-1)
            v = np.minimum(v / math.sqrt(v @ v + 1e-6), 0.2)
            blocks.append(v / math.sqrt(v @ v + 1e-6))
    row = np.concatenate(blocks)
    return row / np.linalg.norm(row)


def test_hog_literally(rng):
    X = rng.random((4, 12 * 16))
    found = HOGFeatures((12, 16)).fit_transform(X)
    for row, image in zip(found, X.reshape(4, 12, 16), strict=True):
        np.testing.assert_allclose(row, literal_hog(image), atol=1e-9)


def literal_second_order(image, n_scales, path):
    """``||x * psi_a| * psi_b| * phi`` by transforms of whole images, thinned at the end."""
    (fine, turn), (coarse, deeper) = path
    step = 2**n_scales
    padded = image[np.ix_(*(image_features._mirrored_places(size, step) for size in image.shape))]
    wavelets = image_features._wavelets(*padded.shape, n_scales, 8)
    modulus = np.abs(np.fft.ifft2(np.fft.fft2(padded) * wavelets[fine, 0][turn]))
    modulus = modulus[:: 2**fine, :: 2**fine]
    modulus = np.abs(np.fft.ifft2(np.fft.fft2(modulus) * wavelets[coarse, fine][deeper]))
    modulus = modulus[:: 2 ** (coarse - fine), :: 2 ** (coarse - fine)]
    width = 2 ** (n_scales - 1) * image_features.WIDTH
    mean = np.real(image_features._envelope(*padded.shape, width, 0.0, 1.0, 0.0))
    spectrum = image_features._thin(np.fft.fft2(mean / mean.sum())[None], 2**coarse)[0]
    smooth = np.real(np.fft.ifft2(np.fft.fft2(modulus) * spectrum))
    return smooth[:: 2 ** (n_scales - coarse), :: 2 ** (n_scales - coarse)][1:-1, 1:-1]


@pytest.mark.parametrize("n_scales", [2, 3])
def test_second_order_literally(rng, n_scales):
    image = rng.random((12, 20))
    features = ScatteringFeatures((12, 20), n_scales=n_scales).fit(image.reshape(1, -1))
    maps = features._maps(image[None, :, :, None])[0]
    paths = [
        ((fine, turn), (coarse, deeper))
        for fine in range(n_scales)
        for coarse in range(fine + 1, n_scales)
        for turn in range(8)
        for deeper in range(8)
    ]
    for place in (0, 3, 10, len(paths) - 1):
        expected = literal_second_order(image, n_scales, paths[place])
        found = maps[1 + 8 * n_scales + place]
        np.testing.assert_allclose(found, expected.ravel(), atol=1e-12)


def literal_patches(image, n_filters):
    """Features of one image ``(height, width, 3)`` with numbers in [0, 1], by loops."""
    side, pixels = generated_features.PATCH, (image - 0.5) / 0.25
    down, across = (size - side + 1 for size in image.shape[:2])
    upwards, downwards = np.zeros((2, 4, n_filters))
    sizes = np.zeros(4)
    for i in range(down):
        for j in range(across):
            patch = pixels[i : i + side, j : j + side].transpose(2, 0, 1).reshape(-1)
            patch = (patch - patch.mean()) / math.sqrt(patch.var() + generated_features.FLAT)
            response = (
                generated_features.load_packaged("random_patches.npz")["filters"][
                    :n_filters
                ].astype(float)
                @ patch
            )
            for row in (0, 1):
                for column in (0, 1):
                    starts = row * down // 2, column * across // 2
                    ends = -(-(row + 1) * down // 2), -(-(column + 1) * across // 2)
                    if starts[0] <= i < ends[0] and starts[1] <= j < ends[1]:
                        cell = 2 * row + column
                        sizes[cell] += 1
                        upwards[cell] += np.maximum(response - generated_features.THRESHOLD, 0)
                        downwards[cell] += np.maximum(-response - generated_features.THRESHOLD, 0)
    return np.sqrt(np.concatenate([upwards / sizes[:, None], downwards / sizes[:, None]]))


@pytest.mark.parametrize("shape", [(10, 11, 3), (9, 9, 3)])
def test_features_by_loops(shape, rng):
    X, n_filters = rng.random((2, math.prod(shape))), 100  # more than one block of filters
    features = RandomPatchFeatures(shape, n_filters=n_filters, mirror=None, n_projected=None)
    found = features.fit_transform(X).reshape(2, 8, n_filters)
    for row, image in zip(found, X.reshape(2, *shape), strict=True):
        wanted = literal_patches(image, n_filters)
        np.testing.assert_allclose(row, wanted / np.linalg.norm(wanted), atol=1e-4)


@pytest.mark.parametrize("stride", [1, 2])
def test_convolution_by_loops(stride, rng, without_torch):
    x, kernel = rng.normal(size=(2, 3, 7, 6)), rng.normal(size=(4, 3, 3, 3))
    found = generated_features.convolve(x, kernel, stride)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    for image in range(2):
        for out in range(4):
            whole = correlate(padded[image], kernel[out], mode="valid")[0]
            np.testing.assert_allclose(found[image, out], whole[::stride, ::stride], atol=1e-12)


@pytest.mark.parametrize(("width", "turn"), [(12, 0), (35, 5), (64, 9)])
def test_all_numbers_together_are_a_turn(width, turn, rng):
    """A Hartley matrix with random signs is orthogonal: lengths and angles stay."""
    rows = rng.normal(size=(6, width))
    turned = project(rows, width, turn)
    np.testing.assert_allclose(turned @ turned.T, rows @ rows.T, atol=1e-10)
    assert not np.allclose(turned, rows, atol=0.1)


# Generated images --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "file"), [("patches.py", "random_patches.npz"), ("train.py", "random_process.npz")]
)
def test_files_say_how_they_were_made_and_the_scripts_read_none(script, file):
    """The evidence that nobody's record was seen: nothing is opened, loaded or downloaded."""
    path = Path(generated_features.__file__).with_name(file)
    with np.load(path, allow_pickle=False) as stored:
        facts = dict(part.split("=") for part in str(stored["made_by"]).split())
    assert facts["script"] == hashlib.sha256((TOOLS / script).read_bytes()).hexdigest()
    text = (TOOLS / script).read_text()
    for word in ("open(", "np.load", "torch.load", "datasets", "torchvision", "urlopen"):
        assert word not in text
    assert text.count("read_bytes") == 1  # of the script itself


def test_a_damaged_file_is_refused(monkeypatch):
    monkeypatch.setitem(generated_features.SHA256, "random_patches.npz", 64 * "0")
    generated_features.load_packaged.cache_clear()
    with pytest.raises(StoredModelError, match="damaged"):
        RandomPatchFeatures((8, 8)).fit(np.zeros((1, 64)))


@pytest.mark.torch
@pytest.mark.parametrize("features", [GENERATED[0], GENERATED[1]], ids=repr)
def test_pytorch_adds_up_to_the_same(features, rng, without_torch):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    X = rows_for(features, rng, 3)
    found = features.fit(X).transform(torch.from_numpy(X))
    np.testing.assert_allclose(to_numpy(found), features.transform(X), atol=1e-3)


# On a GPU ----------------------------------------------------------------------------------------

ON_GPU = [
    HOGFeatures((28, 28)),
    ScatteringFeatures((32, 32, 3), mirror="average", n_projected=2000),
    RandomProcessFeatures((32, 32, 3)),
    RandomPatchFeatures((32, 32, 3)),
]


@pytest.mark.parametrize("features", ON_GPU, ids=repr)
def test_neither_place_nor_company_changes_a_bit_on_a_gpu(features, rng):
    """What a private fit relies on there; and they are those of a processor, about."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    X = rows_for(features, rng, 1300).astype(np.float32)
    X[4, 0] = np.nan
    there = torch.as_tensor(X, device="cuda")
    found = to_numpy(features.fit(X[:2]).transform(there))
    order = rng.permutation(1300)
    assert np.array_equal(to_numpy(features.transform(there[order])), found[order])
    assert np.array_equal(to_numpy(features.transform(there[order[:901]])), found[order[:901]])
    assert np.array_equal(to_numpy(features.transform(there[4:5])), found[4:5])
    assert np.linalg.norm(found.astype(np.float64), axis=1).max() <= 1
    assert np.linalg.norm(features.transform(X[:20]) - found[:20], axis=1).max() < 5e-3


# The classifier ----------------------------------------------------------------------------------

# Corners of the unit ball are not images, so a pair need not attain the sensitivity; its noise law
# is that of the linear classifier, which has its own cases.
LEFT_OUT = {"check_sensitivity", "check_noise_law"}


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
@pytest.mark.parametrize(
    "check", [each for each in PRIVATE_CHECKS if each.__name__ not in LEFT_OUT]
)
def test_private_contract(check, relation):
    X, y = load_digits(return_X_y=True)
    bounds = Bounds(lower=0, upper=16, labels=[0, 1])
    model = PrivateImageClassifier("hog", delta=1e-5, relation=relation, bounds=bounds)
    corners = np.array([[0.0] * 64, [16.0, 0.0] * 32])
    check(PrivateCase(model, X[:60], y[:60] % 2, rows_at_bound=corners))


def test_another_library_must_treat_images_alike(rng):
    X, y = rng.random((30, 64)), np.arange(30) % 2
    bounds = Bounds(lower=0, upper=1, labels=range(2))
    model = PrivateImageClassifier("hog", delta=1e-5, bounds=bounds)
    assert not model.fit(X, y).guarantee_.conditions
    conditions = model.fit(array_api_strict.asarray(X), y).guarantee_.conditions
    assert any("by the shape of an array alone" in condition for condition in conditions)
    assert model.guarantee_.status is Status.CONDITIONAL


class Rounding(HOGFeatures):
    """Stands for a library that rounds the second image of a large block differently."""

    worst = 300

    def _describe(self, rows):
        found = super()._describe(rows)
        if rows.shape[0] > self.worst:
            found[1] = np.nextafter(found[1], 2)
        return found


@pytest.mark.parametrize(("worst", "size"), [(10**6, 500), (300, 256), (1, 1)])
def test_blocks_on_an_accelerator_are_those_in_which_no_place_counts(rng, monkeypatch, worst, size):
    monkeypatch.setattr(image_features, "is_accelerated", lambda rows: True)
    monkeypatch.setattr(Rounding, "worst", worst)
    X = rng.random((30, 64))
    features = Rounding((8, 8)).fit(X)
    assert features._accelerated_block(X) == size
    order = rng.permutation(30)
    assert np.array_equal(features.transform(X)[order], features.transform(X[order]))
