"""Transfer: the source helps, its rows stay where they are, and the promise says what it covers."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits

import sfumato
from sfumato import Bounds, Ledger, PrivateTransferClassifier
from sfumato.audit.testing import seeded_noise
from sfumato.audit.testing.inspection import leaves, unpacked
from sfumato.exceptions import InvalidInputError
from sfumato.mechanisms.base import taped
from sfumato.models.transfer import improve_labels
from sfumato.papers.cdmma.digits import known_labels
from sfumato.privacy.guarantee import Status

# Most targets here are not protected, and `fit` warns of it; one test is about the warning.
pytestmark = pytest.mark.filterwarnings("ignore:The target is not protected")


BALL = Bounds(norm=5.0, labels=range(10))
DEFAULTS: dict[str, Any] = {
    "epsilon": 4.0,
    "delta": 1e-5,
    "n_components": 15,
    "schedule": (5, 10),
    "bounds": BALL,
    "random_state": 0,
}


@pytest.fixture(scope="module")
def digits() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    X, y = load_digits(return_X_y=True)
    X = X / 16
    return X[:1100], y[:1100], X[1100:], y[1100:]


few = partial(known_labels, seed=0)


def model(**parameters: Any) -> PrivateTransferClassifier:
    return PrivateTransferClassifier(**(DEFAULTS | parameters))


Digits = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def test_the_source_matters(digits: Digits) -> None:
    S, s, T, t = digits
    gains = []
    for start in range(2):
        known = known_labels(t, 1, start)
        helped, alone = model(random_state=start), model(random_state=start, use_source=False)
        found = [each.fit_predict(S, s, T, known) for each in (helped, alone)]
        assert helped.start_ == "source"
        assert alone.start_ == "labels"
        right = [np.mean((each == t)[known == -1]) for each in found]
        gains.append(right[0] - right[1])
    assert np.mean(gains) > 0.04
    assert np.mean(helped.predict(T) == t) > 0.85


# The promise --------------------------------------------------------------------------------------


def test_the_guarantee_says_that_the_target_is_not_protected(
    digits: Digits, tmp_path: Path
) -> None:
    S, s, T, t = digits
    fitted = model().fit(S, s)
    assert fitted.guarantee_.status is Status.PROVED
    with pytest.warns(UserWarning, match="target is not protected"):
        fitted.fit(S, s, T, few(t, 1))
    sfumato.save(fitted, tmp_path / "model.sfumato")
    for promised in (fitted.guarantee_, sfumato.load(tmp_path / "model.sfumato").guarantee_):
        assert "target are not protected" in str(promised)
        assert (promised.status, promised.epsilon) == (Status.CONDITIONAL, 4.0)
    assert fitted.source_guarantee_.status is Status.PROVED


def test_neither_rows_nor_labels_of_a_target_are_kept(digits: Digits, tmp_path: Path) -> None:
    S, s, T, t = digits
    S, s, T, t = S[:400], s[:400], T[:150], t[:150]
    fitted = model(target_components=64)
    found = fitted.fit_predict(S, s, T, few(t, 3))
    for path, value in leaves(fitted):
        kept = np.asarray(value)
        assert kept.shape[:1] != (len(T),), path  # one number for each row: labels, folds, errors
        if kept.ndim == 2 and kept.shape[1] == 64:
            nearest = np.abs(kept[:, None, :] - T[None]).max(axis=2).min(axis=1)
            assert np.all(nearest > 1e-6), path
    sfumato.save(fitted, tmp_path / "model.sfumato")
    content = unpacked((tmp_path / "model.sfumato").read_bytes())
    for column in (found, found.astype(np.int8), np.searchsorted(fitted.classes_, found)):
        assert column.tobytes() not in content
    for row in T:
        assert row.tobytes() not in content
        assert row.astype(np.float32).tobytes() not in content


REFUSED_TARGETS = {
    "no labels": ({}, lambda T, t: (T, None)),
    "too few labels": ({}, lambda T, t: (T, t[:5])),
    "a label that is not known": ({}, lambda T, t: (T, np.where(t == 3, 77, t))),
    "unlike features": ({}, lambda T, t: (T[:, :20], t)),
    "alone, without a label": ({"use_source": False}, lambda T, t: (T, np.full(len(t), -1))),
    "one row": ({}, lambda T, t: (T[:1], np.array([-1]))),
    "-1 as a label": (
        {"bounds": Bounds(norm=5.0, labels=[-1, 1])},
        lambda T, t: (T, np.where(t > 4, 1, -1)),
    ),
    "no row": ({}, lambda T, t: (T[:0], t[:0])),
}


@pytest.mark.parametrize("case", REFUSED_TARGETS.values(), ids=REFUSED_TARGETS.keys())
def test_a_target_that_is_refused_costs_the_source_nothing(case: Any, digits: Digits) -> None:
    S, s, T, t = digits
    parameters, change = case
    budget = Ledger().create("source", epsilon=9.0, delta=1e-4)
    with pytest.raises(InvalidInputError):
        model(**parameters, ledger=budget).fit(S, s, *change(T, t))
    assert budget.statement().charges == 0


def test_no_row_of_a_target_can_make_fit_raise(digits: Digits) -> None:
    S, s, T, t = digits
    T, known = T.copy(), few(t, 2)
    T[0], T[2, 3] = np.nan, np.inf
    assert np.mean(model().fit(S, s, T, known).predict(T) == t) > 0.6


def test_the_exported_source_depends_on_released_values_only(
    digits: Digits, tmp_path: Path
) -> None:
    S, s, T, t = digits
    S, s = S[:300], s[:300]
    estimator = model()
    with seeded_noise(0), taped() as tape:
        sfumato.save(clone(estimator).fit(S, s), tmp_path / "one")
    labels = np.roll(s, 7)
    with seeded_noise(0), taped(playback=tape):
        other = clone(estimator).fit(np.flip(S, axis=1) * 0.5, labels, T, few(t, 1))
        sfumato.save(clone(estimator).fit(other), tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    with seeded_noise(1), taped():
        sfumato.save(clone(estimator).fit(S, s), tmp_path / "three")
    assert (tmp_path / "one").read_bytes() != (tmp_path / "three").read_bytes()
    content = unpacked((tmp_path / "one").read_bytes())
    for row in S:
        assert row.tobytes() not in content
        assert row.astype(np.float32).tobytes() not in content


def test_source_and_target_at_different_places(digits: Digits, tmp_path: Path) -> None:
    S, s, T, t = (each[:400] for each in digits)
    known = few(t, 2)
    together = model()
    found = together.fit_predict(S, s, T, known)
    sfumato.save(model().fit(together), tmp_path / "source.sfumato")
    stated = sfumato.load(tmp_path / "source.sfumato").guarantee_
    assert stated == together.source_guarantee_
    apart = model(bounds=None)  # the file has them
    again = apart.fit_predict(tmp_path / "source.sfumato", None, T, known)
    np.testing.assert_array_equal(again, found)
    np.testing.assert_array_equal(apart.predict(T), together.predict(T))
    assert apart.guarantee_ == together.guarantee_
    sfumato.save(apart, tmp_path / "whole.sfumato")
    again = sfumato.load(tmp_path / "whole.sfumato")
    np.testing.assert_array_equal(again.predict(T), apart.predict(T))
    once_more = together.fit(together, None, T, known)
    np.testing.assert_array_equal(once_more.predict(T), apart.predict(T))
    sfumato.save(model(), tmp_path / "unfitted.sfumato")
    with pytest.raises(InvalidInputError, match="must be a fitted"):
        model().fit(tmp_path / "unfitted.sfumato", None, T, known)


def test_a_cross_fitted_label_does_not_see_its_own_row(rng: np.random.Generator) -> None:
    """A label of one row, which the printed update tends to confirm, cannot confirm itself."""
    rows, codes, labelled = rng.normal(size=(80, 6)), rng.integers(4, size=80), np.arange(80) < 12
    seen = []

    def fit(learned: np.ndarray, *_: Any) -> Any:
        known = {row.tobytes() for row in learned}

        def errors(asked: np.ndarray) -> np.ndarray:
            seen.extend(row.tobytes() in known for row in asked)
            return rng.random((len(asked), 4))

        return SimpleNamespace(classes_=np.arange(4), errors=errors)

    for cross_fit in (True, False):
        seen.clear()
        found = improve_labels(fit, rows, codes, labelled, (5, 6), np.random, cross_fit)
        assert seen == [not cross_fit] * 2 * 68
        assert (found[labelled] == codes[labelled]).all()
