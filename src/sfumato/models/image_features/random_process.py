"""Features of a frozen net that has seen images of random processes only."""

from __future__ import annotations

import importlib.util
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

import array_api_compat
import numpy as np
from numpy.typing import NDArray

from sfumato.core.arrays import Array, is_foreign_array, like, namespace_of, to_numpy
from sfumato.core.constraints import Form, one_of, or_none, whole
from sfumato.exceptions import InvalidInputError
from sfumato.models.image_features.images import (
    ImageFeatures,
    as_colours,
    cell_of,
    over_mirror_images,
    packaged,
    resized,
    unit_length,
)
from sfumato.models.image_features.scattering import shortened

WEIGHTS = Path(__file__).with_name("random_process.npz")
SHA256 = "0ec3aaed12068a0e0b657be8530a59d058e67349bee9c6e2f91d56370dfedf2a"
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

Weights = dict[str, NDArray[np.float32]]


class RandomProcessFeatures(ImageFeatures):
    """Averages and spreads of the maps of a small net, frozen before it ever saw a real image.

    Parameters
    ----------
    image_shape : tuple of int, optional
        (height, width) or (height, width, channels) with 1 or 3 channels; without it, the squarest
        grey image. Pixels lie in [0, 1].
    mirror : {None, "average"}, default="average"
        "average" takes the mean of the features of an image and of its mirror image.
    n_projected : int or None, default=3500
        How many numbers a public random projection keeps; None keeps all 11,808.
    seed : int, default=0
        Public seed of the projection.

    Attributes
    ----------
    image_shape_ : tuple of int
        Height, width and channels.
    n_features_out_ : int
        Number of features.

    Notes
    -----
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

    stored_form: ClassVar[Form] = {
        **ImageFeatures.stored_form,
        "mirror": or_none(one_of("average")),
        "n_projected": or_none(whole(least=1, most="out")),
        "seed": whole(least=0, most=2**32 - 1),
    }

    def __init__(
        self,
        image_shape: tuple[int, ...] | None = None,
        *,
        mirror: str | None = "average",
        n_projected: int | None = 3500,
        seed: int = 0,
    ) -> None:
        self.image_shape = image_shape
        self.mirror = mirror
        self.n_projected = n_projected
        self.seed = seed

    def _describe(self, images: Array) -> Array:
        if images.shape[3] not in (1, 3):
            raise InvalidInputError(f"Images must have 1 or 3 channels. Got {images.shape[3]}.")
        features = over_mirror_images(_features, images, self.mirror)
        return shortened(features, self.n_projected, self.seed)


def _features(images: Array) -> Array:
    """Parts of the maps of the net, each of length 1, beside each other."""
    if is_foreign_array(images) and not array_api_compat.is_torch_array(images):
        return like(images, _features(to_numpy(images)))
    if not is_foreign_array(images) and importlib.util.find_spec("torch") is not None:
        import torch

        return to_numpy(_features(torch.from_numpy(images.copy()))).astype(images.dtype)
    xp, kind = namespace_of(images), images.dtype
    shrunk = xp.astype(resized(images), xp.float32)
    maps = _maps(as_colours(shrunk))
    parts = [unit_length(_cells(maps[name], grid, what)) for name, grid, what in PARTS]
    return xp.astype(unit_length(xp.concat(parts, axis=1)), kind)


def _cells(maps: Array, grid: int, what: str) -> Array:
    """Means of maps over a grid of cells, or deviations; neighbours may share pixels."""
    xp, (height, width) = namespace_of(maps), maps.shape[2:]
    down, across = ([cell_of(size, grid, i) for i in range(grid)] for size in (height, width))
    found = []
    for cell in (maps[:, :, rows, columns] for rows in down for columns in across):
        mean = xp.mean(cell, axis=(2, 3), keepdims=True)
        if what == "mean":
            found.append(mean[:, :, 0, 0])
        else:
            away = cell - mean
            found.append(xp.sqrt(xp.mean(away * away, axis=(2, 3))))
    return xp.concat(found, axis=1)


# The net ------------------------------------------------------------------------------------


def _maps(images: Array) -> dict[str, Array]:
    """Maps of the three stages."""
    weights = {name: like(images, value) for name, value in _weights().items()}
    x = _relu(_normalised(_convolved(images, weights["stem.weight"], 1), weights, "stem_norm"))
    first = _stage(x, weights, "stages.0", 1)
    middle = _stage(first, weights, "stages.1", 2)
    return {"first": first, "middle": middle, "last": _stage(middle, weights, "stages.2", 2)}


def _stage(x: Array, weights: dict[str, Array], name: str, stride: int) -> Array:
    return _block(_block(x, weights, f"{name}.0", stride), weights, f"{name}.1", 1)


def _block(x: Array, weights: dict[str, Array], name: str, stride: int) -> Array:
    inner = _convolved(x, weights[f"{name}.first.weight"], stride)
    inner = _relu(_normalised(inner, weights, f"{name}.first_norm"))
    inner = _convolved(inner, weights[f"{name}.second.weight"], 1)
    inner = _normalised(inner, weights, f"{name}.second_norm")
    skip = weights.get(f"{name}.skip.weight")
    return _relu(inner + (x if skip is None else _convolved(x, skip, stride)))


def _normalised(x: Array, weights: dict[str, Array], name: str) -> Array:
    """Mean 0 and variance 1 in each group of channels of one image, then scaled and shifted."""
    xp, (n, channels, height, width) = namespace_of(x), x.shape
    groups = xp.reshape(x, (n, GROUPS, -1))
    groups = groups - xp.mean(groups, axis=2, keepdims=True)
    variance = xp.mean(groups * groups, axis=2, keepdims=True)
    scaled = xp.reshape(groups / xp.sqrt(variance + 1e-5), (n, channels, height, width))
    scale, shift = (weights[f"{name}.{part}"][None, :, None, None] for part in ("weight", "bias"))
    return scaled * scale + shift


def _relu(x: Array) -> Array:
    return namespace_of(x).clip(x, 0.0, None)


def _convolved(x: Array, kernel: Array, stride: int) -> Array:
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


@lru_cache(maxsize=1)
def _weights() -> Weights:
    """Read the weights of the package, in single precision."""
    return packaged(WEIGHTS, SHA256)
