"""From a folder of images, or arrays of them, to a private classifier and its predictions.

Every file is one record, whatever is in it: one that cannot be read as an image is a blank image,
one of another size is resized. Nothing raises, warns or changes shape because of one file.
"""

from __future__ import annotations

import warnings
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.cli.jobs.pipeline import PrivacyRequest
from sfumato.exceptions import InvalidInputError
from sfumato.models.images import PrivateImageClassifier
from sfumato.tables.bounds import Bounds
from sfumato.tables.columns import arrow

BRIGHTEST = 255


@dataclass(frozen=True)
class Images:
    """Images as rows of pixels from 0 to 255, names and labels; those of subfolders are public."""

    rows: NDArray[Any] = field(repr=False)
    shape: tuple[int, ...]
    names: list[str] = field(repr=False)
    y: NDArray[Any] | None = field(default=None, repr=False)
    labels: tuple[Any, ...] | None = None


def are_images(path: Path) -> bool:
    """Return whether a path is a folder, or a file of arrays."""
    return path.is_dir() or path.suffix == ".npz"


def fit_images(
    images: Images,
    promise: PrivacyRequest,
    *,
    image_features: str = "best",
    labels: Sequence[Any] | None = None,
) -> PrivateImageClassifier:
    """Train a private classifier of images."""
    if promise.unit != "record":
        raise InvalidInputError("A model of images protects records: use unit 'record'.")
    if images.y is None:
        raise InvalidInputError(
            "There are no labels: a folder needs one subfolder per label, a file of arrays 'y'."
        )
    public = images.labels if labels is None else tuple(labels)
    if public is None:
        raise InvalidInputError(
            "The label set must be given: it is public and never learned from data."
        )
    model = PrivateImageClassifier(
        image_features,
        image_shape=images.shape,
        epsilon=promise.epsilon,
        delta=promise.delta,
        relation=promise.relation,
        bounds=Bounds(lower=0, upper=BRIGHTEST, labels=public),
        ledger=promise.ledger,
    )
    model.fit(images.rows, images.y)
    model.ledger = None
    return model


def predict_images(
    model: PrivateImageClassifier, path: Path, *, probabilities: bool = False
) -> Any:
    """Predict the label of every image."""
    images = read_images(path, model.image_shape)
    found: dict[str, Any] = {"image": images.names, "prediction": model.predict(images.rows)}
    if probabilities:
        shares = model.predict_proba(images.rows).T
        found |= {f"probability of {c}": p for c, p in zip(model.classes_, shares, strict=True)}
    return arrow().table({name: arrow().array(list(values)) for name, values in found.items()})


def read_images(path: Path, shape: Sequence[int] | None = None) -> Images:
    """Read a folder of images, or an ``.npz`` with X and perhaps y."""
    if path.is_dir():
        return _from_folder(path, shape)
    try:
        with np.load(path, allow_pickle=False) as stored:
            found = {name: stored[name] for name in ("X", "y") if name in stored.files}
    except (OSError, ValueError, zipfile.BadZipFile):
        raise InvalidInputError(
            f"The file '{path}' cannot be read as arrays of numbers or texts (.npz)."
        ) from None
    X, y = found.get("X"), found.get("y")
    if X is None or X.ndim not in (2, 3, 4) or X.dtype.kind not in "uifb":
        raise InvalidInputError(f"The file '{path}' needs images as an array of numbers 'X'.")
    if y is not None and y.shape != X.shape[:1]:
        raise InvalidInputError(f"The labels 'y' of '{path}' must be one per image.")
    rows = X.reshape(len(X), int(np.prod(X.shape[1:])))
    if X.dtype.kind == "f":
        rows = rows * X.dtype.type(BRIGHTEST)
    own = tuple(X.shape[1:]) if X.ndim > 2 else (tuple(shape) if shape is not None else None)
    if own is None or int(np.prod(own)) != rows.shape[1]:
        raise InvalidInputError(f"The images of '{path}' need a shape of {rows.shape[1]} numbers.")
    return Images(rows, (*own, 1)[:3], [str(place) for place in range(len(rows))], y)


def _from_folder(folder: Path, shape: Sequence[int] | None) -> Images:
    try:
        from PIL import Image
    except ImportError:
        raise InvalidInputError(
            "Folders of images are read by Pillow: pip install 'sfumato[images]'."
        ) from None
    if shape is None or len(shape) not in (2, 3):
        raise InvalidInputError(
            f"The folder '{folder}' needs the public size of its images, height x width x "
            "channels, to which each is resized."
        )
    full = (*shape, 1)[:3]
    if min(full) < 1 or full[2] not in (1, 3):
        raise InvalidInputError(f"Images must have 1 or 3 channels. Got {tuple(shape)}.")
    inside = {
        place: sorted(each for each in place.iterdir() if not each.name.startswith("."))
        for place in (folder, *(each for each in sorted(folder.iterdir()) if each.is_dir()))
        if place == folder or not place.name.startswith(".")
    }
    groups = [place for place in inside if place != folder]
    files = [file for place in groups or [folder] for file in inside[place] if file.is_file()]
    y = np.array([file.parent.name for file in files], dtype=object) if groups else None
    rows = np.zeros((len(files), int(np.prod(full))), dtype=np.uint8)
    for place, file in enumerate(files):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a warning would tell about this file
                with Image.open(file) as image:
                    drawn = image.convert("L" if full[2] == 1 else "RGB")
                    drawn = drawn.resize((full[1], full[0]), Image.Resampling.BILINEAR)
            rows[place] = np.asarray(drawn, dtype=np.uint8).reshape(-1)
        except Exception:  # noqa: S112 - whatever a damaged file leads to, its image is blank
            continue
    names = [file.relative_to(folder).as_posix() for file in files]
    return Images(rows, full, names, y, tuple(each.name for each in groups) or None)
