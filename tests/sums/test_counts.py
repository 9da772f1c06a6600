"""Tables of counts: what they count, and how far one record moves them in both norms."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from sfumato.exceptions import InvalidInputError
from sfumato.ledger.receipt import prepay
from sfumato.mechanisms import GaussianMechanism, LaplaceMechanism
from sfumato.privacy.guarantee import Relation
from sfumato.sums import ArrayRecords, ClassCounts, CountTables
from sfumato.sums.grid import MAX_ROWS_SECRET_N, revealed

SIZES = (3, 4, 2)
TABLES = CountTables(SIZES, ((0,), (0, 1), (1, 2)), n_classes=2)


def summed(rows: np.ndarray, codes: np.ndarray) -> np.ndarray:
    return revealed(ArrayRecords(rows, codes, relation="add_or_remove_one")._sum(TABLES))


def test_counts_are_those_of_a_histogram(rng: np.random.Generator) -> None:
    rows = np.column_stack([rng.integers(0, size, 5000) for size in SIZES]).astype(float)
    codes = rng.integers(0, 2, 5000)
    for columns, found in zip(TABLES.tables, TABLES.split(summed(rows, codes)), strict=True):
        axes = [*(rows[:, c] for c in columns), codes]
        edges = [np.arange(SIZES[c] + 1) - 0.5 for c in columns] + [np.arange(3) - 0.5]
        np.testing.assert_array_equal(found, np.histogramdd(np.column_stack(axes), edges)[0])


@pytest.mark.parametrize("relation", list(Relation))
def test_no_record_moves_them_further(relation: Relation) -> None:
    odd = [(np.nan, np.inf, -np.inf), (-5.0, 99.0, 0.5)]
    cells = [*itertools.product(*map(range, SIZES)), *odd]
    terms = [
        summed(np.array([row], dtype=float), np.array([code])) for row in cells for code in (0, 1)
    ]
    if relation is Relation.REPLACE_ONE:
        moves = [a - b for a, b in itertools.combinations(terms, 2)]
    else:
        moves = terms
    euclidean = max(float(np.linalg.norm(move)) for move in moves)
    assert euclidean == pytest.approx(TABLES.sensitivity(relation, MAX_ROWS_SECRET_N), rel=1e-15)
    total = max(float(np.abs(move).sum()) for move in moves)
    assert total == TABLES.sensitivity(relation, MAX_ROWS_SECRET_N, norm=1)


def test_the_norm_of_the_mechanism_decides() -> None:
    records = ArrayRecords(np.zeros((5, 3)), relation="replace_one")
    for kind, needed in ((LaplaceMechanism, 6.0), (GaussianMechanism, math.sqrt(6.0))):
        mechanism = kind(needed * 0.99, 1.0)
        receipt = prepay(None, mechanism.event(), unit="record", relation="replace_one")
        with pytest.raises(InvalidInputError, match="sensitivity"):
            records.release(TABLES, mechanism, receipt)
        enough = kind(needed, 1.0)
        receipt = prepay(None, enough.event(), unit="record", relation="replace_one")
        assert records.release(TABLES, enough, receipt).shape == TABLES.shape


def test_other_statistics_have_a_valid_sum_of_magnitudes() -> None:
    assert ClassCounts(4).sensitivity("replace_one", 10, norm=1) == 2 * math.sqrt(2)  # >= 2
