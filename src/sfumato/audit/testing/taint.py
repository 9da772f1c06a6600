"""The taint test: hold the released values fixed, change the rows, and compare to the bit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sklearn.base import clone

from sfumato.audit.testing.case import fit
from sfumato.audit.testing.inspection import Description, described, first_difference, saved_bytes
from sfumato.audit.testing.outcome import Outcome, outcome_of
from sfumato.audit.testing.surroundings import Surroundings
from sfumato.mechanisms.base import Tape, taped
from sfumato.mechanisms.entropy import seeded

Data = tuple[Any, Any]
ASPECTS = {"presence": "", "content": "", "order": " in its memory order"}


def taint_test(estimator: Any, X: Any, X_other: Any, y: Any = None, y_other: Any = None) -> None:
    """Show that nothing after the releases reads the rows.

    The estimator is fitted on `X`, `y` with its releases recorded, then on `X_other`, `y_other`
    with the same released values played back. Equal to the bit must then be: all that the model
    holds (type, shape, element type, sign of zero, order of containers, closures, arrays behind
    views), the file that `sfumato.save` writes, what `fit` warns, logs, prints, raises and writes
    to files, the parameters of the mechanisms, and what lives longer than the model: attributes of
    its classes, globals of their modules and of those of Sfumato that these use, default arguments,
    contents of caches, and settings of the process (environment, random states, filters of
    warnings, levels of loggers, mask of new files, functions that run at exit and the like).

    Parameters
    ----------
    estimator : object
        The estimator.
    X : array-like of shape (n_samples, n_features)
        Rows.
    X_other : array-like of shape (n_samples, n_features)
        Other rows; in the same number where that is public, in another one where it is secret.
    y : array-like, optional
        Labels.
    y_other : array-like, optional
        Other labels.

    Raises
    ------
    AssertionError
        Naming what still depends on the rows.

    Notes
    -----
    What an earlier fit of the same process wrote to a class or a module stands there before the
    first of the two fits and is not seen. Time, memory and names of files are not compared.
    """
    compare_replays(estimator, (X, y), [(X_other, y if y_other is None else y_other)])


def compare_replays(estimator: Any, data: Data, others: Iterable[Data]) -> None:
    """Fit once with the releases recorded, and compare with the fit on each of the `others`."""
    around = Surroundings(estimator)
    first = _Fit.of(estimator, *data, around)
    around.restore()
    if first.outcome.error is not None:
        raise first.outcome.error
    first.outcome.warn_again()
    require(bool(first.tape.releases), "Nothing was released through a mechanism.")
    for other in others:
        second = _Fit.of(estimator, *other, around, playback=first.tape)
        around.restore()
        _compare(first, second)


@dataclass
class _Fit:
    """All that can be seen of one fit."""

    outcome: Outcome
    tape: Tape
    model: dict[str, Description]
    around: dict[str, Description]
    file: bytes

    @classmethod
    def of(
        cls, estimator: Any, X: Any, y: Any, around: Surroundings, playback: Tape | None = None
    ) -> _Fit:
        with seeded(0), taped(playback=playback) as tape:
            outcome = outcome_of(fit, clone(estimator), X, y)
        fitted = outcome.result
        if playback is None:
            around.notice_imports()
        file = b"" if outcome.error is not None else saved_bytes(fitted)
        return cls(outcome, tape, described(fitted), around.described(), file)


def _compare(first: _Fit, second: _Fit) -> None:
    for way, words in first.outcome.said().items():
        require(
            second.outcome.said()[way] == words,
            f"The {way} of fit depends on the rows: {words!r} and {second.outcome.said()[way]!r}.",
        )
    require(
        first.outcome.files == second.outcome.files,
        "The content of the files that fit writes depends on the rows.",
    )
    require(
        len(first.tape.releases) == len(second.tape.releases),
        "The number of releases depends on the rows.",
    )
    for number, (here, there) in enumerate(
        zip(first.tape.releases, second.tape.releases, strict=True)
    ):
        shapes = [(r.method, r.statistic.shape, r.statistic.dtype.str) for r in (here, there)]
        require(
            shapes[0] == shapes[1],
            f"The form of release {number} depends on the rows: {shapes[0]} and {shapes[1]}.",
        )
        path = f"release[{number}].mechanism"
        _require_equal(described(here.mechanism, path), described(there.mechanism, path))
    _require_equal(first.model, second.model)
    _require_equal(first.around, second.around)
    require(first.file == second.file, "The saved file depends on the rows.")


def _require_equal(before: dict[str, Description], after: dict[str, Description]) -> None:
    if (found := first_difference(before, after)) is not None:
        path, aspect = found
        shown = ASPECTS.get(aspect, f" in its {aspect}")
        raise AssertionError(f"{path} depends on the rows beyond the released values{shown}.")


def require(holds: bool, sentence: str) -> None:
    """Raise AssertionError with `sentence` unless it holds; unlike assert, never optimised away."""
    if not holds:
        raise AssertionError(sentence)
