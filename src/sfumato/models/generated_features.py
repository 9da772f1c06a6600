"""Features made of generated images: patches of them, and a net that has seen nothing else.

What was cut out of them or learned is a file of this package, checked by its hash.
"""

from __future__ import annotations

import hashlib
import importlib.util
import math
from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

import array_api_compat
import numpy as np
from numpy.typing import NDArray

from sfumato.core.arrays import (
    Array,
    is_accelerated,
    is_foreign_array,
    like,
    namespace_of,
    to_numpy,
)
from sfumato.core.constraints import Form, whole
from sfumato.exceptions import InvalidInputError, StoredModelError
from sfumato.models.image_features import ImageFeatures, unit_length

SHA256 = {
    "random_patches.npz": "df4400395b68e3abbfc6acc15af621c47a8c13a4cb54f0a4c359b682366445c9",
    "random_process.npz": "0ec3aaed12068a0e0b657be8530a59d058e67349bee9c6e2f91d56370dfedf2a",
}
SIDE = 32  # pixels of generated images; larger ones are averaged down to it
MIN_SIDE = 8  # pixels of a side: in smaller images each pixel becomes a square of pixels


@lru_cache(maxsize=2)
def load_packaged(name: str) -> dict[str, NDArray[np.float32]]:
    """Read the numbers of a file of this package, in single precision."""
    file = Path(__file__).with_name(name)
    if hashlib.sha256(file.read_bytes()).hexdigest() != SHA256[name]:
        raise StoredModelError(f"The file '{name}' of the package is damaged. Install it again.")
    with np.load(file, allow_pickle=False) as stored:
        return {part: stored[part].astype(np.float32) for part in stored.files if part != "made_by"}


