"""An audit of the whole search: what its winner tells of a record, and a search that leaks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sfumato import Bounds, PrivateMoments, PrivateSearchCV
from sfumato.audit.empirical import epsilon_from_outputs
from sfumato.mechanisms.selection import RunLaw
from sfumato.models.search.scores import ScoreSum
from sfumato.privacy.composition import epsilon_spent
from sfumato.sums.records import ArrayRecords

N_TRIALS, EPSILON, DELTA = 100, 0.5, 1e-4
ZEROS = np.zeros((2, 1))
ONE = np.array([[1.0], [0.0]])  # a neighbour whose score differs as much as one can


def own_number(_: Any, X: Any, __: Any) -> np.ndarray:
    """The score of a row is its number: the record that moves the score the most."""
    return np.asarray(X)[:, 0]


def winners(X: np.ndarray) -> list[float]:
    """Scores of the winners of independent searches, nearly all of the budget spent on scores."""
    search = PrivateSearchCV(
        PrivateMoments(bounds=Bounds(lower=0.0, upper=1.0)),
        {},
        mean_runs=3.0,
        scoring=own_number,
        score_share=0.99,
        constant_time=False,
        epsilon=EPSILON,
        delta=DELTA,
    )
    return [search.fit(X).best_score_ for _ in range(N_TRIALS)]


def audited() -> float:
    """Lower bound on epsilon, wrong with a chance of 1e-6 at most."""
    found = epsilon_from_outputs(
        winners(ZEROS), winners(ONE), delta=DELTA, confidence=1 - 1e-6, claimed=EPSILON
    )
    return float(found.epsilon)


def test_the_winner_tells_no_more_than_is_promised() -> None:
    assert audited() <= EPSILON


def test_a_search_without_noise_on_its_scores_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: the audit sees a search that scores in the clear."""
    drawn = ArrayRecords.release

    def bare(self: Any, statistic: Any, mechanism: Any, receipt: Any) -> Any:
        noisy = drawn(self, statistic, mechanism, receipt)  # the receipt is used up as before
        if not isinstance(statistic, ScoreSum):
            return noisy
        return np.array([sum(float(np.sum(rows)) for rows, *_ in self._blocks())])

    monkeypatch.setattr(ArrayRecords, "release", bare)
    assert audited() > EPSILON


def test_the_epsilon_of_the_winner_alone_is_caught() -> None:
    """Negative control: the best of about thirty tells more of a record than its own run does.

    Scores are drawn as the search draws them (its law of runs, its noise), without the fits: the
    audit of whole searches is `benchmarks.bench_search audit`.
    """
    n_trials, delta = 3000, 0.01
    search = PrivateSearchCV(
        PrivateMoments(bounds=Bounds(lower=0.0, upper=1.0)),
        {},
        mean_runs=30.0,
        scoring=own_number,
        score_share=0.9,
        constant_time=False,
        epsilon=5.0,
        delta=delta,
    )
    cost = search.cost(ZEROS)
    law, rng = RunLaw(cost.event), np.random.default_rng(0)
    best = [
        [moved + rng.normal(0, cost.score_deviation, law.number()).max() for _ in range(n_trials)]
        for moved in (0.0, 1.0)
    ]
    alone = epsilon_spent(cost.event.options[0], delta)
    found = epsilon_from_outputs(*best, delta=delta, confidence=1 - 1e-6, claimed=alone)
    assert alone < found.epsilon <= 5.0
    one = [
        [moved + rng.normal(0, cost.score_deviation) for _ in range(n_trials)] for moved in (0, 1)
    ]
    fair = epsilon_from_outputs(*one, delta=delta, confidence=1 - 1e-6, claimed=alone)
    assert fair.epsilon <= alone  # of one run it is a true promise
