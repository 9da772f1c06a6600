"""Image features against literal loops, and their unit ball."""

import math

import array_api_strict
import numpy as np
import pytest
from scipy.ndimage import convolve

from sfumato import (
    HOGFeatures,
    RandomPatchFeatures,
    RandomProcessFeatures,
    ScatteringFeatures,
    load,
    save,
)
from sfumato.core.arrays import is_foreign_array, to_numpy
from sfumato.exceptions import InvalidInputError
from sfumato.models.image_features import scattering

KINDS = [
    HOGFeatures((8, 8)),
    HOGFeatures((8, 8), signed=True, n_bins=12, cell=3),
    HOGFeatures((4, 5, 3), cell=2),
    ScatteringFeatures((8, 8)),
    ScatteringFeatures((4, 5, 3), n_orientations=4),
    ScatteringFeatures((8, 8), n_scales=1, n_groups=1),
    ScatteringFeatures((4, 5, 3), n_orientations=4, mirror="average", n_projected=50, seed=3),
]

GENERATED = [
    RandomProcessFeatures((16, 16)),
    RandomProcessFeatures((8, 9, 3)),
    RandomPatchFeatures((9, 8, 3), n_filters=100, n_projected=300),
    RandomPatchFeatures((16, 16), n_filters=30, n_projected=None, mirror=None),
]


def rows_for(features, rng, n=9):
    return rng.random((n, math.prod(features.image_shape)))


@pytest.mark.parametrize("features", KINDS, ids=repr)
def test_rows_lie_in_the_unit_ball_and_stand_alone(features, rng):
    X = rows_for(features, rng)
    X[3] = 0.5  # a flat image
    X[4] *= 1e6
    X[5, 0] = np.nan
    found = features.fit(X).transform(X)
    assert found.shape == (9, features.n_features_out_)
    good = np.delete(np.arange(9), 5)
    assert np.linalg.norm(found[good], axis=1).max() <= 1
    assert not np.linalg.norm(found[5]) > 1  # its own row at most is not a number
    np.testing.assert_allclose(features.transform(X[2:3])[0], found[2], atol=1e-12)
    assert len(features.get_feature_names_out()) == found.shape[1]


@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize(
    "features",
    [*KINDS, *GENERATED],
    ids=repr,
)
def test_an_image_has_the_same_bits_alone_and_among_others(features, kind, rng):
    """Else one record would move the features of another, and a sum by more than its own."""
    X = rows_for(features, rng, 18).astype(kind)  # more than one block
    found = features.fit(X).transform(X)
    order = rng.permutation(18)
    assert np.array_equal(features.transform(X[order]), found[order])
    for place in (0, 17):
        assert np.array_equal(features.transform(X[place : place + 1])[0], found[place])


@pytest.mark.parametrize("features", KINDS, ids=repr)
def test_other_libraries_and_precisions(features, rng):
    X = rows_for(features, rng)
    expected = features.fit(X).transform(X)
    found = features.transform(array_api_strict.asarray(X))
    assert isinstance(found, type(array_api_strict.asarray(X)))
    np.testing.assert_allclose(to_numpy(found), expected, atol=1e-12)
    single = features.transform(X.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, expected, atol=1e-4)


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


def test_sizes_of_the_paper():
    assert HOGFeatures((28, 28)).fit(np.zeros((1, 784))).n_features_out_ == 1296
    assert HOGFeatures((32, 32, 3)).fit(np.zeros((1, 3072))).n_features_out_ == 1764
    assert ScatteringFeatures((28, 28)).fit(np.zeros((1, 784))).n_features_out_ == 3969


def test_wavelets_have_mean_zero_and_the_average_mean_one():
    wavelets = scattering._wavelets(16, 20, 2, 8)
    for scale in (0, 1):
        assert np.abs(wavelets[scale, 0][:, 0, 0]).max() < 1e-12
    assert wavelets[1, 1].shape == (8, 8, 10)
    for scale, size in ((0, 16), (1, 20)):
        averages = scattering._averages(size, scale, 2)
        np.testing.assert_allclose(averages.sum(axis=1), 1.0, rtol=1e-4)


def test_scattering_literally(rng):
    """First order at the finest scale, by convolutions on a torus and every fourth pixel."""
    image = rng.random((12, 12))
    padded = image[np.ix_(scattering._mirrored(12, 4), scattering._mirrored(12, 4))]
    wavelet = scattering._wavelets(20, 20, 2, 8)[0, 0][3]
    kernel = np.fft.ifft2(wavelet)
    mean = np.real(scattering._envelope(20, 20, 2 * scattering.WIDTH, 0.0, 1.0, 0.0))
    mean /= mean.sum()  # in two dimensions at once

    def on_torus(x, k):
        centred = np.fft.fftshift(k)
        return convolve(x, centred, mode="wrap", origin=0)

    modulus = np.abs(on_torus(padded, kernel.real) + 1j * on_torus(padded, kernel.imag))
    expected = np.fft.ifft2(np.fft.fft2(modulus) * np.fft.fft2(mean)).real[::4, ::4][1:-1, 1:-1]
    features = ScatteringFeatures((12, 12)).fit(image.reshape(1, -1))
    maps = features._scatter(image[None])[0].reshape(-1, 3, 3)
    found = maps[1 + 3]
    # `convolve` centres an even kernel one pixel further; its modulus moves along.
    assert np.corrcoef(found.ravel(), expected.ravel())[0, 1] > 0.8
    exact = np.abs(np.fft.ifft2(np.fft.fft2(padded) * wavelet))
    smooth = np.real(np.fft.ifft2(np.fft.fft2(exact) * np.fft.fft2(mean)))
    np.testing.assert_allclose(found, smooth[::4, ::4][1:-1, 1:-1], atol=1e-10)