class GeneratedFeatures(ImageFeatures):
    """Base of features of colour images in NumPy or PyTorch; other libraries' go through NumPy."""

    prefers_torch: ClassVar[bool] = False

    def _features(self, images: Array) -> Array:
        n, height, width, channels = images.shape
        if channels not in (1, 3):
            raise InvalidInputError(f"Images must have 1 or 3 channels. Got {channels}.")
        if is_foreign_array(images) and not array_api_compat.is_torch_array(images):
            return like(images, self._features(to_numpy(images)))
        has_torch = self.prefers_torch and importlib.util.find_spec("torch") is not None
        if has_torch and not is_foreign_array(images):
            import torch

            found = self._features(torch.from_numpy(images.copy()))
            return to_numpy(found).astype(images.dtype)
        xp, kind = namespace_of(images), images.dtype
        if min(height, width) < MIN_SIDE:
            times = -(-MIN_SIDE // min(height, width))
            images = xp.repeat(xp.repeat(images, times, axis=1), times, axis=2)
        elif min(height, width) >= 2 * SIDE:  # averages over squares
            step = min(height, width) // SIDE
            rows, columns = height // step, width // step
            cut = images[:, : rows * step, : columns * step, :]
            squares = xp.reshape(cut, (n, rows, step, columns, step, channels))
            images = xp.mean(xp.mean(squares, axis=4), axis=2)
        colours = xp.permute_dims(xp.astype(images, xp.float32), (0, 3, 1, 2))
        if channels == 1:
            colours = xp.concat([colours, colours, colours], axis=1)
        colours = (xp.clip(colours, 0.0, 1.0) - 0.5) / 0.25
        return xp.astype(unit_length(self._responses(colours)), kind)

    @abstractmethod
    def _responses(self, colours: Array) -> Array:
        """Return features of images ``(n, 3, height, width)`` about 0, in single precision."""


def cells_of(grid: int, height: int, width: int) -> list[tuple[slice, slice]]:
    """Return rows and columns of each cell of a grid; neighbours share pixels where they must."""
    down, across = (
        [slice(i * size // grid, -(-(i + 1) * size // grid)) for i in range(grid)]
        for size in (height, width)
    )
    return [(rows, columns) for rows in down for columns in across]


# Patches ----------------------------------------------------------------------------------------

PATCH = 6  # pixels of a side of a patch
GRID = 2  # cells of an image a side, in which responses are averaged
THRESHOLD = 1.0  # what a response must pass to count, and by which it is lessened
FLAT = 0.016  # added to the variance of a patch: a flat one stays flat
AT_A_TIME = 64  # filters, whose responses stay in the cache of a processor
ACCELERATED = 2**21  # filters times images, whose responses fill a GPU


@dataclass(eq=False, repr=False)
class RandomPatchFeatures(GeneratedFeatures):
    """How strongly patches of generated images are found in each quarter of an image.

    Parameters
    ----------
    $image
    n_filters : int, default=8192
        How many of the 8,192 patches are looked for.

    Attributes
    ----------
    $learned

    Notes
    -----
    Images have 1 or 3 channels and pixels in [0, 1]; by default features are averaged with those
    of the mirror image, and 2,500 numbers of a projection are kept.

    Each patch of 6 x 6 pixels of an image is brought to mean 0 and variance 1 and multiplied with
    each filter, a whitened patch of an image of dead leaves. What passes a threshold upwards, and
    what passes it downwards, is averaged in the quarters of the image; the roots of the averages
    are the features. The filters were cut out of generated images
    (``tools/random_process_net/patches.py``), so they contain nothing about anybody: using them
    costs no budget. They are a file of this package, checked by its hash. Rows of the result have
    length 1, so ``Bounds(norm=1.0)`` is valid.

    References
    ----------
    Coates, Ng & Lee, An analysis of single-layer networks in unsupervised feature learning,
    AISTATS 2011.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato import RandomPatchFeatures
    >>> images = np.random.default_rng(0).random((2, 8 * 8 * 3))
    >>> RandomPatchFeatures(image_shape=(8, 8, 3)).fit_transform(images).shape
    (2, 2500)
    """

    _: KW_ONLY
    n_filters: int = 8192
    mirror: str | None = "average"
    n_projected: int | None = 2500

    parameters: ClassVar[Form] = {"n_filters": whole(least=1, most=8192)}

    def _responses(self, colours: Array) -> Array:
        xp = namespace_of(colours)
        if is_foreign_array(colours):
            windows = colours.unfold(2, PATCH, 1).unfold(3, PATCH, 1)
        else:
            windows = np.lib.stride_tricks.sliding_window_view(colours, (PATCH, PATCH), axis=(2, 3))
        n, _, height, width = windows.shape[:4]
        patches = xp.reshape(xp.permute_dims(windows, (0, 2, 3, 1, 4, 5)), (n, height, width, -1))
        patches = patches - xp.mean(patches, axis=3, keepdims=True)
        variance = xp.mean(patches * patches, axis=3, keepdims=True)
        patches = patches / xp.sqrt(variance + FLAT)
        filters = like(colours, load_packaged("random_patches.npz")["filters"][: self.n_filters])
        cells, parts, size = cells_of(GRID, height, width), [], AT_A_TIME
        if is_accelerated(colours):
            from torch.nn.functional import softshrink

            # As in the net, factors have 10 bits; sums and sums of sizes say both directions.
            size = max(size, ACCELERATED // n // 64 * 64)  # other widths are slower
            for start in range(0, self.n_filters, size):
                some = filters[start : start + size, :, None, None]
                responses = convolve(xp.permute_dims(patches, (0, 3, 1, 2)), some, 1)
                beyond = softshrink(responses, THRESHOLD)
                found = [beyond[:, :, r, c] for r, c in cells]
                total = xp.stack([xp.mean(cell, axis=(2, 3)) for cell in found], axis=1)
                norms = [xp.linalg.vector_norm(cell, axis=(2, 3), ord=1) for cell in found]
                sizes = xp.stack(norms, axis=1) / math.prod(found[0].shape[2:])
                up_and_down = xp.concat([sizes + total, sizes - total], axis=1) / 2
                parts.append(xp.clip(up_and_down, 0.0, None))
            return xp.sqrt(xp.reshape(xp.concat(parts, axis=2), (n, -1)))
        patches = xp.reshape(patches, (n, height * width, -1))
        for start in range(0, self.n_filters, size):
            some = xp.matrix_transpose(filters[start : start + size, :])
            responses = patches @ some  # image by image: the same bits anywhere
            responses = xp.reshape(responses, (n, height, width, -1))
            # By how much they pass the threshold, upwards and downwards, on average over a cell.
            up, down = xp.clip(responses, THRESHOLD, None), xp.clip(responses, None, -THRESHOLD)
            means = [xp.mean(up[:, r, c, :], axis=(1, 2)) - THRESHOLD for r, c in cells]
            means += [-THRESHOLD - xp.mean(down[:, r, c, :], axis=(1, 2)) for r, c in cells]
            parts.append(xp.clip(xp.stack(means, axis=1), 0.0, None))
        return xp.sqrt(xp.reshape(xp.concat(parts, axis=2), (n, -1)))


# The net ----------------------------------------------------------------------------------------

GROUPS = 8  # of channels that are normalised together
# Which maps of the net are kept, in which grid of cells, by averages or by standard deviations in
# a cell. Finer grids and deviations were chosen on held-out training rows of CIFAR-10.
PARTS = (
    ("last", 1, "mean"),
    ("last", 2, "mean"),
    ("middle", 2, "mean"),
    ("last", 4, "mean"),
    ("middle", 4, "mean"),
    ("last", 2, "deviation"),
    ("middle", 2, "deviation"),
    ("first", 4, "mean"),
)


@dataclass(eq=False, repr=False)
class RandomProcessFeatures(GeneratedFeatures):
    """Averages and spreads of the maps of a small net, frozen before it ever saw a real image.

    Parameters
    ----------
    $image

    Attributes
    ----------
    $learned

    Notes
    -----
    Images have 1 or 3 channels and pixels in [0, 1]; by default features are averaged with those
    of the mirror image, and 3,500 numbers of a projection are kept.

    The net was trained on generated images alone (``tools/random_process_net/train.py``), so it
    contains nothing about anybody: using it costs no budget. Its weights are a file of this
    package, checked by its hash. Rows of the result have length 1, so ``Bounds(norm=1.0)`` is
    valid. With PyTorch installed, or for its tensors, its convolutions are used; otherwise NumPy's,
    which take longer.

    References
    ----------
    Baradad et al., Learning to see by looking at noise, NeurIPS 2021.
    Tang et al., Differentially private image classification by learning priors from random
    processes, NeurIPS 2023.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato import RandomProcessFeatures
    >>> images = np.random.default_rng(0).random((2, 8 * 8 * 3))
    >>> RandomProcessFeatures(image_shape=(8, 8, 3)).fit_transform(images).shape
    (2, 3500)
    """

    _: KW_ONLY
    mirror: str | None = "average"
    n_projected: int | None = 3500

    prefers_torch: ClassVar[bool] = True

    def _responses(self, colours: Array) -> Array:
        xp = namespace_of(colours)
        maps = net_maps(colours)
        parts = [unit_length(summarise(maps[name], grid, what)) for name, grid, what in PARTS]
        return xp.concat(parts, axis=1)


def net_maps(colours: Array) -> dict[str, Array]:
    """Return the maps of the three stages of the net."""
    xp = namespace_of(colours)
    weights = {
        name: like(colours, value) for name, value in load_packaged("random_process.npz").items()
    }
    x = convolve(colours, weights["stem.weight"], 1)
    x = xp.clip(normalise(x, weights, "stem_norm"), 0.0, None)
    maps = {}
    for stage, (name, stride) in enumerate((("first", 1), ("middle", 2), ("last", 2))):
        for block, step in ((f"stages.{stage}.0", stride), (f"stages.{stage}.1", 1)):
            inner = convolve(x, weights[f"{block}.first.weight"], step)
            inner = xp.clip(normalise(inner, weights, f"{block}.first_norm"), 0.0, None)
            inner = convolve(inner, weights[f"{block}.second.weight"], 1)
            inner = normalise(inner, weights, f"{block}.second_norm")
            skip = weights.get(f"{block}.skip.weight")
            x = xp.clip(inner + (x if skip is None else convolve(x, skip, step)), 0.0, None)
        maps[name] = x
    return maps


def summarise(maps: Array, grid: int, what: str) -> Array:
    """Return means of maps over a grid of cells, or deviations."""
    xp, found = namespace_of(maps), []
    for rows, columns in cells_of(grid, *maps.shape[2:]):
        cell = maps[:, :, rows, columns]
        mean = xp.mean(cell, axis=(2, 3), keepdims=True)
        away = cell - mean
        is_mean = what == "mean"
        found.append(mean[:, :, 0, 0] if is_mean else xp.sqrt(xp.mean(away * away, axis=(2, 3))))
    return xp.concat(found, axis=1)


def normalise(x: Array, weights: dict[str, Array], name: str) -> Array:
    """Bring each group of channels of an image to mean 0 and variance 1, then scale and shift."""
    xp, (n, channels, height, width) = namespace_of(x), x.shape
    groups = xp.reshape(x, (n, GROUPS, -1))
    groups = groups - xp.mean(groups, axis=2, keepdims=True)
    variance = xp.mean(groups * groups, axis=2, keepdims=True)
    scaled = xp.reshape(groups / xp.sqrt(variance + 1e-5), (n, channels, height, width))
    scale, shift = (weights[f"{name}.{part}"][None, :, None, None] for part in ("weight", "bias"))
    return scaled * scale + shift


def convolve(x: Array, kernel: Array, stride: int) -> Array:
    """Correlate images with kernels, zeros around them."""
    side = kernel.shape[2]
    if is_foreign_array(x):
        from torch.nn.functional import conv2d

        return conv2d(x, kernel, stride=stride, padding=side // 2)
    padded = np.pad(x, ((0, 0), (0, 0), (side // 2,) * 2, (side // 2,) * 2))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (side, side), axis=(2, 3))
    windows = windows[:, :, ::stride, ::stride]
    n, _, height, width = windows.shape[:4]
    columns = windows.transpose(0, 2, 3, 1, 4, 5).reshape(n, height * width, -1)
    answers = columns @ kernel.reshape(len(kernel), -1).T  # image by image: the same bits anywhere
    return np.ascontiguousarray(
        answers.reshape(n, height, width, len(kernel)).transpose(0, 3, 1, 2)
    )
