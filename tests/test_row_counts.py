"""Where the number of rows is secret nothing but the released values depends on it.

Releases are recorded on one number of rows and played back on others: what is learned, what is
saved, what is warned of and what is refused must be the same.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, LogisticRegression

from sfumato import (
    Bounds,
    Fabricator,
    PrivateDensity,
    PrivateLargeMarginGaussianClassifier,
    PrivateLinearClassifier,
    TableBounds,
    release_correlation,
    release_counts,
    release_mean,
    release_quantiles,
    release_score,
    release_variance,
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
SLOW = "PrivateAffineHullClassifier"  # without such a rule: 1,000 rows


WIDE = Bounds(lower=-1.0, upper=1.0, labels=[0, 1, 2])
BALL = Bounds(norm=2.0, labels=[0, 1, 2])
# Ways through the code that no case takes: features of other kinds, three classes jointly,
# components beside a minimiser, pure epsilon, labels left out.
FURTHER = {
    "PrivateDensity": [
        PrivateDensity(delta=1e-5, bounds=WIDE)  # its cells by a rule
    ],
    "PrivateLinearClassifier": [PrivateLinearClassifier(n_components=2, n_steps=3, bounds=BALL)],
    "PrivateLargeMarginGaussianClassifier": [PrivateLargeMarginGaussianClassifier(2, bounds=BALL)],
}


def secret_cases() -> list[Any]:
    """Every case of every private estimator that offers a secret number of rows."""
    found = []
    for name, cases in CASES.items():
        if SECRET not in cases[0].estimator.offered_relations:
            continue
        blobs = CASES["PrivateMoments"][0]
        for each in FURTHER.get(name, []):
            n_columns = 2 if name == "PrivateDensity" else None
            cases = [*cases, PrivateCase(each, blobs.X[:, :n_columns], blobs.y)]
        for i, case in enumerate(cases):
            estimator = clone(case.estimator).set_params(relation=str(SECRET))
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
    slow = type(data[0]).__name__ == SLOW
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


@pytest.mark.filterwarnings("ignore:By the released counts")  # of a few rows, mostly noise
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


FACTS = {
    "a": (0, 10),
    "k": {"type": "int64", "lower": 0, "upper": 300},
    "g": ["x", "y"],
    "t": {"lower": 0, "upper": 5, "missing": True},
}


def whole_table(n: int) -> pa.Table:
    """Repeat sixty records, some with a missing cell, up to n."""
    rng = np.random.default_rng(0)
    cells = {"a": rng.uniform(0, 10, 60), "k": rng.integers(0, 300, 60), "g": [*"xyxxyy"] * 10}
    columns = cells | {"t": np.where(np.arange(60) % 7, rng.uniform(0, 5, 60), np.nan)}
    return pa.table({name: pa.array(np.resize(each, n)) for name, each in columns.items()})


def fabricated(target: str | None) -> Any:
    bounds = TableBounds.from_dict(FACTS, target=target)
    model = Fabricator(bounds=bounds, epsilon=30.0, delta=1e-5, relation=SECRET, random_state=0)
    return lambda table: [*leaves(f := clone(model).fit(table)), f.fabricate(50).to_pylist()]


def scored(table: Any) -> Any:
    model = LinearRegression().fit(np.eye(2), [0.0, 1.0])
    rows = np.column_stack([table["a"], table["k"]])
    promise: dict[str, Any] = {"relation": str(SECRET), "epsilon": 2.0}
    told = repr(release_score(model, rows, table["a"].to_numpy(), target_bounds=(0, 10), **promise))
    labels = LogisticRegression().fit(np.eye(2), [0, 1])
    return told, repr(release_score(labels, rows, rows[:, 0] > 5, metric="auc", **promise))


PROMISE: dict[str, Any] = {"bounds": FACTS, "epsilon": 5.0, "relation": str(SECRET)}
OF_TABLES = {
    "fabricated": fabricated(None),
    "fabricated, labels": fabricated("g"),
    "fabricated, a target": fabricated("a"),
    "counts": lambda table: str(release_counts(table, ["g", "k"], **PROMISE)),
    "mean": lambda table: str(release_mean(table, "t", **PROMISE)),
    "means": lambda table: str(release_mean(table, "t", by="g", **PROMISE)),
    "variance": lambda table: str(release_variance(table, "a", **PROMISE)),
    "correlation": lambda table: str(release_correlation(table, ["a", "t"], **PROMISE)),
    "quantiles": lambda table: str(release_quantiles(table, "k", by="g", **PROMISE)),
    "score": scored,
}


@pytest.mark.parametrize("name", OF_TABLES)
def test_what_is_released_of_a_table_depends_on_no_secret_number(name: str) -> None:
    """On both sides of rules that take 10,000 rows where their number is secret."""
    seen = []
    for n in (120, 0, 1, 9_000, 60_000):
        playback = seen[0][1] if seen else None
        with (
            warnings.catch_warnings(record=True) as said,
            seeded(0),
            taped(playback=playback) as tape,
        ):
            warnings.simplefilter("always")
            found = OF_TABLES[name](whole_table(n))
        shown = [(r.mechanism, r.statistic.shape) for r in tape.releases], [*map(repr, said)]
        seen.append((repr(found), tape, shown))
        assert (seen[-1][0], seen[-1][2]) == (seen[0][0], seen[0][2]), n
