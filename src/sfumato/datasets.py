"""Public data sets: four come along, others are read from a folder or fetched from OpenML.

The folder is named by ``SFUMATO_DATA``; a file is used only if its content has the known SHA-256::

    mnist/, fashion-mnist/    train-images-idx3-ubyte.gz, train-labels-idx1-ubyte.gz, t10k-...
    usps/usps.npz             x_train, y_train, x_test, y_test
    cifar10/                  train_00000-09999.npz, ... (five), test_00000-09999.npz
    tabular/                  adult.data.gz, adult.test.gz
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import fetch_openml, load_breast_cancer, load_digits, load_wine
from sklearn.model_selection import train_test_split

from sfumato.exceptions import InvalidInputError
from sfumato.tables.files import TableFile

FOLDER_VARIABLE = "SFUMATO_DATA"
HOLDOUT = 0.3
CATALOGUE = {  # rows, features, and what they are
    "hospital": (5000, 10, "invented patients: who comes back"),
    "digits": (1797, 64, "handwritten digits, 8 x 8 pixels of 0 to 16"),
    "breast-cancer": (569, 30, "cell nuclei, malignant or benign"),
    "wine": (178, 13, "chemistry of three cultivars"),
    "mnist": (70000, 784, "handwritten digits, 28 x 28 pixels"),
    "fashion-mnist": (70000, 784, "clothing, 28 x 28 pixels"),
    "usps": (9298, 256, "zip-code digits, 16 x 16 pixels of -1 to 1"),
    "cifar10": (60000, 3072, "colour pictures, 32 x 32 pixels"),
    "adult": (48842, 14, "census of 1994, income above or below 50000 dollars"),
}
EMBEDDED = ("hospital", "digits", "breast-cancer", "wine")
# Number at OpenML, and the rows to learn from where it keeps the published order.
OPENML = {
    "mnist": (554, 60000),
    "fashion-mnist": (40996, 60000),
    "usps": (41082, None),
    "cifar10": (40927, 50000),
    "adult": (1590, None),
}
# Parts of each data set in the order of their rows, with the SHA-256 of the content, unpacked where
# a file is packed by gzip.
FILES = {
    "mnist/{}-idx{}-ubyte.gz": {
        "train-images": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "t10k-images": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "train-labels": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "t10k-labels": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    },
    "fashion-mnist/{}-idx{}-ubyte.gz": {
        "train-images": "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "t10k-images": "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "train-labels": "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        "t10k-labels": "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    },
    "usps/{}.npz": {"usps": "2b0edb8431dbf0f12857fb59ad035b62a2ab21fef054290c2f250804d891984e"},
    "cifar10/{}.npz": {
        "train_00000-09999": "19e173a8a14cc5f0b8eceb823c40244b2be99d11bbfbb4f73405f8d4c59936e3",
        "train_10000-19999": "d9a4602cbaa7cdc4b0d3031790626d8acf893362ee99e260e74b146040999990",
        "train_20000-29999": "ee09df9c566591024a4b747c5268e80a46302fde4c26e008f8373c1da1095215",
        "train_30000-39999": "faebd5955aeb15118a63081c357cf0c2138f38716c45b03c8abf0c902b9d97ce",
        "train_40000-49999": "97bb0c21bcc84839fa9f3f840a5f08c8275fe84cfdad5d189343c90b8015b1b9",
        "test_00000-09999": "9d2d765d9657f87d3cb2f58e19f066fccadb14a1d9f6695059fdb577b3c87e0d",
    },
    "tabular/adult.{}.gz": {
        "data": "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
        "test": "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
    },
}
ADULT = (
    *("age", "workclass", "fnlwgt", "education", "education-num", "marital-status"),
    *("occupation", "relationship", "race", "sex", "capital-gain", "capital-loss"),
    *("hours-per-week", "native-country"),
)
ADULT_NUMBERS = {"age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"}


@dataclass(frozen=True)
class Dataset:
    """Rows as named columns, and their labels.

    Parameters
    ----------
    name : str
        The name in the catalogue.
    columns : mapping of str to ndarray
        The features, one array per column.
    labels : ndarray
        One label per row.
    target : str
        Name of the column of labels.
    n_train : int, optional
        The first rows that are meant to learn from, where the set has such a part.
    """

    name: str
    columns: Mapping[str, NDArray[Any]]
    labels: NDArray[Any]
    target: str
    n_train: int | None = None

    @property
    def X(self) -> NDArray[Any]:  # noqa: N802 - a matrix, as everywhere
        """The features as one array."""
        return np.column_stack(list(self.columns.values()))

    @property
    def y(self) -> NDArray[Any]:
        """The labels."""
        return self.labels

    def parts(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return the rows to learn from and those held out: 30 % of each label, or as published.

        Returns
        -------
        tuple of ndarray
            Places of both groups of rows.
        """
        rows = np.arange(len(self.labels))
        if self.n_train is not None:
            return rows[: self.n_train], rows[self.n_train :]
        train, held_out = train_test_split(
            rows, test_size=HOLDOUT, random_state=0, stratify=self.labels
        )
        return np.sort(train), np.sort(held_out)

    def table(self, rows: NDArray[np.intp] | None = None) -> dict[str, NDArray[Any]]:
        """Return all columns, the target last, of all rows or of some.

        Parameters
        ----------
        rows : ndarray of int, optional
            Places of the rows; all by default.

        Returns
        -------
        dict of str to ndarray
            The columns by name.
        """
        chosen = slice(None) if rows is None else rows
        found = {name: values[chosen] for name, values in self.columns.items()}
        return {**found, self.target: self.labels[chosen]}


