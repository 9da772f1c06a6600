"""The data sets by name, wherever their rows come from."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.model_selection import train_test_split

from sfumato.datasets import local, openml
from sfumato.exceptions import InvalidInputError
from sfumato.tables.files import TableFile

FOLDER_VARIABLE = "SFUMATO_DATA"
HOLDOUT = 0.3


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


@dataclass(frozen=True)
class CatalogueItem:
    """What the catalogue knows before anything is read."""

    name: str
    rows: int
    features: int
    about: str
    embedded: Callable[[], Dataset] | None = None


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
    place = _folder(folder)
    return {name: _origin(entry, place) for name, entry in CATALOGUE.items()}


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
    entry, place = CATALOGUE[name], _folder(folder)
    origin = _origin(entry, place)
    if entry.embedded is not None:
        return entry.embedded()
    if origin == "folder" and place is not None:
        return _dataset(name, *local.READERS[name](place))
    return _dataset(name, *openml.fetch(name))


def _dataset(
    name: str, columns: Mapping[str, NDArray[Any]], labels: NDArray[Any], n_train: int | None
) -> Dataset:
    return Dataset(name, columns, labels, "income" if name == "adult" else "label", n_train)


def _folder(folder: str | os.PathLike[str] | None) -> Path | None:
    told = os.environ.get(FOLDER_VARIABLE) if folder is None else os.fspath(folder)
    return Path(told) if told else None


def _origin(entry: CatalogueItem, place: Path | None) -> str:
    if entry.embedded is not None:
        return "embedded"
    return "folder" if place is not None and local.has(entry.name, place) else "OpenML"


def _hospital() -> Dataset:
    """Return the patients that nobody is; see tools/hospital_table.py."""
    table = TableFile(Path(__file__).with_name("hospital.csv.gz")).read()
    columns = {name: table[name].to_numpy() for name in table.column_names}
    return Dataset("hospital", columns, columns.pop("readmitted"), "readmitted")


def _digits() -> Dataset:
    found = load_digits()
    columns = dict(zip(found.feature_names, found.data.astype(np.int64).T, strict=True))
    return Dataset("digits", columns, found.target, "digit")


def _breast_cancer() -> Dataset:
    found = load_breast_cancer()
    columns = dict(zip(found.feature_names.tolist(), found.data.T, strict=True))
    return Dataset("breast-cancer", columns, found.target_names[found.target], "diagnosis")


def _wine() -> Dataset:
    found = load_wine()
    columns = dict(zip(found.feature_names, found.data.T, strict=True))
    return Dataset("wine", columns, found.target_names[found.target], "cultivar")


CATALOGUE = {
    entry.name: entry
    for entry in (
        CatalogueItem("hospital", 5000, 10, "invented patients: who comes back", _hospital),
        CatalogueItem("digits", 1797, 64, "handwritten digits, 8 x 8 pixels of 0 to 16", _digits),
        CatalogueItem("breast-cancer", 569, 30, "cell nuclei, malignant or benign", _breast_cancer),
        CatalogueItem("wine", 178, 13, "chemistry of three cultivars", _wine),
        CatalogueItem("mnist", 70000, 784, "handwritten digits, 28 x 28 pixels"),
        CatalogueItem("fashion-mnist", 70000, 784, "clothing, 28 x 28 pixels"),
        CatalogueItem("usps", 9298, 256, "zip-code digits, 16 x 16 pixels of -1 to 1"),
        CatalogueItem(
            "cifar10", 30000, 3072, "colour pictures, 32 x 32 pixels; 60000 rows at OpenML"
        ),
        CatalogueItem("adult", 48842, 14, "census of 1994, income above or below 50000 dollars"),
    )
}
