"""What makes several releases and wraps them: with these held fixed, nothing else tells the rows.

Searches, scores and parties call estimators and mechanisms and hand out objects of their
own. Leaks that were planted are at the end, and must be seen.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

from sfumato import (
    Bounds,
    PrivateGaussianClassifier,
    PrivateLinearClassifier,
    PrivateSearchCV,
    release_score,
)
from sfumato.audit.testing.taint import compare_tables
from sfumato.federated import Federation, Party, Terms
from sfumato.federated.messages import Reply
from sfumato.sums.records import ArrayRecords

RELATIONS = ("replace_one", "add_or_remove_one")
BOUNDS = Bounds(norm=1.0, labels=[0, 1])
Rows = tuple[np.ndarray, np.ndarray]
Run = Callable[[Rows], tuple[Any, ...]]


def rows(n: int = 200) -> Rows:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, n)
    return (0.3 * rng.normal(size=(n, 3)) + 0.4 * (2 * y[:, None] - 1)).clip(-0.57, 0.57), y


def others(relation: str) -> list[Rows]:
    """Return other rows, as many where their number is public: scrambled, all alike, missing."""
    X, y = rows()
    if relation == "add_or_remove_one":
        X, y = X[9:], y[9:]
    alike, odd = np.tile(X[:1], (len(X), 1)), X.copy()
    odd[0], odd[1], odd[2] = np.nan, np.inf, 1e308
    return [(-X[:, ::-1], np.roll(y, 3)), (alike, np.zeros_like(y)), (odd, y)]


def searched(relation: str) -> Run:
    model = PrivateLinearClassifier(bounds=BOUNDS, n_steps=2, whiten=False, relation=relation)
    # A random duration draws the number of runs, and what they try, before any noise.
    search = PrivateSearchCV(
        model, {"n_steps": [2, 3]}, mean_runs=2.0, delta=1e-4, constant_time=False
    )
    return lambda data: (search.fit(*data).best_estimator_, dict(vars(search)))


def scored(relation: str, kind: str) -> Run:
    X, y = rows(50)
    if kind == "label":
        label = LogisticRegression().fit(X, y)
        return lambda data: (release_score(label, *data, epsilon=1.0, relation=relation),)
    number = LinearRegression().fit(X, X[:, 0])
    told = {"epsilon": 1.0, "delta": 1e-5, "target_bounds": (-1, 1), "relation": relation}
    return lambda data: (release_score(number, data[0], data[0][:, 0], **told),)


def federated(data: Rows) -> tuple[Any, ...]:
    """Fit over two parties; all that they say comes out, and what the coordinator makes of it."""
    X, y = data
    words: list[Any] = []
    relation = "add_or_remove_one"
    with TemporaryDirectory() as folder:
        terms = Terms(BOUNDS, relation=relation)
        parties = [
            Party.of_rows(f"p{i}", X[i::2], y[i::2], Path(folder) / str(i), terms=terms)
            for i in range(2)
        ]
        for party in parties:
            answer = party.answer

            def watched(request: Any, answer: Callable[[Any], Reply] = answer) -> Reply:
                reply = answer(request)
                words.append([reply.refusal, dict(reply.facts), dict(reply.arrays)])
                return reply

            party.answer = watched  # type: ignore[method-assign]
        federation = Federation(parties, bounds=BOUNDS, task="t", relation=relation)
        model = PrivateGaussianClassifier(
            epsilon=3.0, delta=1e-5, bounds=BOUNDS, relation=relation
        ).fit(federation)
        told = federation.to_dict(model.guarantee_)
        return model, words, told


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_search_shows_its_winner_and_nothing_else(relation: str) -> None:
    compare_tables(searched(relation), rows(), others(relation))
    _, held = searched(relation)(rows())
    # The number of runs is no function of the rows, so that only a list of names keeps it out.
    assert {name for name in held if name.endswith("_")} == {
        *("best_estimator_", "best_params_", "best_score_", "cost_", "guarantee_"),
        *("classes_", "n_features_in_"),
    }


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("kind", ["label", "number"])
def test_a_score_is_its_release(relation: str, kind: str) -> None:
    compare_tables(scored(relation, kind), rows(), others(relation)[:2])


def test_a_party_says_what_it_has_released(recwarn: Any) -> None:
    compare_tables(federated, rows(), others("add_or_remove_one"))


# Leaks that these tests must see ----------------------------------------------------------------


def test_a_party_that_tells_the_number_of_its_rows_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    release = Party._release

    def told(party: Any, request: Any) -> Reply:
        found = release(party, request)
        return Reply(found.party, {**found.facts, "n": len(party.load()[0])}, found.arrays)

    monkeypatch.setattr(Party, "_release", told)
    with pytest.raises(AssertionError, match="depends on the rows"):
        compare_tables(federated, rows(), others("add_or_remove_one"))


def test_a_score_by_the_secret_number_of_rows_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        *(ArrayRecords, "public_rows", property(lambda self: len(self._rows), lambda *_: None)),
        raising=False,
    )
    with pytest.raises(AssertionError, match="depends on the rows"):
        compare_tables(scored("add_or_remove_one", "label"), rows(), others("add_or_remove_one"))


def test_a_run_that_fails_alike_on_all_tables_shows_nothing() -> None:
    def failing(data: Rows) -> tuple[Any, ...]:
        federated(data)
        raise KeyError("seconds")

    with pytest.raises(KeyError, match="seconds"):
        compare_tables(failing, rows(), others("add_or_remove_one"))
