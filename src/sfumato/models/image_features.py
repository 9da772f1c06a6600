"""Public features of images: no data are needed to make them, so nothing is charged.

ImageFeatures        blocks of images -> features of length 1 at most, each image alone
HOGFeatures          histograms of oriented gradients: quick
ScatteringFeatures   two layers of fixed wavelets and moduli
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import KW_ONLY, dataclass
from functools import lru_cache
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import fft as host_fft
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted

from sfumato.core.arrays import Array, is_accelerated, is_foreign_array, like, namespace_of
from sfumato.core.constraints import Form, check_parameters, list_of, one_of, or_none, refuse, whole
from sfumato.exceptions import InvalidInputError
from sfumato.tables.cells import checked_rows, checked_tensor

# Images at a time: the arrays in between stay in the cache of a processor, or fill a GPU. There
# the first size is taken in which the place of an image changes no bit of its features.
BLOCK = 16
ACCELERATED_BLOCKS = (500, 256, 1)
MAX_PIXEL = 2.0**40  # its square, a million times, is still a number in single precision
MAX_FEATURES = 2**24  # of an image


@dataclass(eq=False, repr=False)
class ImageFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC):
    """Base of the image features; not meant to be used directly.

    A subclass writes `_features`, which maps a stack of images ``(n, height, width, channels)`` to
    features, image by image. Nothing is learned from data, so nothing is to be paid for. An image
    with a missing or infinite number, or with a cell that is not a number, counts as blank;
    numbers beyond 2**40 are taken for 2**40.

    In a docstring, ``$image`` and ``$learned`` stand for what all of them share:

    Parameters
    ----------
    image_shape : tuple of int, optional
        (height, width) or (height, width, channels); without it, the squarest grey image.
    mirror : {None, "average"}
        "average" takes the mean of the features of an image and of its mirror image. A record is
        still one row, so this costs nothing.
    n_projected : int or None
        How many numbers a public random projection of the features keeps; None keeps all.
    seed : int, default=0
        Public seed of that projection.

    Attributes
    ----------
    image_shape_ : tuple of int
        Height, width and channels.
    n_features_out_ : int
        Number of features.
    """

    image_shape: tuple[int, ...] | None = None
    _: KW_ONLY
    mirror: str | None = None
    n_projected: int | None = None
    seed: int = 0

    parameters: ClassVar[Form] = {}
    stored_form: ClassVar[Form] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        """Let one table check parameters, and stored features; document what all share."""
        super().__init_subclass__(**options)
        cls.parameters = {
            **cls.parameters,
            "mirror": or_none(one_of("average")),
            "n_projected": or_none(whole(least=1, most=MAX_FEATURES)),
            "seed": whole(least=0, most=2**32 - 1),
        }
        cls.stored_form = {
            **cls.parameters,
            "image_shape_": list_of(whole(least=1), least=3, size=3, kind=tuple),
            "n_features_out_": whole("out", least=1, most=MAX_FEATURES),
        }
        text = (ImageFeatures.__doc__ or "").partition("----------\n")[2]
        image, _, learned = text.partition("\n\n    Attributes\n    ----------\n")
        text = (cls.__doc__ or "").replace("$image", image.strip())
        cls.__doc__ = text.replace("$learned", learned.strip())

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        # A bad number makes its own image blank; an error would tell that it is there.
        tags.input_tags.allow_nan = True
        return tags

    def fit(self, X: ArrayLike, y: object = None) -> Self:  # noqa: ARG002 - the contract's y
        """Note the shape of the images; no value is read.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_pixels)
            Images as rows, channel values of a pixel side by side.
        y : object, optional
            Not used.
        """
        check_parameters(self, self.parameters)
        rows = self._rows(X, reset=True)
        self.image_shape_ = image_shape_for(self.image_shape, rows.shape[1])
        blank = like(rows, np.zeros((1, rows.shape[1]), dtype=np.float32))
        self.n_features_out_ = int(self._describe(blank).shape[1])
        return self

    def transform(self, X: ArrayLike) -> Array:
        """Return the features, each row of length 1 at most.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_pixels)
            Images as rows.
        """
        check_is_fitted(self)
        rows = self._rows(X, reset=False)
        xp, n = namespace_of(rows), rows.shape[0]
        if not n:  # the number of rows may be secret, so none is no error
            return xp.zeros((0, self.n_features_out_), dtype=rows.dtype, device=rows.device)
        # All blocks have one size, filled up with blank images: libraries choose by the shape of
        # an array how to compute, and so may round an image differently in a smaller block.
        size = self._accelerated_block(rows) if is_accelerated(rows) else BLOCK
        parts = []
        for start in range(0, n, size):
            block = rows[start : min(start + size, n), :]
            blank = (size - block.shape[0], rows.shape[1])
            if blank[0]:
                zeros = xp.zeros(blank, dtype=rows.dtype, device=rows.device)
                block = xp.concat([block, zeros], axis=0)
            is_sound = xp.all(xp.isfinite(block), axis=1, keepdims=True)
            block = xp.where(is_sound, block, xp.zeros_like(block))
            parts.append(self._describe(xp.clip(block, -MAX_PIXEL, MAX_PIXEL)))
        return xp.concat(parts, axis=0)[:n, :]

    def _accelerated_block(self, rows: Array) -> int:
        """Return a size of blocks in which moving public images changes no bit of their features.

        On one H200, depending on the size, a few places in a block round differently.
        """
        xp, width = namespace_of(rows), int(rows.shape[1])
        for size in ACCELERATED_BLOCKS[:-1]:
            pixels = check_random_state(0).random_sample((size, width))
            probe = xp.astype(like(rows, pixels), rows.dtype)
            found = self._describe(probe)
            moved = ((self._describe(xp.roll(probe, k, axis=0)), k) for k in (1, 37, size // 2))
            if all(bool(xp.all(xp.roll(found, k, axis=0) == again)) for again, k in moved):
                return size
        return ACCELERATED_BLOCKS[-1]

    def _describe(self, rows: Array) -> Array:
        """Return the features of rows of sound pixels, of an image and its mirror image perhaps."""
        xp, n_kept = namespace_of(rows), self.n_projected
        images = xp.reshape(rows, (rows.shape[0], *self.image_shape_))
        features = self._features(images)
        if self.mirror is not None:
            mirrored = self._features(xp.flip(images, axis=2))
            features = unit_length((features + mirrored) / 2)
        width = int(features.shape[1])
        if n_kept is None:
            return unit_length(features)
        if n_kept > width:
            raise InvalidInputError(
                f"'n_projected' must lie between 1 and the {width} features of an image. "
                f"Got {n_kept}."
            )
        return unit_length(project(features, int(n_kept), self.seed))

    @abstractmethod
    def _features(self, images: Array) -> Array:
        """Return the features of each image ``(height, width, channels)``."""

    @property
    def _n_features_out(self) -> int:
        return int(self.n_features_out_)

    def _rows(self, X: Any, *, reset: bool) -> Array:
        if not is_foreign_array(X):
            rows = checked_rows(self, X, reset=reset, may_be_empty=True)
            is_single = isinstance(X, np.ndarray) and X.dtype == np.float32
            return rows.astype(np.float32) if is_single else rows
        xp = namespace_of(X)
        floats = X if xp.isdtype(X.dtype, "real floating") else xp.astype(X, xp.float32)
        return checked_tensor(self, floats, reset=reset, may_be_empty=True)

    def _check_stored(self, sizes: dict[str, int]) -> None:
        if math.prod(self.image_shape_) != sizes["d"]:
            raise refuse("image_shape_", "height, width and channels of the rows' images")
        if self._describe(np.zeros((1, sizes["d"]))).shape[1] != sizes["out"]:
            raise refuse("n_features_out_", "the number of features of an image")


def image_shape_for(given: tuple[int, ...] | None, n_pixels: int) -> tuple[int, int, int]:
    """Return height, width and channels; without a shape, the squarest grey image there is."""
    if given is None:
        height = next(h for h in range(math.isqrt(n_pixels), 0, -1) if n_pixels % h == 0)
        return height, n_pixels // height, 1
    shape = tuple(int(size) for size in given)
    if len(shape) not in (2, 3) or min(shape) < 1:
        raise InvalidInputError(
            "'image_shape' must be (height, width) or (height, width, channels), or None. "
            f"Got {given!r} instead."
        )
    if math.prod(shape) != n_pixels:
        raise InvalidInputError(
            f"Images of shape {shape} have {math.prod(shape)} numbers, the rows have {n_pixels}."
        )
    return (*shape, 1) if len(shape) == 2 else shape  # type: ignore[return-value]


def unit_length(rows: Array) -> Array:
    """Scale each row to length 1, a hair below it; a row of zeros stays."""
    xp = namespace_of(rows)
    squares = _row_sums(rows * rows)
    hair = 1e-6 if rows.dtype == xp.float32 else 1e-14
    ones = xp.ones_like(squares)
    return rows * ((1 - hair) / xp.sqrt(xp.where(squares > 0, squares, ones)))


def _row_sums(values: Array) -> Array:
    """Sum over the last axis, kept; on an accelerator at a width by which all rows are aligned.

    There, the order of additions depends on whether a row begins at a multiple of 16 bytes.
    """
    xp, excess = namespace_of(values), -values.shape[-1] % 16
    if excess and is_accelerated(values):
        shape = (*values.shape[:-1], excess)
        zeros = xp.zeros(shape, dtype=values.dtype, device=values.device)
        values = xp.concat([values, zeros], axis=-1)
    return xp.sum(values, axis=-1, keepdims=True)


def project(rows: Array, n_kept: int, seed: int) -> Array:
    """Return `n_kept` numbers of a public random turn of each row, at their lengths on average."""
    xp, width = namespace_of(rows), int(rows.shape[1])
    generator = check_random_state(seed)
    signs = 2.0 * generator.randint(0, 2, size=width) - 1
    places = np.sort(generator.permutation(width)[:n_kept])
    kind = xp.complex64 if rows.dtype == xp.float32 else xp.complex128
    turned = xp.astype(rows, kind) * xp.astype(like(rows, signs), kind)[None, :]
    kept = xp.take(xp.fft.fft(turned, axis=1), like(rows, places), axis=1)
    return (xp.real(kept) - xp.imag(kept)) * (1 / math.sqrt(n_kept))


# Histograms of oriented gradients ---------------------------------------------------------------

N_BINS = 9  # directions of a histogram
MIN_BLOCK = 1e-3  # keeps a block of nearly flat pixels from being blown up to length 1
MAX_ENTRY = 0.2  # the clipping of Dalal & Triggs, after which a block is normalised again


@dataclass(eq=False, repr=False)
class HOGFeatures(ImageFeatures):
    """Histograms of gradient directions in cells, normalised in overlapping blocks of cells.

    Parameters
    ----------
    $image
    cell : int, default=4
        Side of a cell, in pixels.

    Attributes
    ----------
    $learned

    Notes
    -----
    A pixel votes with the length of its gradient (of the channel where it is longest) for the two
    nearest of 9 directions, in proportion to their nearness; opposite ones are one. Blocks of 2 x 2
    cells overlap, moving by one cell. Rows of the result have length 1 (0 for a
    flat image), so ``Bounds(norm=1.0)`` is valid; nothing is learned, so nothing is charged.

    References
    ----------
    Dalal & Triggs, Histograms of oriented gradients for human detection, CVPR 2005.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato import HOGFeatures
    >>> images = np.random.default_rng(0).random((5, 784))
    >>> HOGFeatures(image_shape=(28, 28)).fit_transform(images).shape
    (5, 1296)
    """

    _: KW_ONLY
    cell: int = 4

    parameters: ClassVar[Form] = {"cell": whole(least=1, most=4096)}

    def _features(self, images: Array) -> Array:
        xp, (n, height, width, channels) = namespace_of(images), images.shape
        like_images = {"dtype": images.dtype, "device": images.device}
        # Differences of the two neighbours in a column and in a row, zero at the edge.
        across, along = xp.zeros_like(images), xp.zeros_like(images)
        along[:, 1:-1, :, :] = images[:, 2:, :, :] - images[:, :-2, :, :]
        across[:, :, 1:-1, :] = images[:, :, 2:, :] - images[:, :, :-2, :]
        if channels == 1:
            across, along = across[..., 0], along[..., 0]
        else:  # of the channel where they are longest
            longest = xp.argmax(across * across + along * along, axis=3, keepdims=True)
            numbers = xp.reshape(xp.arange(channels, device=longest.device), (1, 1, 1, -1))
            kept = xp.astype(longest == numbers, images.dtype)
            across, along = xp.sum(across * kept, axis=3), xp.sum(along * kept, axis=3)
        # Votes of each pixel for the two nearest directions.
        length = xp.sqrt(across * across + along * along)
        place = xp.atan2(along, across) * (N_BINS / math.pi)  # any whole number of turns off
        away = place[..., None] - xp.arange(N_BINS, **like_images)
        near = 1 - xp.abs(away - N_BINS * xp.round(away / N_BINS))
        votes = length[..., None] * xp.where(near > 0, near, xp.zeros_like(near))
        # Sums over cells; the last ones may be cut by the edge of the image.
        side = self.cell
        down, right = -(-height // side), -(-width // side)
        padded = xp.zeros((n, down * side, right * side, N_BINS), **like_images)
        padded[:, :height, :width, :] = votes
        cells = xp.reshape(padded, (n, down, side, right, side, N_BINS))
        cells = xp.sum(cells, axis=(2, 4))
        # Blocks of cells, each normalised, clipped and normalised again.
        tall, wide = min(2, down), min(2, right)
        n_down, n_right = down - tall + 1, right - wide + 1
        shifted = [
            cells[:, i : i + n_down, j : j + n_right, :] for i in range(tall) for j in range(wide)
        ]

        def normalise(blocks: Array) -> Array:
            squares = xp.sum(blocks * blocks, axis=3, keepdims=True)
            return blocks / xp.sqrt(squares + MIN_BLOCK**2)

        blocks = normalise(xp.concat(shifted, axis=3))
        limit = MAX_ENTRY * xp.ones_like(blocks)
        return xp.reshape(normalise(xp.where(blocks < limit, blocks, limit)), (n, -1))


# Scattering -------------------------------------------------------------------------------------

WIDTH = 0.8  # standard deviation of the finest envelope, in pixels
MAX_GROUPS = 27  # of neighbouring maps that are brought to mean 0 and variance 1
FREQUENCY = 0.75 * math.pi  # of the finest wavelet
MIN_SPREAD = 1e-3  # added to a group's standard deviation: a flat group stays flat


@dataclass(eq=False, repr=False)
class ScatteringFeatures(ImageFeatures):
    """``x * phi, |x * psi_a| * phi, ||x * psi_a| * psi_b| * phi``, normalised in groups.

    Parameters
    ----------
    $image
    n_scales : int, default=2
        J: wavelets of width 1, 2, ... 2**(J-1) pixels; averages are kept every 2**J pixels.
    n_orientations : int, default=8
        L: directions of the wavelets in half a turn.

    Attributes
    ----------
    $learned

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

    _: KW_ONLY
    n_scales: int = 2
    n_orientations: int = 8

    parameters: ClassVar[Form] = {
        "n_scales": whole(least=1, most=12),
        "n_orientations": whole(least=1, most=64),
    }

    def _features(self, images: Array) -> Array:
        """Mean 0 and variance 1 in each group of neighbouring maps of one image."""
        xp, maps = namespace_of(images), self._maps(images)
        n, n_maps, n_cells = maps.shape
        n_groups = next(g for g in range(min(MAX_GROUPS, n_maps), 0, -1) if n_maps % g == 0)
        groups = xp.reshape(maps, (n, n_groups, n_maps // n_groups * n_cells))
        size = groups.shape[2]
        groups = groups - _row_sums(groups) / size
        spread = xp.sqrt(_row_sums(groups * groups) / size)
        return unit_length(xp.reshape(groups / (spread + MIN_SPREAD), (n, -1)))

    def _maps(self, images: Array) -> Array:
        """All averages ``(n, maps, cells)``: of each channel order 0, then 1, then 2."""
        xp, n_scales = namespace_of(images), self.n_scales
        rows, columns = (_mirrored_places(size, 2**n_scales) for size in images.shape[1:3])
        kind = "complex64" if images.dtype == xp.float32 else "complex128"
        bank = _bank(len(rows), len(columns), n_scales, self.n_orientations, kind)
        padded = xp.take(images, like(images, rows), axis=1)
        padded = xp.take(padded, like(images, columns), axis=2)

        def average(maps: Array, scale: int) -> Array:  # D m R' of each map m
            down, right = (like(maps, matrix) for matrix in bank["mean", scale])
            averaged = xp.matmul(down, xp.matmul(maps, right))
            return xp.reshape(averaged, (*maps.shape[:2], -1))

        def transform(maps: Array) -> Array:
            if is_foreign_array(maps):  # the standard transforms complex numbers only
                return xp.fft.fftn(xp.astype(maps, getattr(xp, kind)), axes=(2, 3))
            return host_fft.fftn(maps, axes=(2, 3))  # four times as fast as NumPy's

        def modulus(parts: Array, filters: NDArray[Any]) -> Array:  # |x * psi|, thinned
            weights = like(parts, filters)
            total = parts[0, ...] * weights[0, ...]
            for i in range(1, parts.shape[0]):
                total += parts[i, ...] * weights[i, ...]
            if is_foreign_array(parts):
                return xp.abs(xp.fft.ifftn(total, axes=(2, 3)))
            return np.abs(host_fft.ifftn(total, axes=(2, 3), overwrite_x=True))

        found = []
        for channel in range(images.shape[3]):
            pixels = padded[..., channel][:, None, :, :]
            spectrum, second = transform(pixels), []
            found.append(average(pixels, 0))
            for j in range(n_scales):
                first = modulus(_split_frequencies(spectrum, 2**j), bank[j, 0])  # (n, L, h, w)
                found.append(average(first, j))
                inner = transform(first) if j + 1 < n_scales else first
                for k in range(j + 1, n_scales):
                    parts = _split_frequencies(inner, 2 ** (k - j))
                    deeper = [  # one direction at a time: what is worked on stays in the cache
                        modulus(parts[:, :, turn : turn + 1, :, :], bank[k, j])
                        for turn in range(inner.shape[1])
                    ]
                    second.append(average(xp.concat(deeper, axis=1), k))
            found += second
        return xp.concat(found, axis=1)


def _split_frequencies(spectra: Array, step: int) -> Array:
    """``(step², n, maps, h, w)``: frequencies that become one on every `step`-th pixel."""
    xp = namespace_of(spectra)
    n, maps, height, width = spectra.shape
    parts = xp.reshape(spectra, (n, maps, step, height // step, step, width // step))
    parts = xp.permute_dims(parts, (2, 4, 0, 1, 3, 5))
    return xp.reshape(parts, (step**2, n, maps, height // step, width // step))


def _mirrored_places(size: int, step: int) -> NDArray[np.int64]:
    """Places of the pixels of an image mirrored at both edges, one average wider on each side."""
    after = (-(-size // step) + 1) * step - size
    return np.pad(np.arange(size), (step, after), mode="reflect")


@lru_cache(maxsize=8)
def _bank(
    height: int, width: int, n_scales: int, n_orientations: int, dtype: str
) -> dict[Any, Any]:
    """Wavelets of scale k on every 2**j-th pixel as [k, j], in parts; matrices of averages."""
    bank: dict[Any, Any] = {}
    for (k, j), spectra in _wavelets(height, width, n_scales, n_orientations).items():
        step = 2 ** (k - j)
        bank[k, j] = _split_frequencies(spectra[None] / step**2, step).astype(dtype)
    real = np.dtype(dtype).type(0).real.dtype
    for j in range(n_scales):
        down, right = (_averages(size, j, n_scales).astype(real) for size in (height, width))
        bank["mean", j] = down, np.ascontiguousarray(right.T)
    return bank


def _wavelets(
    height: int, width: int, n_scales: int, n_orientations: int
) -> dict[tuple[int, int], NDArray[Any]]:
    """Fourier transforms of the filters: [k, j] wavelets of scale k on every 2**j-th pixel."""
    found: dict[tuple[int, int], NDArray[Any]] = {}
    slant = 4.0 / n_orientations
    for k in range(n_scales):
        sigma, fine = WIDTH * 2**k, []
        for turn in range(n_orientations):
            angle = turn * math.pi / n_orientations
            wave = _envelope(height, width, sigma, angle, slant, FREQUENCY / 2**k)
            # Less as much of the envelope as makes the mean of the wave zero.
            envelope = _envelope(height, width, sigma, angle, slant, 0.0)
            wavelet = wave - wave.sum() / envelope.sum() * envelope
            fine.append(np.real(np.fft.fft2(wavelet / (2 * math.pi * sigma**2 / slant))))
        for j in range(k + 1):
            found[k, j] = _thin(np.stack(fine), 2**j)
    return found


def _averages(size: int, scale: int, n_scales: int) -> NDArray[Any]:
    """Matrix of averages of every ``2**scale``-th pixel, kept on every ``2**J``-th but the ends."""
    mean = np.real(_envelope(1, size, WIDTH * 2 ** (n_scales - 1), 0.0, 1.0, 0.0))[0]
    spectrum = np.real(np.fft.fft(mean / mean.sum()))[None, None]
    weights = np.real(np.fft.ifft(_thin(spectrum, 2**scale)[0, 0]))
    n_kept, step = size // 2**n_scales, 2 ** (n_scales - scale)
    places = step * np.arange(1, n_kept - 1)[:, None] - np.arange(len(weights))
    return np.asarray(weights[places % len(weights)])


def _thin(spectra: NDArray[Any], step: int) -> NDArray[Any]:
    """Spectra of filters for every `step`-th pixel: frequencies that become one are added."""
    n, height, width = spectra.shape
    down = min(step, height)
    parts = spectra.reshape(n, down, height // down, step, width // step)
    return np.asarray(parts.sum(axis=(1, 3)))


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
