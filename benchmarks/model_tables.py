"""Five public tables with public bounds: frames, and what is declared about them.

Ranges are round figures from the descriptions of the columns, categories the lists of the
descriptions. Adult has its own split; the others are split once, 80 : 20 (breast cancer 70 : 30).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from sfumato.tables import TableBounds

ADULT = [
    *("age", "workclass", "fnlwgt", "education", "education-num", "marital-status"),
    *("occupation", "relationship", "race", "sex", "capital-gain", "capital-loss"),
    *("hours-per-week", "native-country", "income"),
]
CANCER = [
    *(40, 50, 250, 3000, 0.25, 0.5, 0.5, 0.25, 0.4, 0.15),
    *(4, 6, 30, 700, 0.05, 0.2, 0.5, 0.1, 0.1, 0.05),
    *(50, 60, 300, 5000, 0.3, 1.5, 1.5, 0.4, 0.8, 0.3),
]
RANGES: dict[str, dict[str, tuple[float, float]]] = {
    "adult": {
        "age": (17, 90),
        "fnlwgt": (0, 1.5e6),
        "education-num": (1, 16),
        "capital-gain": (0, 1e5),
        "capital-loss": (0, 5e3),
        "hours-per-week": (0, 100),
    },
    "bank": {
        "age": (18, 100),
        "balance": (-1e4, 1.1e5),
        "day": (1, 31),
        "duration": (0, 5e3),
        "campaign": (1, 65),
        "pdays": (-1, 900),
        "previous": (0, 300),
    },
    "diamonds": {
        "carat": (0, 5.1),
        "depth": (40, 80),
        "table": (40, 100),
        "x": (0, 11),
        "y": (0, 60),
        "z": (0, 32),
        "price": (0, 2e4),
    },
    "doctor": {
        "lc": (0, 5),
        "lpi": (0, 8),
        "fmde": (0, 9),
        "ndisease": (0, 60),
        "linc": (0, 11),
        "lfam": (0, 3),
        "educdec": (0, 25),
        "age": (0, 65),
        "mdu": (0, 80),
    },
}
FILES = {
    "bank": ("bank_marketing.csv.gz", "y"),
    "cancer": ("breast_cancer_wdbc.csv.gz", "target"),
    "diamonds": ("diamonds.csv.gz", "price"),
    "doctor": ("doctor_contacts.csv.gz", "mdu"),
}


@dataclass(frozen=True)
class Table:
    """A table, split, with its public bounds."""

    train: pd.DataFrame
    y_train: np.ndarray
    test: pd.DataFrame
    y_test: np.ndarray
    bounds: TableBounds
    ranges: dict[str, tuple[float, float]]

    @property
    def is_regression(self) -> bool:
        """Whether the target is a number."""
        target = self.bounds.target
        return target is not None and target.labels is None


def table(name: str) -> Table:
    """Return one of adult, bank, cancer, diamonds, doctor."""
    train, test, target = _frames(name)
    ranges: dict[str, Any] = dict(RANGES.get(name, {}))
    if name == "cancer":
        columns = [each for each in train.columns if each != target]
        ranges = {each: (0, high) for each, high in zip(columns, CANCER, strict=True)}
    both = pd.concat([train, test])
    facts: dict[str, Any] = {}
    for column in both.columns:
        if column in ranges:
            facts[column] = ranges[column]
        else:
            facts[column] = sorted(set(both[column].unique().tolist()) - {"?"})
    return Table(
        train.drop(columns=target),
        train[target].to_numpy(),
        test.drop(columns=target),
        test[target].to_numpy(),
        TableBounds.from_dict(facts, target=target),
        {column: ends for column, ends in ranges.items() if column != target},
    )


def _frames(name: str) -> tuple[pd.DataFrame, pd.DataFrame, str]:
    folder = Path(os.environ["SFUMATO_DATA"]) / "tabular"
    if name == "adult":
        options: dict[str, Any] = {"header": None, "names": ADULT, "skipinitialspace": True}
        train = pd.read_csv(folder / "adult.data.gz", **options)
        test = pd.read_csv(folder / "adult.test.gz", skiprows=1, **options)
        test["income"] = test["income"].str.rstrip(".")
        return train, test, "income"
    file, target = FILES[name]
    rows = pd.read_csv(folder / file)
    for column in rows.columns:
        if rows[column].dtype == bool:
            rows[column] = rows[column].map({True: "yes", False: "no"})
    order = np.random.default_rng(0).permutation(len(rows))
    n_train = round((0.7 if name == "cancer" else 0.8) * len(rows))
    return rows.iloc[order[:n_train]], rows.iloc[order[n_train:]], target
