"""Tables 1 to 3 of the paper on membership mappings: transfer between sets of handwritten digits.

A source with labels is released once; a target with few labels is classified with its help.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from sfumato.models.transfer import PrivateTransferClassifier
from sfumato.papers.cdmma.systems import EntryTransfer, PrintedTransfer
from sfumato.papers.data import Split, images, unit_rows
from sfumato.papers.entry import Comparison, Entry, Outcome, Setting
from sfumato.tables.bounds import Bounds

Rows = NDArray[Any]
DELTA = 1e-5
DIGITS = range(10)

# Printed accuracies.
TABLE_1 = 0.951
TABLE_2 = {0.1: 0.9223, 1.0: 0.9228, math.inf: 0.9237}
TABLE_2_DEVIATION = {0.1: 0.0087, 1.0: 0.0062, math.inf: 0.0070}
TABLE_3 = {100: 0.9229, 200: 0.9586, 300: 0.9731, 400: 0.9763, 500: 0.9799}
# How far ours may lie below: about 1.5 deviations of runs, as measured before for Table 1.
TABLE_1_WITHIN, TABLE_3_WITHIN = 0.015, 0.01

CUBE: dict[str, Any] = {"bounds": Bounds(lower=0.0, upper=1.0, labels=DIGITS)}
RECORD: dict[str, Any] = {"bounds": Bounds(norm=1.0, labels=DIGITS)}


@dataclass(frozen=True)
class Transfer:
    """A source to be released, a target, and target rows to score on."""

    source: Rows
    y_source: Rows
    target: Rows
    y_target: Rows
    test: Rows
    y_test: Rows

    def in_unit_ball(self) -> Transfer:
        """Return rows of length 1, for bounds that protect a whole record."""
        scaled = [unit_rows(rows) for rows in (self.source, self.target, self.test)]
        return Transfer(scaled[0], self.y_source, scaled[1], self.y_target, scaled[2], self.y_test)


def known_labels(labels: Rows, per_class: int, seed: int) -> Rows:
    """Keep so many labels per class, drawn at random; -1 for the other rows."""
    generator, kept = check_random_state(seed), np.full(len(labels), -1)
    for label in np.unique(labels):
        chosen = generator.permutation(np.flatnonzero(labels == label))[:per_class]
        kept[chosen] = label
    return kept


def accuracies(
    kind: Any, transfer: Transfer, labels: list[int], setting: Setting, **parameters: Any
) -> dict[int, float]:
    """Mean accuracy over runs, by labels per class; one release of the source per run."""
    found: dict[int, list[float]] = {n: [] for n in labels}
    for seed in range(setting.runs):
        model = kind(delta=DELTA, random_state=seed, **parameters)
        setting.tell(f"release {seed + 1} of the source")
        model.fit(transfer.source, transfer.y_source)
        for n in labels:
            setting.tell(f"target with {n} labels per class")
            few = transfer.target, known_labels(transfer.y_target, n, seed)
            with public_target():
                model.fit_target(*few) if kind is PrintedTransfer else model.fit(model, None, *few)
            right = model.predict(transfer.test) == transfer.y_test
            found[n].append(float(np.mean(right)))
    return {n: round(float(np.mean(scores)), 4) for n, scores in found.items()}


@contextmanager
def public_target() -> Iterator[None]:
    """Fit without the warning that a target is not protected: all data here are public."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The target is not protected")
        yield


# Data --------------------------------------------------------------------------------------------


def mnist_to_mnist(setting: Setting) -> Transfer:
    """Test images are the target, the last ninth of them the rows to score on."""
    split = images(setting)
    split = split.first(600, 500) if setting.quick else split
    cut = len(split.y_test) // 2 if setting.quick else 9000
    ends = slice(None, cut), slice(cut, None)
    (target, y_target), (test, y_test) = ((split.X_test[e], split.y_test[e]) for e in ends)
    return Transfer(split.X, split.y, target, y_target, test, y_test)


def mnist_to_usps(setting: Setting) -> Transfer:
    """Two sets with images of different sizes; quick: digits and digits of half the width."""
    return _across(setting, "mnist", "usps")


def usps_to_mnist(setting: Setting) -> Transfer:
    """The other way round."""
    return _across(setting, "usps", "mnist")


def _across(setting: Setting, *names: str) -> Transfer:
    splits = []
    for name in names:
        split = images(setting, name)
        if setting.quick:
            split = split.first(600, 500)
            if name == "usps":  # images of 8 x 8 as 8 x 4: pairs of neighbours averaged
                both = split.X, split.X_test
                X, X_test = (rows.reshape(len(rows), -1, 2).mean(axis=2) for rows in both)
                split = Split(X, split.y, X_test, split.y_test)
        splits.append(split)
    source, target = splits
    return Transfer(source.X, source.y, target.X, target.y, target.X_test, target.y_test)


