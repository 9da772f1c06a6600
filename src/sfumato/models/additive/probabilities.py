"""The last look of a classifier: scores beside labels, counted in public bins.

Clipped slopes make scores too large: a descent that may move by the sign of a residual alone goes
on where an honest one would stop. One small release of counts gives the factor, and for two classes
the shift, that make probabilities of scores.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_expit, logsumexp

from sfumato.core.arrays import Array as AnyArray
from sfumato.ledger.receipt import Receipt
from sfumato.models.additive.fit import AdditiveScores
from sfumato.models.additive.plan import AdditivePlan
from sfumato.sums.counts import CountTables
from sfumato.sums.records import Records

Array = NDArray[np.float64]

ABOVE = np.array([1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 2, 3, 4, 6, 8, 12])
EDGES = np.concatenate([-ABOVE[::-1], [0.0], ABOVE])
MIDDLES = np.concatenate([[-14.0], (EDGES[:-1] + EDGES[1:]) / 2, [14.0]])
DEFAULT_FACTOR = 0.4  # towards which the factor is drawn where counts are noise
STRENGTH = 5.0  # records by which it is drawn there
SEEN = 4.0  # deviations of its noise that a bin must have, or it is empty


def score_table(n_classes: int) -> CountTables:
    """Return the table in which scores are counted: by bin and, for many classes, by prediction."""
    if n_classes == 2:
        return CountTables((len(MIDDLES),), ((0,),), 2)
    return CountTables((len(MIDDLES), n_classes), ((0, 1),), n_classes)


@dataclass(frozen=True, eq=False)
class ScoreBins:
    """``cells -> bin``: of the score for two classes; else of the margin, and what is predicted.

    scores: What was released so far.
    """

    scores: AdditiveScores

    @property
    def width(self) -> int:
        """One number, or two for more than two classes."""
        return 1 if len(self.scores.intercept) == 1 else 2

    def __call__(self, rows: AnyArray) -> AnyArray:
        """Map cells; each row by itself."""
        found = self.scores(rows)
        if self.width == 1:
            return np.searchsorted(EDGES, found, side="right").astype(np.float64)
        best = found.argmax(axis=1)
        top = np.take_along_axis(found, best[:, None], axis=1)[:, 0]
        others = found.copy()
        others[np.arange(len(found)), best] = -np.inf
        margin = top - logsumexp(others, axis=1)
        bins = np.searchsorted(EDGES, margin, side="right")
        return np.column_stack([bins, best]).astype(np.float64)


def release_probabilities(
    records: Records,
    scores: AdditiveScores,
    plan: AdditivePlan,
    receipt: Receipt,
    class_weights: tuple[float, ...] | None,
) -> tuple[float, float]:
    """Release counts of scores by label; return the factor and the shift of probabilities.

    Where all records seem to have the first label by these counts, a warning says so: labels that
    are not in the public set are the first one.
    """
    assert plan.calibration is not None  # noqa: S101 - for the type checker
    statistic = score_table(plan.n_classes)
    binned = records.mapped(ScoreBins(scores))
    counts = binned.release(statistic, plan.calibration, receipt)  # [A10] scores by label
    (table,) = statistic.split(counts)
    noise = math.sqrt(records.variance_of(plan.calibration))
    _warn_if_one_label(table, noise)
    if class_weights is not None:
        table = table * np.array(class_weights)
    if plan.n_classes == 2:
        wrong, right = table.T
        return _line(right, wrong, math.sqrt(2) * noise, shifted=True)
    right = np.einsum("bcc->b", table)
    wrong = table.sum(axis=(1, 2)) - right
    return _line(right, wrong, noise * plan.n_classes, shifted=False)


def _warn_if_one_label(table: Array, noise: float) -> None:
    """Say, by released counts alone, that hardly any label but the first was found."""
    sizes = table.reshape(-1, table.shape[-1]).sum(axis=0)
    doubt = 4 * noise * math.sqrt(table.size / len(sizes))
    if sizes[0] > 2 * doubt and (sizes[1:] < doubt).all():
        warnings.warn(
            "By the released counts, hardly any record has a label other than the first of the "
            "public set. A label that is not in the set counts as the first: are the labels of the "
            "bounds spelled and typed as in the table?",
            stacklevel=4,
        )


def _line(right: Array, wrong: Array, noise: float, *, shifted: bool) -> tuple[float, float]:
    """The most likely factor and shift for the counts of each bin, drawn towards the usual ones."""
    both = right + wrong
    # A bin of n records with noise of variance v says as much as n²/(n + v) records would.
    weight = np.where(both > SEEN * noise, both / (np.abs(both) + noise**2 + 1e-12), 0.0)
    right, wrong = (np.maximum(n, 0.0) * weight for n in (right, wrong))

    def loss(line: Array) -> float:
        scores = math.exp(line[0]) * MIDDLES + line[1] * shifted
        fitted = right @ log_expit(scores) + wrong @ log_expit(-scores)
        drawn = (line[0] - math.log(DEFAULT_FACTOR)) ** 2 + line[1] ** 2
        return float(STRENGTH * drawn - fitted)

    found = minimize(loss, np.array([math.log(DEFAULT_FACTOR), 0.0]), method="Nelder-Mead").x
    factor, shift = float(np.clip(found[0], -4.0, 4.0)), float(np.clip(found[1], -5.0, 5.0))
    return math.exp(factor), shift if shifted else 0.0
