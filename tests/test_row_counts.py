"""Where the number of rows is secret nothing but the released values depends on it.

Releases are recorded on one number of rows and played back on others: what is learned, what is
saved, what is warned of and what is refused must be the same.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from sfumato import (
    Bounds,
    PrivateDensity,
    PrivateKernelClassifier,
    PrivateLargeMarginGaussianClassifier,
    PrivateLinearClassifier,
)
from sfumato.audit.testing import PrivateCase
from sfumato.audit.testing.inspection import described, leaves
from sfumato.audit.testing.taint import fit
from sfumato.exceptions import InvalidInputError
from sfumato.mechanisms.base import Tape, taped
from sfumato.mechanisms.entropy import seeded
from sfumato.privacy.guarantee import Relation
from tests.test_common import CASES

SECRET = Relation.ADD_OR_REMOVE_ONE
# One more and one fewer than what a rule divides by: blocks of 8 and 64 rows, branches of 100.
# Rules by the number of rows have floors, and 10,000 where it is secret: many rows lie beyond.
NUMBERS = [0, 1, 2, 7, 8, 9, 63, 64, 65, 99, 100, 101, 12_000]
SOLVERS = ("PrivateKernel", "PrivateAffineHull")  # slow, and without such a rule: 1,000 rows


WIDE = Bounds(lower=-1.0, upper=1.0, labels=[0, 1, 2])
BALL = Bounds(norm=2.0, labels=[0, 1, 2])
# Ways through the code that no case takes: features of other kinds, three classes jointly,
# components beside a minimiser, pure epsilon, labels left out.
FURTHER = {
    "PrivateDensity": [
        PrivateDensity(delta=1e-5, bounds=WIDE),  # its cells by a rule
    ],
    "PrivateKernelClassifier": [
        PrivateKernelClassifier("logistic", bandwidth=0.3, n_fourier=64, bounds=WIDE),
        PrivateKernelClassifier("logistic", bandwidth=3.0, bounds=WIDE),
    ],
    "PrivateLinearClassifier": [
        PrivateLinearClassifier(n_components=2, n_steps=3, bounds=BALL),
    ],
    "PrivateLargeMarginGaussianClassifier": [
        PrivateLargeMarginGaussianClassifier(2, bounds=BALL),
    ],
}


PUBLIC_NUMBER = "EntryHullClassifier"  # has no other relation


def secret_cases() -> list[Any]:
    """Every case of every private estimator that offers a secret number of rows."""
    found = []
    for name, cases in CASES.items():
        if name == PUBLIC_NUMBER:
            continue
        blobs = CASES["PrivateMoments"][0]
        for each in FURTHER.get(name, []):
            n_columns = 2 if name == "PrivateDensity" else None
            cases = [*cases, PrivateCase(each, blobs.X[:, :n_columns], blobs.y)]
        for i, case in enumerate(cases):
            estimator = clone(case.estimator).set_params(relation=str(SECRET))
            if hasattr(estimator, "expected_rows"):
                estimator.set_params(expected_rows=200)
            found.append(pytest.param((estimator, case.X, case.y), id=f"{name}-{i}"))
    return found


SECRET_CASES = secret_cases()


def first_rows(data: tuple[Any, np.ndarray, Any], n: int) -> tuple[np.ndarray, Any]:
    _, X, y = data
    return np.resize(X, (n, X.shape[1])), None if y is None else np.resize(y, n)


def fitted(data: tuple[Any, np.ndarray, Any], n: int, tape: Tape | None) -> tuple[Any, Any, Any]:
    """Return the model of the first n rows, its releases, and the warnings."""
    with warnings.catch_warnings(record=True) as said, seeded(0), taped(playback=tape) as replay:
        warnings.simplefilter("always")
        model = fit(clone(data[0]), *first_rows(data, n))
    return model, replay, [str(each.message) for each in said]


@pytest.mark.parametrize("data", SECRET_CASES)
def test_only_the_released_values_depend_on_the_number_of_rows(data: Any) -> None:
    model, tape, said = fitted(data, 120, None)
    before = dict(leaves(model))
    slow = type(data[0]).__name__.startswith(SOLVERS)
    for n in [min(n, 1_000) for n in NUMBERS] if slow else NUMBERS:
        other, replay, said_then = fitted(data, n, tape)
        assert said_then == said
        mechanisms = [released.mechanism for released in tape.releases]
        assert [released.mechanism for released in replay.releases] == mechanisms
        for there, here in zip(replay.releases, tape.releases, strict=True):
            assert there.statistic.shape == here.statistic.shape
            assert there.statistic.dtype == here.statistic.dtype
        after = dict(leaves(other))
        assert after.keys() == before.keys()
        different = [p for p in before if described(before[p]) != described(after[p])]
        assert not different, f"{different} depend on the number of rows {n}"


@pytest.mark.parametrize("data", SECRET_CASES)
def test_few_rows_are_fitted_and_answer(data: Any) -> None:
    for n in (0, 1, 2):
        model = fit(clone(data[0]), *first_rows(data, n))
        for method in ("predict", "transform", "density"):
            if hasattr(model, method):
                found = np.asarray(getattr(model, method)(data[1][:5]))
                assert found.dtype.kind != "f" or np.isfinite(found).all()


@pytest.mark.parametrize("data", SECRET_CASES)
def test_no_rows_are_refused_where_their_number_is_public(data: Any) -> None:
    estimator = clone(data[0]).set_params(relation="replace_one")
    with pytest.raises(InvalidInputError, match=r"0 sample\(s\)"):
        fit(estimator, *first_rows(data, 0))
