"""Scattering features: two layers of fixed wavelets and moduli, public and data-free."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import fft as host_fft

from sfumato.exceptions import InvalidInputError
from sfumato.kernels.arrays import Array, is_foreign, like, namespace_of
from sfumato.margins.images import ImageFeatures, unit_length
from sfumato.persistence.forms import Form, whole

__all__ = ["ScatteringFeatures"]

WIDTH = 0.8  # standard deviation of the finest envelope, in pixels
FREQUENCY = 0.75 * math.pi  # of the finest wavelet
SMALLEST_SPREAD = 1e-3  # added to a group's standard deviation: a flat group stays flat


class ScatteringFeatures(ImageFeatures):
    """``x * phi, |x * psi_a| * phi, ||x * psi_a| * psi_b| * phi``, normalised in groups.

    Parameters
    ----------
    image_shape : tuple of int, optional
        (height, width) or (height, width, channels); without it, the squarest grey image.
    n_scales : int, default=2
        J: wavelets of width 1, 2, ... 2**(J-1) pixels; averages are kept every 2**J pixels.
    n_orientations : int, default=8
        L: directions of the wavelets in half a turn.
    n_groups : int, default=27
        Groups of neighbouring maps that are brought to mean 0 and variance 1, image by image; as
        many as divide the maps evenly, at most this many.

    Attributes
    ----------
    image_shape_ : tuple of int
        Height, width and channels.
    n_features_out_ : int
        Number of features.

    Notes
    -----
    ``1 + J L + J (J-1)/2 L²`` maps a channel, 81 for the defaults; images of 28 x 28 pixels give
    81 x 7 x 7 = 3969 features. Wavelets are those of Morlet, images are mirrored at their edges.
    Rows of the result have length 1, so ``Bounds(norm=1.0)`` holds; nothing is learned from data.

    References
    ----------
    Bruna & Mallat, Invariant scattering convolution networks, IEEE PAMI 35(8), 2013.
    Tramer & Boneh, Differentially private learning needs better features, ICLR 2021.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato import ScatteringFeatures
    >>> images = np.random.default_rng(0).random((5, 784))
    >>> ScatteringFeatures(image_shape=(28, 28)).fit_transform(images).shape
    (5, 3969)
    """

    stored_form: ClassVar[Form] = {
        **ImageFeatures.stored_form,
        "n_scales": whole(least=1, most=12),
        "n_orientations": whole(least=1, most="out"),
        "n_groups": whole(least=1),
    }

    def __init__(
        self,
        image_shape: tuple[int, ...] | None = None,
        *,
        n_scales: int = 2,
        n_orientations: int = 8,
        n_groups: int = 27,
    ) -> None:
        self.image_shape = image_shape
        self.n_scales = n_scales
        self.n_orientations = n_orientations
        self.n_groups = n_groups

    def _describe(self, images: Array) -> Array:
        for name in ("n_scales", "n_orientations", "n_groups"):
            if getattr(self, name) < 1:
                raise InvalidInputError(f"'{name}' must be at least 1. Got {getattr(self, name)}.")
        xp = namespace_of(images)
        n, _, _, channels = images.shape
        maps = [self._scatter(images[..., channel]) for channel in range(channels)]
        stacked = xp.concat(maps, axis=1)  # (n, maps, cells)
        return unit_length(xp.reshape(_normalised(stacked, self.n_groups), (n, -1)))

    def _scatter(self, images: Array) -> Array:
        xp = namespace_of(images)
        n, height, width = images.shape
        step = 2**self.n_scales
        rows, columns = _mirrored(height, step), _mirrored(width, step)
        bank = _bank(len(rows), len(columns), self.n_scales, self.n_orientations)
        padded = xp.take(images, like(images, rows), axis=1)
        padded = xp.take(padded, like(images, columns), axis=2)
        inner = (slice(None), slice(None), slice(1, -1), slice(1, -1))
        maps = _paths(padded[:, None, :, :], bank, self.n_scales)
        return xp.concat([xp.reshape(m[inner], (n, m.shape[1], -1)) for m in maps], axis=1)


def _paths(images: Array, bank: dict[Any, NDArray[Any]], n_scales: int) -> list[Array]:
    """All maps ``(n, maps, height, width)``: order 0, then 1, then 2."""
    spectrum = _fft(images)
    first, second = [], []
    zeroth = _averaged(spectrum, bank, 0, n_scales)
    for j in range(n_scales):
        modulus = _modulus(spectrum, bank[j, 0], 2**j)  # (n, L, h, w)
        inner = _fft(modulus)
        first.append(_averaged(inner, bank, j, n_scales))
        for k in range(j + 1, n_scales):
            for turn in range(inner.shape[1]):
                deeper = _modulus(inner[:, turn : turn + 1, :, :], bank[k, j], 2 ** (k - j))
                second.append(_averaged(_fft(deeper), bank, k, n_scales))
    return [zeroth, *first, *second]


def _transforms(x: Array) -> Any:
    # SciPy transforms a stack of small images four times as fast as NumPy.
    return namespace_of(x).fft if is_foreign(x) else host_fft


def _fft(images: Array) -> Array:
    xp = namespace_of(images)
    dtype = xp.complex64 if images.dtype == xp.float32 else xp.complex128
    return _transforms(images).fftn(xp.astype(images, dtype), axes=(2, 3))


def _modulus(spectrum: Array, filters: NDArray[Any], step: int) -> Array:
    """``|x * psi|`` on every `step`-th pixel, for each filter."""
    xp = namespace_of(spectrum)
    weights = xp.astype(like(spectrum, filters)[None, :, :, :], spectrum.dtype)
    return xp.abs(_transforms(spectrum).ifftn(_folded(spectrum * weights, step), axes=(2, 3)))


def _averaged(spectrum: Array, bank: dict[Any, NDArray[Any]], scale: int, n_scales: int) -> Array:
    """Average of maps that live on every ``2**scale``-th pixel, kept on every ``2**J``-th."""
    xp = namespace_of(spectrum)
    weights = xp.astype(like(spectrum, bank["mean", scale])[None, None, :, :], spectrum.dtype)
    folded = _folded(spectrum * weights, 2 ** (n_scales - scale))
    return xp.real(_transforms(spectrum).ifftn(folded, axes=(2, 3)))


def _folded(spectrum: Array, step: int) -> Array:
    """The spectrum of every `step`-th pixel: frequencies that become one are averaged."""
    if step == 1:
        return spectrum
    xp = namespace_of(spectrum)
    n, maps, height, width = spectrum.shape
    parts = xp.reshape(spectrum, (n, maps, step, height // step, step, width // step))
    total = parts[:, :, 0, :, 0, :]
    for i, j in list(np.ndindex(step, step))[1:]:  # faster than a sum over two short axes
        total = total + parts[:, :, i, :, j, :]
    return total / step**2


def _normalised(maps: Array, n_groups: int) -> Array:
    """Mean 0 and variance 1 in each group of neighbouring maps of one image."""
    xp = namespace_of(maps)
    n, n_maps, n_cells = maps.shape
    n_groups = next(g for g in range(min(n_groups, n_maps), 0, -1) if n_maps % g == 0)
    groups = xp.reshape(maps, (n, n_groups, n_maps // n_groups * n_cells))
    groups = groups - xp.mean(groups, axis=2, keepdims=True)
    spread = xp.sqrt(xp.mean(groups * groups, axis=2, keepdims=True))
    return groups / (spread + SMALLEST_SPREAD)


def _mirrored(size: int, step: int) -> NDArray[np.int64]:
    """Places of the pixels of an image mirrored at both edges, one average wider on each side."""
    n_cells = -(-size // step)
    places = np.arange(-step, (n_cells + 1) * step)
    period = max(2 * size - 2, 1)
    folded = np.abs(places) % period
    return np.minimum(folded, period - folded) if size > 1 else np.zeros_like(places)


@lru_cache(maxsize=8)
def _bank(height: int, width: int, n_scales: int, n_orientations: int) -> dict[Any, NDArray[Any]]:
    """Fourier transforms of the filters: [k, j] wavelets of scale k on every 2**j-th pixel."""
    bank: dict[Any, NDArray[Any]] = {}
    for k in range(n_scales):
        fine = np.stack(
            [
                _morlet(height, width, k, turn * math.pi / n_orientations, n_orientations)
                for turn in range(n_orientations)
            ]
        )
        for j in range(k + 1):
            bank[k, j] = _thinned(fine, 2**j)
    mean = _envelope(height, width, WIDTH * 2 ** (n_scales - 1), 0.0, 1.0, 0.0)
    mean_spectrum = np.real(np.fft.fft2(mean / mean.sum()))[None]
    for j in range(n_scales):
        bank["mean", j] = _thinned(mean_spectrum, 2**j)[0]
    return bank


def _thinned(spectra: NDArray[Any], step: int) -> NDArray[Any]:
    """Spectra of filters for every `step`-th pixel: frequencies that become one are added."""
    n, height, width = spectra.shape
    parts = spectra.reshape(n, step, height // step, step, width // step)
    return np.asarray(parts.sum(axis=(1, 3)))


def _morlet(height: int, width: int, scale: int, angle: float, n_orientations: int) -> NDArray[Any]:
    """A wave under an envelope, less as much of the envelope as makes its mean zero."""
    sigma, slant = WIDTH * 2**scale, 4.0 / n_orientations
    wave = _envelope(height, width, sigma, angle, slant, FREQUENCY / 2**scale)
    envelope = _envelope(height, width, sigma, angle, slant, 0.0)
    wavelet = wave - wave.sum() / envelope.sum() * envelope
    return np.real(np.fft.fft2(wavelet / (2 * math.pi * sigma**2 / slant)))


def _envelope(
    height: int, width: int, sigma: float, angle: float, slant: float, frequency: float
) -> NDArray[Any]:
    """``exp(-(u² + slant² v²) / (2 sigma²) + i frequency u)`` on a torus, u along `angle`."""
    total = np.zeros((height, width), dtype=complex)
    for down in range(-2, 3):
        for right in range(-2, 3):
            y, x = np.mgrid[:height, :width].astype(float)
            y, x = y + down * height, x + right * width
            u = x * math.cos(angle) + y * math.sin(angle)
            v = y * math.cos(angle) - x * math.sin(angle)
            total += np.exp(-(u**2 + (slant * v) ** 2) / (2 * sigma**2) + 1j * frequency * u)
    return total
