"""Data sets from files of a folder, each used only if its content has the known SHA-256.

::

    mnist/, fashion-mnist/    train-images-idx3-ubyte.gz, train-labels-idx1-ubyte.gz, t10k-...
    usps/usps.npz             x_train, y_train, x_test, y_test
    cifar10/                  train_00000-09999.npz, train_10000-19999.npz, test_00000-09999.npz
    tabular/                  adult.data.gz, adult.test.gz
"""

from __future__ import annotations

import gzip
import hashlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.exceptions import InvalidInputError

Rows = tuple[dict[str, NDArray[Any]], NDArray[Any], int | None]

# SHA-256 of the content, unpacked where the file is packed by gzip.
CHECKSUMS = {
    "mnist/train-images-idx3-ubyte.gz": (
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"
    ),
    "mnist/train-labels-idx1-ubyte.gz": (
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"
    ),
    "mnist/t10k-images-idx3-ubyte.gz": (
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"
    ),
    "mnist/t10k-labels-idx1-ubyte.gz": (
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"
    ),
    "fashion-mnist/train-images-idx3-ubyte.gz": (
        "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888"
    ),
    "fashion-mnist/train-labels-idx1-ubyte.gz": (
        "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9"
    ),
    "fashion-mnist/t10k-images-idx3-ubyte.gz": (
        "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b"
    ),
    "fashion-mnist/t10k-labels-idx1-ubyte.gz": (
        "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34"
    ),
    "usps/usps.npz": "2b0edb8431dbf0f12857fb59ad035b62a2ab21fef054290c2f250804d891984e",
    "cifar10/train_00000-09999.npz": (
        "19e173a8a14cc5f0b8eceb823c40244b2be99d11bbfbb4f73405f8d4c59936e3"
    ),
    "cifar10/train_10000-19999.npz": (
        "d9a4602cbaa7cdc4b0d3031790626d8acf893362ee99e260e74b146040999990"
    ),
    "cifar10/test_00000-09999.npz": (
        "9d2d765d9657f87d3cb2f58e19f066fccadb14a1d9f6695059fdb577b3c87e0d"
    ),
    "tabular/adult.data.gz": "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
    "tabular/adult.test.gz": "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
}
ADULT = (
    *("age", "workclass", "fnlwgt", "education", "education-num", "marital-status"),
    *("occupation", "relationship", "race", "sex", "capital-gain", "capital-loss"),
    *("hours-per-week", "native-country"),
)
ADULT_NUMBERS = {"age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"}


def has(name: str, folder: Path) -> bool:
    """Return whether all files of a data set are there."""
    start = "tabular/adult." if name == "adult" else f"{name}/"
    return all((folder / file).is_file() for file in CHECKSUMS if file.startswith(start))


def _content(folder: Path, file: str) -> bytes:
    path = folder / file
    try:
        data = path.read_bytes()
        if path.suffix == ".gz":
            data = gzip.decompress(data)
    except (OSError, EOFError) as error:
        raise InvalidInputError(f"'{path}' cannot be read: {type(error).__name__}.") from None
    if hashlib.sha256(data).hexdigest() != CHECKSUMS[file]:
        raise InvalidInputError(
            f"'{path}' is not the file that is known by this name: its SHA-256 differs."
        )
    return data


def _images(name: str) -> Callable[[Path], Rows]:
    def read(folder: Path) -> Rows:
        def numbers(part: str, offset: int) -> NDArray[np.uint8]:
            return np.frombuffer(_content(folder, f"{name}/{part}-ubyte.gz"), np.uint8)[offset:]

        images = [numbers(f"{part}-images-idx3", 16).reshape(-1, 784) for part in ("train", "t10k")]
        labels = [numbers(f"{part}-labels-idx1", 8) for part in ("train", "t10k")]
        return _pixels(np.concatenate(images)), _whole(labels), len(images[0])

    return read


def _usps(folder: Path) -> Rows:
    with np.load(io.BytesIO(_content(folder, "usps/usps.npz"))) as file:
        images = np.concatenate([file["x_train"], file["x_test"]])
        labels = [file["y_train"], file["y_test"]]
    return _pixels(images), _whole(labels), len(labels[0])


def _cifar10(folder: Path) -> Rows:
    files = [file for file in CHECKSUMS if file.startswith("cifar10/")]
    images, labels = [], []
    for file in files:
        with np.load(io.BytesIO(_content(folder, file))) as part:
            images.append(part["x"].reshape(len(part["x"]), -1))
            labels.append(part["y"])
    return _pixels(np.concatenate(images)), _whole(labels), len(images[0]) + len(images[1])


def _adult(folder: Path) -> Rows:
    lines, n_train = [], None
    for file in ("tabular/adult.data.gz", "tabular/adult.test.gz"):
        text = _content(folder, file).decode("ascii")
        lines += [line.rstrip(".").split(", ") for line in text.splitlines() if ", " in line]
        n_train = len(lines) if n_train is None else n_train
    *cells, labels = np.array(lines, dtype=object).T
    columns = {
        name: values.astype(np.int64) if name in ADULT_NUMBERS else values.astype(str)
        for name, values in zip(ADULT, cells, strict=True)
    }
    return columns, labels.astype(str), n_train


def _pixels(images: NDArray[Any]) -> dict[str, NDArray[Any]]:
    return {f"pixel{i}": column for i, column in enumerate(images.T)}


def _whole(labels: list[NDArray[Any]]) -> NDArray[np.int64]:
    return np.concatenate(labels).astype(np.int64)


READERS: dict[str, Callable[[Path], Rows]] = {
    "mnist": _images("mnist"),
    "fashion-mnist": _images("fashion-mnist"),
    "usps": _usps,
    "cifar10": _cifar10,
    "adult": _adult,
}