def test_scattering_hardly_moves_with_the_image(rng):
    """A shift by one pixel changes scattering features less than the pixels."""
    image = np.zeros((28, 28))
    image[8:20, 8:20] = rng.random((12, 12))
    pair = np.stack([image.ravel(), np.roll(image, 1, axis=1).ravel()])
    found = ScatteringFeatures((28, 28)).fit_transform(pair)
    pixels = pair / np.linalg.norm(pair, axis=1, keepdims=True)
    assert np.linalg.norm(found[0] - found[1]) < 0.7 * np.linalg.norm(pixels[0] - pixels[1])


def test_without_a_shape_the_squarest_image_is_taken(rng):
    features = HOGFeatures().fit(rng.random((2, 24)))
    assert features.image_shape_ == (4, 6, 1)
    with pytest.raises(InvalidInputError, match="have 25 numbers"):
        HOGFeatures((5, 5)).fit(rng.random((2, 24)))
    with pytest.raises(InvalidInputError, match="'image_shape'"):
        HOGFeatures((24,)).fit(rng.random((2, 24)))
    with pytest.raises(InvalidInputError, match="'cell'"):
        HOGFeatures(cell=0).fit(rng.random((2, 24)))


@pytest.mark.parametrize(
    "features", [HOGFeatures((4, 6)), ScatteringFeatures((4, 6), mirror="average", n_projected=20)]
)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_an_odd_image_is_blank_and_silent(rng, features, dtype):
    X = rng.random((3, 24)).astype(dtype)
    plain = features.fit(X).transform(X)
    for odd in (np.nan, np.inf, -np.inf):
        spoilt = X.copy()
        spoilt[1, 5] = odd
        found = features.transform(spoilt)
        np.testing.assert_array_equal(found[[0, 2]], plain[[0, 2]])
        np.testing.assert_array_equal(found[1], 0)
    assert np.isfinite(features.transform(X * np.finfo(dtype).max)).all()
    assert features.fit(X[:0]).transform(X[:0]).shape == (0, plain.shape[1])


def test_saved_and_loaded(rng, tmp_path):
    features = ScatteringFeatures((8, 8)).fit(rng.random((2, 64)))
    save(features, tmp_path / "f.sfumato")
    X = rng.random((3, 64))
    np.testing.assert_array_equal(load(tmp_path / "f.sfumato").transform(X), features.transform(X))


def literal_second_order(image, n_scales, path):
    """``||x * psi_a| * psi_b| * phi`` by transforms of whole images, thinned at the end."""
    (fine, turn), (coarse, deeper) = path
    step = 2**n_scales
    padded = image[np.ix_(*(scattering._mirrored(size, step) for size in image.shape))]
    wavelets = scattering._wavelets(*padded.shape, n_scales, 8)
    modulus = np.abs(np.fft.ifft2(np.fft.fft2(padded) * wavelets[fine, 0][turn]))
    modulus = modulus[:: 2**fine, :: 2**fine]
    modulus = np.abs(np.fft.ifft2(np.fft.fft2(modulus) * wavelets[coarse, fine][deeper]))
    modulus = modulus[:: 2 ** (coarse - fine), :: 2 ** (coarse - fine)]
    width = 2 ** (n_scales - 1) * scattering.WIDTH
    mean = np.real(scattering._envelope(*padded.shape, width, 0.0, 1.0, 0.0))
    spectrum = scattering._thinned(np.fft.fft2(mean / mean.sum())[None], 2**coarse)[0]
    smooth = np.real(np.fft.ifft2(np.fft.fft2(modulus) * spectrum))
    return smooth[:: 2 ** (n_scales - coarse), :: 2 ** (n_scales - coarse)][1:-1, 1:-1]


@pytest.mark.parametrize("n_scales", [2, 3])
def test_second_order_literally(rng, n_scales):
    image = rng.random((12, 20))
    features = ScatteringFeatures((12, 20), n_scales=n_scales).fit(image.reshape(1, -1))
    maps = features._scatter(image[None])[0]
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


@pytest.mark.parametrize(
    "features",
    [
        ScatteringFeatures((12, 9)),
        ScatteringFeatures((8, 7, 3), mirror="average", n_projected=300, seed=2),
    ],
    ids=repr,
)
def test_transforms_as_products_are_the_same(features, rng, monkeypatch):
    """On an accelerator, where transforms of a batch would mix its images."""
    X = rows_for(features, rng)
    expected = features.fit(X).transform(X)
    monkeypatch.setattr(scattering, "is_accelerated", is_foreign_array)
    monkeypatch.delattr(array_api_strict.fft, "fftn")  # no transform of the library is asked for
    monkeypatch.delattr(array_api_strict.fft, "ifftn")
    monkeypatch.delattr(array_api_strict.fft, "fft")
    found = features.transform(array_api_strict.asarray(X))
    np.testing.assert_allclose(to_numpy(found), expected, atol=1e-12)