# Tables ------------------------------------------------------------------------------------------


def table_1(setting: Setting) -> Outcome:
    """MNIST to MNIST, ten labels per class."""
    transfer = mnist_to_mnist(setting)
    paper = accuracies(PrintedTransfer, transfer, [10], setting, epsilon=0.1, **CUBE)[10]
    strict = accuracies(EntryTransfer, transfer, [10], setting, epsilon=0.1, **CUBE)[10]
    record = accuracies(
        PrivateTransferClassifier, transfer.in_unit_ball(), [10], setting, epsilon=1.0, **RECORD
    )[10]
    return Outcome(
        (
            Comparison("epsilon 0.1, a pixel", TABLE_1, paper, strict, TABLE_1_WITHIN, "higher"),
            Comparison("epsilon 1, a whole record", None, None, record),
        ),
        claims={"more accurate than the 90 % of a network at epsilon 0.5": paper > 0.9},
        remarks=(
            *REMARKS,
            "The 90 % are promised for a whole image, the 95.1 % for one pixel: not the same unit.",
        ),
    )


def table_2(setting: Setting) -> Outcome:
    """MNIST to USPS, ten labels per class, three budgets."""
    transfer, rows = mnist_to_usps(setting), []
    for epsilon, printed in TABLE_2.items():
        strict = accuracies(EntryTransfer, transfer, [10], setting, epsilon=epsilon, **CUBE)[10]
        paper = accuracies(PrintedTransfer, transfer, [10], setting, epsilon=epsilon, **CUBE)[10]
        what = f"epsilon {epsilon:g}, a pixel" if math.isfinite(epsilon) else "no noise"
        rows.append(
            Comparison(what, printed, paper, strict, 2 * TABLE_2_DEVIATION[epsilon], "higher")
        )
    record = accuracies(
        PrivateTransferClassifier, transfer.in_unit_ball(), [10], setting, epsilon=1.0, **RECORD
    )[10]
    ours = [row.paper or 0.0 for row in rows]
    return Outcome(
        (*rows, Comparison("epsilon 1, a whole record", None, None, record)),
        claims={"accuracy hardly depends on epsilon": max(ours) - min(ours) < 0.02},
        remarks=(*REMARKS, UNUSED),
    )


def table_3(setting: Setting) -> Outcome:
    """USPS to MNIST, 100 to 500 labels."""
    transfer = usps_to_mnist(setting)
    labels = [n // 10 for n in TABLE_3][:: 2 if setting.quick else 1]
    paper = accuracies(PrintedTransfer, transfer, labels, setting, epsilon=0.1, **CUBE)
    strict = accuracies(EntryTransfer, transfer, labels, setting, epsilon=0.1, **CUBE)
    return Outcome(
        tuple(
            Comparison(
                f"{10 * n} labels, epsilon 0.1",
                TABLE_3[10 * n],
                paper[n],
                strict[n],
                TABLE_3_WITHIN,
                "higher",
            )
            for n in labels
        ),
        claims={"accuracy rises with the number of labels": paper[labels[-1]] > paper[labels[0]]},
        remarks=(*REMARKS, UNUSED),
    )


REMARKS = (
    "The paper's epsilon protects one pixel of one image. For a whole image of 784 pixels it is "
    "784 times as large. Rows and labels of the target are not protected.",
    "Not said in the paper and chosen here: five layers for the target's autoencoders, pixels of "
    "both sets in [0, 1], labels drawn at random in each class.",
)
UNUSED = (
    "Between images of different sizes the printed rule never asks the source, with or without "
    "noise: these are results of the target alone."
)
BROKEN = (
    "Epsilon is promised for one number of a row, and compared with figures for whole records; for "
    "a record of the source it is larger by the number of features, and the target has no promise."
)


ENTRIES = tuple(
    Entry(
        "cdmma",
        f"table-{number}",
        f"Transfer from {title}",
        run,
        broken=BROKEN,
        data="MNIST and USPS; quick: the 8 x 8 digits, for USPS with half as many columns",
        minutes=f"about {minutes}, one core",
    )
    for number, title, run, minutes in (
        (1, "MNIST to MNIST, ten labels per class", table_1, 15),
        (2, "MNIST to USPS, ten labels per class", table_2, 25),
        (3, "USPS to MNIST, 100 to 500 labels", table_3, 60),
    )
)
