"""Scattering features: two layers of fixed wavelets and moduli, public and data-free."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import fft as host_fft
from sklearn.utils import check_random_state

from sfumato.core.arrays import (
    Array,
    is_accelerated,
    is_foreign_array,
    like,
    namespace_of,
)
from sfumato.core.constraints import Form, one_of, or_none, whole
from sfumato.exceptions import InvalidInputError
from sfumato.models.image_features.images import ImageFeatures, over_mirror_images, unit_length

WIDTH = 0.8  # standard deviation of the finest envelope, in pixels
FREQUENCY = 0.75 * math.pi  # of the finest wavelet
COLUMNS_AT_ONCE = 256  # of a projection, as it is made on an accelerator
MIN_SPREAD = 1e-3  # added to a group's standard deviation: a flat group stays flat


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
    mirror : {None, "average"}, default=None
        "average" takes the mean of the features of an image and of its mirror image. A record is
        still one row, so this costs nothing.
    n_projected : int, optional
        How many numbers a public random projection of the features keeps.
    seed : int, default=0
        Public seed of that projection.

    Attributes
    ----------
    image_shape_ : tuple of int
        Height, width and channels.
    n_features_out_ : int
        Number of features.

    Notes
    -----
    ``1 + J L + J (J-1)/2 L²`` maps per channel, 81 for the defaults; images of 28 x 28 pixels give
    81 x 7 x 7 = 3969 features. Wavelets are those of Morlet, images are mirrored at their edges.
    Rows of the result have length 1, so ``Bounds(norm=1.0)`` is valid. Nothing is learned.

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
        "mirror": or_none(one_of("average")),
        "n_projected": or_none(whole(least=1, most="out")),
        "seed": whole(least=0, most=2**32 - 1),
    }

    def __init__(
        self,
        image_shape: tuple[int, ...] | None = None,
        *,
        n_scales: int = 2,
        n_orientations: int = 8,
        n_groups: int = 27,
        mirror: str | None = None,
        n_projected: int | None = None,
        seed: int = 0,
    ) -> None:
        self.image_shape = image_shape
        self.n_scales = n_scales
        self.n_orientations = n_orientations
        self.n_groups = n_groups
        self.mirror = mirror
        self.n_projected = n_projected
        self.seed = seed

    def _describe(self, images: Array) -> Array:
        for name in ("n_scales", "n_orientations", "n_groups"):
            if getattr(self, name) < 1:
                raise InvalidInputError(f"'{name}' must be at least 1. Got {getattr(self, name)}.")
        features = over_mirror_images(self._all_features, images, self.mirror)
        return shortened(features, self.n_projected, self.seed)

    def count(self, shape: tuple[int, ...]) -> int:
        """Return the number of features of an image before any projection.

        Parameters
        ----------
        shape : tuple of int
            Height, width and channels.

        Returns
        -------
        int
            Their number.
        """
        height, width, channels = shape
        scales, turns, step = self.n_scales, self.n_orientations, 2**self.n_scales
        maps = 1 + scales * turns + scales * (scales - 1) // 2 * turns**2
        n_cells = -(-height // step) * -(-width // step)
        return int(channels * maps * n_cells)

    def _all_features(self, images: Array) -> Array:
        xp = namespace_of(images)
        n, _, _, channels = images.shape
        maps = [self._scatter(images[..., channel]) for channel in range(channels)]
        stacked = xp.concat(maps, axis=1)  # (n, maps, cells)
        return unit_length(xp.reshape(_normalised(stacked, self.n_groups), (n, -1)))

    def _scatter(self, images: Array) -> Array:
        xp = namespace_of(images)
        step = 2**self.n_scales
        rows, columns = (_mirrored(size, step) for size in images.shape[1:])
        kind = "complex64" if images.dtype == xp.float32 else "complex128"
        bank = _bank(len(rows), len(columns), self.n_scales, self.n_orientations, kind)
        padded = xp.take(images, like(images, rows), axis=1)
        padded = xp.take(padded, like(images, columns), axis=2)
        return xp.concat(_paths(padded[:, None, :, :], bank, self.n_scales), axis=1)


def _paths(images: Array, bank: dict[Any, Any], n_scales: int) -> list[Array]:
    """All averages ``(n, maps, cells)``: order 0, then 1, then 2."""
    xp, spectrum = namespace_of(images), _fft(images)
    first, second = [], []
    zeroth = _averaged(images, bank["mean", 0])
    for j in range(n_scales):
        modulus = _modulus(_parted(spectrum, 2**j), bank[j, 0])  # (n, L, h, w)
        first.append(_averaged(modulus, bank["mean", j]))
        inner = _fft(modulus) if j + 1 < n_scales else modulus
        for k in range(j + 1, n_scales):
            parts = _parted(inner, 2 ** (k - j))
            deeper = [  # one direction at a time: what is worked on stays in the cache
                _modulus(parts[:, :, turn : turn + 1, :, :], bank[k, j])
                for turn in range(inner.shape[1])
            ]
            second.append(_averaged(xp.concat(deeper, axis=1), bank["mean", k]))
    return [zeroth, *first, *second]


def _transforms(x: Array) -> Any:
    # SciPy transforms a stack of small images four times as fast as NumPy.
    return namespace_of(x).fft if is_foreign_array(x) else host_fft


def _fft(images: Array) -> Array:
    xp = namespace_of(images)
    if is_accelerated(images):
        return _transformed(xp.astype(images, xp.result_type(images.dtype, xp.complex64)))
    if is_foreign_array(images):  # the standard transforms complex numbers only
        dtype = xp.complex64 if images.dtype == xp.float32 else xp.complex128
        images = xp.astype(images, dtype)
    return _transforms(images).fftn(images, axes=(2, 3))


def _parted(spectra: Array, step: int) -> Array:
    """``(step², n, maps, h, w)``: frequencies that become one on every `step`-th pixel."""
    xp = namespace_of(spectra)
    n, maps, height, width = spectra.shape
    parts = xp.reshape(spectra, (n, maps, step, height // step, step, width // step))
    parts = xp.permute_dims(parts, (2, 4, 0, 1, 3, 5))
    return xp.reshape(parts, (step**2, n, maps, height // step, width // step))


def _modulus(parts: Array, filters: NDArray[Any]) -> Array:
    """``|x * psi|`` on every `step`-th pixel, for each filter; both as `_parted` gives them."""
    xp, weights = namespace_of(parts), like(parts, filters)
    total = parts[0, ...] * weights[0, ...]
    for i in range(1, parts.shape[0]):
        total += parts[i, ...] * weights[i, ...]
    if is_accelerated(parts):
        return xp.abs(_transformed(total, back=True))
    if is_foreign_array(parts):
        return xp.abs(xp.fft.ifftn(total, axes=(2, 3)))
    return np.abs(host_fft.ifftn(total, axes=(2, 3), overwrite_x=True))


def _transformed(maps: Array, *, back: bool = False) -> Array:
    """Fourier transforms of maps as two products of matrices, or their inverse.

    The library of a GPU may combine images of a batch to transform them, so that the bits of one
    depend on its neighbours; in a product every number is the sum of its own terms.
    """
    kind = str(maps.dtype).split(".")[-1]
    down, right = (like(maps, _waves(size, kind, back)) for size in maps.shape[2:])
    return namespace_of(maps).matmul(down, maps @ right)


@lru_cache(maxsize=32)
def _waves(size: int, dtype: str, back: bool) -> NDArray[Any]:
    """The symmetric matrix of a Fourier transform, or of its inverse."""
    places = np.arange(size)
    angles = 2 * math.pi * (np.outer(places, places) % size) / size
    waves = np.exp(1j * angles) / size if back else np.exp(-1j * angles)
    return np.asarray(waves.astype(dtype))


def _averaged(maps: Array, averages: tuple[NDArray[Any], NDArray[Any]]) -> Array:
    """``D m Rᵀ`` for each map m, as ``(n, maps, cells)``: averages down and to the right."""
    xp, (down, right) = namespace_of(maps), (like(maps, matrix) for matrix in averages)
    averaged = xp.matmul(down, xp.matmul(maps, right))
    return xp.reshape(averaged, (*maps.shape[:2], -1))


def _normalised(maps: Array, n_groups: int) -> Array:
    """Mean 0 and variance 1 in each group of neighbouring maps of one image."""
    xp = namespace_of(maps)
    n, n_maps, n_cells = maps.shape
    n_groups = next(g for g in range(min(n_groups, n_maps), 0, -1) if n_maps % g == 0)
    groups = xp.reshape(maps, (n, n_groups, n_maps // n_groups * n_cells))
    groups = groups - xp.mean(groups, axis=2, keepdims=True)
    spread = xp.sqrt(xp.mean(groups * groups, axis=2, keepdims=True))
    return groups / (spread + MIN_SPREAD)


def _mirrored(size: int, step: int) -> NDArray[np.int64]:
    """Places of the pixels of an image mirrored at both edges, one average wider on each side."""
    n_cells = -(-size // step)
    places = np.arange(-step, (n_cells + 1) * step)
    period = max(2 * size - 2, 1)
    folded = np.abs(places) % period
    return np.minimum(folded, period - folded) if size > 1 else np.zeros_like(places)


@lru_cache(maxsize=8)
def _bank(
    height: int, width: int, n_scales: int, n_orientations: int, dtype: str
) -> dict[Any, Any]:
    """Wavelets of scale k on every 2**j-th pixel as [k, j], in parts; matrices of averages."""
    real = np.dtype(dtype).type(0).real.dtype
    bank: dict[Any, Any] = {}
    for (k, j), spectra in _wavelets(height, width, n_scales, n_orientations).items():
        step = 2 ** (k - j)
        bank[k, j] = _parted(spectra[None] / step**2, step).astype(dtype)
    for j in range(n_scales):
        down, right = (_averages(size, j, n_scales).astype(real) for size in (height, width))
        bank["mean", j] = down, np.ascontiguousarray(right.T)
    return bank


def _wavelets(
    height: int, width: int, n_scales: int, n_orientations: int
) -> dict[tuple[int, int], NDArray[Any]]:
    """Fourier transforms of the filters: [k, j] wavelets of scale k on every 2**j-th pixel."""
    found: dict[tuple[int, int], NDArray[Any]] = {}
    for k in range(n_scales):
        fine = np.stack(
            [
                _morlet(height, width, k, turn * math.pi / n_orientations, n_orientations)
                for turn in range(n_orientations)
            ]
        )
        for j in range(k + 1):
            found[k, j] = _thinned(fine, 2**j)
    return found


def _averages(size: int, scale: int, n_scales: int) -> NDArray[Any]:
    """Matrix of averages of every ``2**scale``-th pixel, kept on every ``2**J``-th but the ends."""
    mean = np.real(_envelope(1, size, WIDTH * 2 ** (n_scales - 1), 0.0, 1.0, 0.0))[0]
    spectrum = np.real(np.fft.fft(mean / mean.sum()))[None, None]
    weights = np.real(np.fft.ifft(_thinned(spectrum, 2**scale)[0, 0]))
    n_kept, step = size // 2**n_scales, 2 ** (n_scales - scale)
    places = step * np.arange(1, n_kept - 1)[:, None] - np.arange(len(weights))
    return np.asarray(weights[places % len(weights)])


def _thinned(spectra: NDArray[Any], step: int) -> NDArray[Any]:
    """Spectra of filters for every `step`-th pixel: frequencies that become one are added."""
    n, height, width = spectra.shape
    down = min(step, height)
    parts = spectra.reshape(n, down, height // down, step, width // step)
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


def shortened(features: Array, n_kept: int | None, seed: int) -> Array:
    """Return features of length 1, projected to `n_kept` numbers where that is asked for."""
    if n_kept is None:
        return unit_length(features)
    width = int(features.shape[1])
    if not 1 <= n_kept <= width:
        raise InvalidInputError(
            f"'n_projected' must lie between 1 and the {width} features of an image. Got {n_kept}."
        )
    return unit_length(projected(features, int(n_kept), seed))


def projected(rows: Array, n_kept: int, seed: int) -> Array:
    """Return `n_kept` numbers per row, whose squares add up to those of the row on average."""
    xp, width = namespace_of(rows), int(rows.shape[1])
    if is_accelerated(rows):  # as a product: see `_transformed`
        return rows @ _kept_waves(xp, rows.device, rows.dtype, (width, n_kept, seed))
    signs, places = _turn(width, n_kept, seed)
    kind = xp.complex64 if rows.dtype == xp.float32 else xp.complex128
    turned = xp.astype(rows, kind) * xp.astype(like(rows, signs), kind)[None, :]
    spectrum = xp.fft.fft(turned, axis=1)
    kept = xp.take(spectrum, like(rows, places), axis=1)
    return (xp.real(kept) - xp.imag(kept)) * (1 / math.sqrt(n_kept))


def _turn(width: int, n_kept: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    generator = check_random_state(seed)
    signs = 2.0 * generator.randint(0, 2, size=width) - 1
    return signs, np.sort(generator.permutation(width)[:n_kept])


@lru_cache(maxsize=4)
def _kept_waves(xp: Any, device: Any, dtype: Any, turn: tuple[int, int, int]) -> Array:
    """Return the matrix of `projected` on a device."""
    signs, places = _turn(*turn)
    rows = xp.asarray(np.arange(turn[0]), device=device)[:, None]
    columns = []
    for start in range(0, turn[1], COLUMNS_AT_ONCE):
        kept = xp.asarray(places[start : start + COLUMNS_AT_ONCE], device=device)[None, :]
        angles = xp.astype((rows * kept) % turn[0], xp.float64) * (2 * math.pi / turn[0])
        columns.append(xp.astype(xp.cos(angles) + xp.sin(angles), dtype))
    scaled = xp.asarray(signs[:, None] / math.sqrt(turn[1]), device=device)
    return xp.concat(columns, axis=1) * xp.astype(scaled, dtype)
