"""Every random word of every private fit is drawn inside a release that its ledger was charged for.

Together with `mechanisms/test_drawn_and_paid.py`, which compares the draws of a release with its
event, nothing is left that a fit could draw without paying.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from sfumato import Bounds, PrivateGaussianClassifier, PrivateSearchCV
from sfumato.audit.testing import PrivateCase
from sfumato.audit.testing.case import fit
from sfumato.ledger.receipt import Receipt
from sfumato.mechanisms import selection
from sfumato.mechanisms.base import Tape, taped
from sfumato.mechanisms.entropy import Words, drawing_from
from sfumato.privacy.events import Event, SelectionEvent, flatten
from tests.honest import BOUNDS, Honest, X
from tests.test_common import CASES


@dataclass
class Watch:
    """Counts random words by the release that asks for them; notes charges in their order."""

    n_words: Counter[Any] = field(default_factory=Counter)
    charged: list[Event] = field(default_factory=list)
    tape: Tape = field(default_factory=Tape)
    is_releasing: bool = False
    is_searching: bool = False

    def __deepcopy__(self, memo: object) -> Watch:
        return self

    def charge(self, *events: Event, **words: Any) -> Receipt:
        assert not self.n_words, "something was drawn before all was paid for"
        self.charged += events
        return Receipt(events, **{name: words.get(name) for name in ("unit", "relation")})

    def words(self, count: int) -> Words:
        asking = len(self.tape.releases) if self.is_releasing else "nobody"
        self.n_words["search" if self.is_searching else asking] += count
        return self.generator.integers(0, 2**64, count, dtype=np.uint64, endpoint=False)

    def __post_init__(self) -> None:
        self.generator = np.random.default_rng(0)


@contextmanager
def watched(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Record releases and words; what a search draws for itself is counted apart."""
    watch = Watch()
    run, choices = Tape.run, selection.random_words

    def watched_run(tape: Tape, *arguments: Any) -> Any:
        watch.is_releasing = True
        try:
            return run(tape, *arguments)
        finally:
            watch.is_releasing = False

    def watched_choices(count: int) -> Words:
        watch.is_searching = True
        try:
            return choices(count)
        finally:
            watch.is_searching = False

    monkeypatch.setattr(Tape, "run", watched_run)
    monkeypatch.setattr(selection, "random_words", watched_choices)
    with drawing_from(watch.words), taped() as tape:
        watch.tape = tape
        yield watch


def check(watch: Watch, *, n_releases: int | None = None) -> None:
    releases = watch.tape.releases
    assert releases
    assert "nobody" not in watch.n_words, "drawn outside of every release"
    drawing = {number for number in watch.n_words if number != "search"}
    assert drawing == set(range(len(releases))), "a release that draws nothing"
    assert n_releases is None or len(releases) == n_releases


@pytest.mark.parametrize(
    "case",
    [pytest.param(c, id=f"{name}-{i}") for name, each in CASES.items() for i, c in enumerate(each)],
)
def test_every_draw_of_a_fit_is_paid_for(
    case: PrivateCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    with watched(monkeypatch) as watch:
        fit(clone(case.estimator).set_params(ledger=watch), case.X, case.y)
    check(watch)
    assert "search" not in watch.n_words
    drawn = flatten(released.mechanism.event() for released in watch.tape.releases)
    assert drawn == flatten(watch.charged)


@pytest.mark.parametrize("constant_time", [True, False])
def test_every_draw_of_a_search_is_paid_for(
    constant_time: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One event is charged; no run draws more than its options say, and no more runs are made."""
    rows = np.random.default_rng(0).normal(size=(90, 2)) * 0.2
    labels = np.arange(90) % 3
    search = PrivateSearchCV(
        PrivateGaussianClassifier(bounds=Bounds(norm=1.0, labels=[0, 1, 2])),
        {"n_components": [1, 2]},
        mean_runs=3.0,
        constant_time=constant_time,
        epsilon=4.0,
        delta=1e-4,
    )
    with watched(monkeypatch) as watch:
        search.set_params(ledger=watch).fit(rows, labels)
    check(watch)
    (event,) = watch.charged
    assert isinstance(event, SelectionEvent)
    allowed = max(map(mu_squared, event.options))
    ends = [n for n, each in enumerate(watch.tape.releases, 1) if each.statistic.size == 1]
    drawn = [released.mechanism.event() for released in watch.tape.releases]
    runs = [drawn[start:end] for start, end in itertools.pairwise([0, *ends])]
    assert ends[-1] == len(drawn)  # every run ends with its score
    assert max(map(mu_squared, runs)) == pytest.approx(allowed, rel=1e-9)
    assert len(runs) == event.max_runs or not constant_time


def mu_squared(events: Iterable[Any]) -> float:
    return sum(n / event.noise_multiplier**2 for event, n in flatten(events).items())


class DrawsForItself(Honest):
    def after(self, rows: np.ndarray) -> None:
        self.noise_ = float(Watch.words(self.ledger, 1)[0])


class DrawsTwice(Honest):
    def release(self, mechanism: Any, statistic: np.ndarray, receipt: Any) -> np.ndarray:
        first = super().release(mechanism, statistic, receipt)
        return (first + mechanism.release_symmetric(statistic, ledger=None)) / 2


class NoNoise(Honest):
    def release(self, mechanism: Any, statistic: np.ndarray, receipt: Any) -> np.ndarray:
        silent = type(mechanism)(mechanism.sensitivity, 0.0)
        object.__setattr__(silent, "event", mechanism.event)
        return silent.release_symmetric(statistic, ledger=receipt)


@pytest.mark.parametrize("kind", [Honest, DrawsForItself, DrawsTwice, NoNoise])
def test_a_draw_that_nobody_pays_for_is_seen(
    kind: type[Honest], monkeypatch: pytest.MonkeyPatch
) -> None:
    case = PrivateCase(kind(2, bounds=BOUNDS), X)
    if kind is Honest:
        test_every_draw_of_a_fit_is_paid_for(case, monkeypatch)
        return
    with pytest.raises(AssertionError):
        test_every_draw_of_a_fit_is_paid_for(case, monkeypatch)