def available(folder: str | os.PathLike[str] | None = None) -> dict[str, str]:
    """Return for each data set where it would come from: "embedded", "folder" or "OpenML".

    Parameters
    ----------
    folder : path-like, optional
        A folder of data sets; by default the one that SFUMATO_DATA names.

    Returns
    -------
    dict of str to str
        The origin of each data set by its name.
    """
    told = os.environ.get(FOLDER_VARIABLE) if folder is None else os.fspath(folder)
    origins = {}
    for name in CATALOGUE:
        there = bool(told) and all((Path(str(told)) / file).is_file() for file, _ in _files(name))
        is_embedded = name in EMBEDDED
        origins[name] = "embedded" if is_embedded else "folder" if there else "OpenML"
    return origins


def load(name: str, folder: str | os.PathLike[str] | None = None) -> Dataset:
    """Load a data set.

    Parameters
    ----------
    name : str
        One of `available`.
    folder : path-like, optional
        Where data sets lie as files; by default the folder named by ``SFUMATO_DATA``. A file is
        used only if its SHA-256 is the known one. What is not there is fetched from OpenML.

    Returns
    -------
    Dataset
        Rows, labels, and the part to learn from.
    """
    if name not in CATALOGUE:
        raise InvalidInputError(
            f"'name' must be one of {', '.join(CATALOGUE)}. Got {name!r} instead."
        )
    if name in EMBEDDED:
        return _embedded(name)
    if available(folder)[name] == "OpenML":
        return _from_openml(name)
    place = Path(os.environ[FOLDER_VARIABLE] if folder is None else folder)
    contents = [_content(place / file, sha256) for file, sha256 in _files(name)]
    if name == "adult":
        lines = [
            [
                line.rstrip(".").split(", ")
                for line in each.decode("ascii").splitlines()
                if ", " in line
            ]
            for each in contents
        ]
        *cells, labels = np.array(lines[0] + lines[1], dtype=object).T
        columns = {
            column: values.astype(np.int64) if column in ADULT_NUMBERS else values.astype(str)
            for column, values in zip(ADULT, cells, strict=True)
        }
        return Dataset(name, columns, labels.astype(str), "income", len(lines[0]))
    if name.endswith("mnist"):
        *images, first, last = (np.frombuffer(each, np.uint8) for each in contents)
        images, numbers = [each[16:].reshape(-1, 784) for each in images], [first[8:], last[8:]]
        n_train = len(images[0])
    else:
        files = [np.load(io.BytesIO(each)) for each in contents]
        suffixes = ("_train", "_test") if name == "usps" else ("",)
        images = [each[f"x{end}"] for each in files for end in suffixes]
        numbers = [each[f"y{end}"] for each in files for end in suffixes]
        n_train = sum(map(len, numbers[:-1]))
    pixels = np.concatenate([each.reshape(len(each), -1) for each in images]).T
    columns = {f"pixel{i}": column for i, column in enumerate(pixels)}
    return Dataset(name, columns, np.concatenate(numbers).astype(np.int64), "label", n_train)


def _embedded(name: str) -> Dataset:
    if name == "hospital":  # nobody is one of these patients: see tools/hospital_table.py
        table = TableFile(Path(__file__).with_name("hospital.csv.gz")).read()
        columns = {column: table[column].to_numpy() for column in table.column_names}
        return Dataset(name, columns, columns.pop("readmitted"), "readmitted")
    load, target = {
        "digits": (load_digits, "digit"),
        "breast-cancer": (load_breast_cancer, "diagnosis"),
        "wine": (load_wine, "cultivar"),
    }[name]
    found = load()
    is_whole = name == "digits"
    values = found.data.astype(np.int64) if is_whole else found.data
    columns = dict(zip(map(str, found.feature_names), values.T, strict=True))
    return Dataset(
        name, columns, found.target if is_whole else found.target_names[found.target], target
    )


def _from_openml(name: str) -> Dataset:
    number, n_train = OPENML[name]
    mixed = name == "adult"
    try:  # scikit-learn checks and keeps what it downloads
        found = fetch_openml(data_id=number, as_frame=mixed, parser="auto")
    except OSError as error:  # no network, no such host, time out
        raise InvalidInputError(
            f"The data set '{name}' could not be fetched from OpenML ({type(error).__name__}). Set "
            "SFUMATO_DATA to a folder that has it, or choose an embedded one: "
            f"{', '.join(EMBEDDED)}."
        ) from None
    if mixed:
        columns = {str(each): np.asarray(found.data[each]) for each in found.data.columns}
        return Dataset(name, columns, np.asarray(found.target).astype(str), "income", n_train)
    columns = dict(zip(map(str, found.feature_names), found.data.T, strict=True))
    return Dataset(name, columns, np.asarray(found.target).astype(np.int64), "label", n_train)


def _files(name: str) -> list[tuple[str, str]]:
    """Return the files of a data set, relative to the folder, with their SHA-256."""
    start = "tabular/adult." if name == "adult" else f"{name}/"
    return [
        (pattern.format(part, 3 if "images" in part else 1), sha256)
        for pattern, parts in FILES.items()
        if pattern.startswith(start)
        for part, sha256 in parts.items()
    ]


def _content(path: Path, sha256: str) -> bytes:
    try:
        data = path.read_bytes()
        if path.suffix == ".gz":
            data = gzip.decompress(data)
    except (OSError, EOFError) as error:
        raise InvalidInputError(f"'{path}' cannot be read: {type(error).__name__}.") from None
    if hashlib.sha256(data).hexdigest() != sha256:
        raise InvalidInputError(
            f"'{path}' is not the file that is known by this name: its SHA-256 differs."
        )
    return data
