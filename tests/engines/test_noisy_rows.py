"""Noise on single rows of a table in parts: drawn where they lie, one draw for one charge."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sfumato import Bounds, Fabricator, Ledger, PrivateAffineHullClassifier
from sfumato.exceptions import EngineError, MissingBoundsError
from sfumato.mechanisms import GaussianMechanism, RandomizedResponseMechanism
from sfumato.sums import noisy_rows
from sfumato.sums.noisy_rows import PartNoise
from sfumato.tables import TableBounds
from tests.engines.sources import ThreadParts, in_parts, messy_table

LOCAL: dict[str, Any] = {"method": "local", "epsilon": 2.0, "delta": 1e-5, "n_smoothing": 1}
BOUNDS = TableBounds.from_dict(
    {"age": (0.0, 100.0), "income": (0.0, 200.0), "spent": (0.0, 60.0), "bought": ["no", "yes"]},
    target="bought",
)


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return messy_table(n_rows=240)


def _fabricator(**settings: Any) -> Fabricator:
    return Fabricator(bounds=BOUNDS, random_state=0, **{**LOCAL, **settings})


def _noisy(model: Any, table: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Fit, and return the noisy rows before they are smoothed."""
    seen = []
    plain = noisy_rows.release_rows

    def listened(*words: Any) -> Any:
        seen.append(plain(*words))
        return seen[-1]

    monkeypatch.setattr("sfumato.synthetic.engines.release_rows", listened)
    model.fit(table)
    return seen[0]


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_rows_and_order_are_those_of_the_table(
    table: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without noise the same rows and labels, part by part."""
    for name in ("rounded_noise", "_symmetric_noise"):
        target = f"sfumato.mechanisms.gaussian.{name}"
        monkeypatch.setattr(target, lambda *_: np.zeros(_[2]), raising=False)
    monkeypatch.setattr(RandomizedResponseMechanism, "release", lambda _, codes, **__: codes)
    whole = _noisy(_fabricator(), table, monkeypatch)
    parts = _noisy(_fabricator(), ThreadParts(in_parts(table, 5)), monkeypatch)
    for mine, theirs in zip(whole, parts, strict=True):
        np.testing.assert_array_equal(mine, theirs)


class _EachTwice(ThreadParts):
    """Runs every task twice, at the same time, and gives both answers, the later ones first."""

    forgets = False  # whether the second run is on a worker that knows nothing of the first

    def map(self, task: Any) -> Iterator[Any]:
        first = list(super().map(task))
        if self.forgets:
            noisy_rows.ANSWERS = noisy_rows._Answers()
        second = list(super().map(task))
        self.answers = [*second, *first]
        yield from self.answers


def test_a_task_that_is_run_again_does_not_draw_again(
    table: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draws: list[Any] = []
    plain = GaussianMechanism.release

    def counted(self: Any, value: Any, *, ledger: Any) -> Any:
        draws.append(type(self))
        return plain(self, value, ledger=ledger)

    monkeypatch.setattr(GaussianMechanism, "release", counted)
    budget = Ledger(tmp_path / "ledger.db").create("d", epsilon=10.0, delta=1e-4)
    parts = _EachTwice(in_parts(table, 4))
    fabricator = _fabricator(ledger=budget).fit(parts)
    filled = [part for part in in_parts(table, 4) if len(part)]
    assert len(draws) == len(filled)
    assert len(budget.history()) == 1
    assert len(set(parts.answers)) == 4  # the second runs gave the stored bytes
    assert len(fabricator.released_["rows"]) == len(table)


def test_of_two_draws_one_is_kept(table: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that was lost with its answer draws again: only the first that comes is used."""
    parts = _EachTwice(in_parts(table, 3))
    monkeypatch.setattr(parts, "forgets", True)
    rows, _ = _noisy(_fabricator(), parts, monkeypatch)
    assert len(set(parts.answers)) == 6  # they differ
    kept = [noisy_rows._opened(each, _task(each), 3, rows.shape[1]) for each in parts.answers[:3]]
    np.testing.assert_array_equal(rows, np.concatenate([each for _, each, _ in sorted(kept)]))


def _task(message: bytes) -> str:
    import json

    return str(json.loads(message.split(b"\n")[1])["task"])


def test_noise_has_its_scale_and_differs_between_parts(
    table: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sample variance of 720 differences of two normal numbers.

    It deviates by sqrt(2 / 720) = 5.3 %; the band of 33 % is more than 6 deviations, a chance below
    1e-8. Noise of 3/2 of the scale has 225 % of that variance, of 2/3 of it 44 %.
    """
    twice = pd.concat([table, table])
    model = _fabricator()
    rows, _ = _noisy(model, ThreadParts([table, table]), monkeypatch)
    assert len(rows) == len(twice)
    half = len(table)
    assert not (rows[:half] == rows[half:]).any()
    difference = rows[:half] - rows[half:]  # of equal rows: twice the variance of the noise
    assert difference.size == 720
    half_budget = GaussianMechanism.calibrate(sensitivity=2.0, epsilon=1.0, delta=1e-5)
    radius = np.sqrt(3) / 2  # of the cube's ball
    expected = 2 * half_budget.variance() * radius**2
    assert abs(difference.var() / expected - 1) < 0.33


def _changed(message: bytes, old: bytes, new: bytes) -> bytes:
    return message.replace(old, new, 1)


REFUSED: dict[str, Any] = {
    "one lost": lambda answers: answers[1:],
    "cut short": lambda answers: [answers[0][:-8], *answers[1:]],
    "no rows at all": lambda answers: [b"hello", *answers[1:]],
    "of another map": lambda answers: [
        _changed(answers[0], _task(answers[0]).encode(), b"f" * 32),
        *answers[1:],
    ],
    "no labels": lambda answers: [
        *answers[:-1],
        answers[-1][:-8] + np.array([2], dtype="<i8").tobytes(),
    ],
    "no numbers": lambda answers: [
        *answers[:-1],
        _changed(answers[-1], b"]}\n", b"]}\n" + np.array([math.nan]).tobytes())[:-8],
    ],
    "another part": lambda answers: [
        _changed(answers[0], b'"part": 0', b'"part": 9'),
        *answers[1:],
    ],
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str, table: pd.DataFrame, tmp_path: Path) -> None:
    budget = Ledger(tmp_path / "l.db").create("d", epsilon=10.0, delta=1e-4)

    class Faulty(ThreadParts):
        def map(self, task: Any) -> Iterator[Any]:
            answers = list(super().map(task))
            yield from REFUSED[name](answers) if isinstance(task, PartNoise) else answers

    with pytest.raises(EngineError, match="another fit is another charge"):
        _fabricator(ledger=budget).fit(Faulty(in_parts(table, 4)))
    assert len(budget.history()) == 1


def test_hulls_of_a_table_in_parts(table: pd.DataFrame) -> None:
    for settings in (LOCAL, {"delta": 1e-5, "epsilon": 20.0}):
        model = PrivateAffineHullClassifier(
            bounds=BOUNDS, hull_components=3, random_state=0, **settings
        )
        model.fit(ThreadParts(in_parts(table, 3)))
        assert set(model.predict(table)) <= {"no", "yes"}
        assert model.guarantee_.status in ("conditional", "testing")


def test_labels_must_be_listed(table: pd.DataFrame) -> None:
    numbers = table[["age", "income", "bought"]]
    bounds = Bounds(lower=[0, 0], upper=[100, 200])
    with pytest.raises(MissingBoundsError, match="labels listed"):
        Fabricator(bounds=bounds, **LOCAL).fit(ThreadParts(in_parts(numbers, 2)), "bought")
