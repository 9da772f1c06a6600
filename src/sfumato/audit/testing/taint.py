"""The taint test: hold the released values fixed, change the rows, and compare to the bit."""

from __future__ import annotations

import atexit
import contextlib
import io
import logging
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from sfumato.audit.testing.inspection import Description, described, first_difference, saved_bytes
from sfumato.audit.testing.surroundings import Surroundings, is_of_a_library
from sfumato.mechanisms.base import Tape, taped
from sfumato.mechanisms.entropy import seeded
from sfumato.privacy.guarantee import Unit
from sfumato.tables.cells import is_table

Data = tuple[Any, Any]
Seen = tuple["Outcome", Tape, list[dict[str, Description]], bytes]
COMPILED = (".pyc", ".nbi", ".nbc")  # what interpreters and compilers keep of code
WRITING = os.O_WRONLY | os.O_RDWR | os.O_APPEND | os.O_CREAT


def require(holds: bool, sentence: str) -> None:
    """Raise AssertionError with `sentence` unless it holds; unlike assert, never optimised away."""
    if not holds:
        raise AssertionError(sentence)


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

    def run(data: Data, playback: Tape | None = None) -> Seen:
        with seeded(0), taped(playback=playback) as tape:
            outcome = outcome_of(fit, clone(estimator), *data)
        if playback is None:
            around.notice_imports()
        file = b"" if outcome.error is not None else saved_bytes(outcome.result)
        seen = outcome, tape, [described(outcome.result), around.described()], file
        around.restore()
        return seen

    first = _compare(run, data, others)
    for each in first.warnings:  # passed on to the caller
        warnings.warn_explicit(str(each.message), each.category, each.filename, each.lineno)


def _compare(run: Callable[..., Seen], data: Any, others: Iterable[Any]) -> Outcome:
    first, tape, states, file = run(data)
    if first.error is not None:  # equal errors would show nothing
        raise first.error
    require(bool(tape.releases), "Nothing was released through a mechanism.")
    for other in others:
        second, replay, states_then, file_then = run(other, playback=tape)
        said = second.said()
        for way, words in first.said().items():
            require(
                said[way] == words,
                f"The {way} of fit depends on the rows: {words!r} and {said[way]!r}.",
            )
        require(
            first.files == second.files,
            "The content of the files that fit writes depends on the rows.",
        )
        require(
            len(tape.releases) == len(replay.releases),
            "The number of releases depends on the rows.",
        )
        for number, (here, there) in enumerate(zip(tape.releases, replay.releases, strict=True)):
            shapes = [(r.method, r.statistic.shape, r.statistic.dtype.str) for r in (here, there)]
            require(
                shapes[0] == shapes[1],
                f"The form of release {number} depends on the rows: {shapes[0]} and {shapes[1]}.",
            )
            path = f"release[{number}].mechanism"
            _require_equal(described(here.mechanism, path), described(there.mechanism, path))
        for before, after in zip(states, states_then, strict=True):
            _require_equal(before, after)
        require(file == file_then, "The saved file depends on the rows.")
    return first


def _require_equal(before: dict[str, Description], after: dict[str, Description]) -> None:
    if (found := first_difference(before, after)) is not None:
        path, aspect = found
        plain = {"presence": "", "content": "", "order": " in its memory order"}
        shown = plain.get(aspect, f" in its {aspect}")
        raise AssertionError(f"{path} depends on the rows beyond the released values{shown}.")


def compare_tables(run: Callable[[Any], Any], table: Any, others: Iterable[Any]) -> None:
    """Show that nothing but the released values tells a table from its neighbours.

    `run` is called with the table, its releases are recorded, and then with each of the others
    while these releases are played back. Results (models with their saved files, tables with their
    types, texts, bytes), warnings, logs, prints and errors must be equal to the bit.
    """

    def seen(given: Any, playback: Tape | None = None) -> Seen:
        with seeded(0), taped(playback=playback) as tape:
            outcome = outcome_of(run, given)
        results: list[Any] = []
        for each in () if outcome.result is None else outcome.result:
            if is_table(each):  # by its columns
                names = getattr(each, "column_names", None) or list(each.columns)
                columns = [each[name] for name in names]
                types = [str(getattr(column, "dtype", None) or column.type) for column in columns]
                cells = [
                    repr(column.to_list() if hasattr(column, "to_list") else column.to_pylist())
                    for column in columns
                ]
                results.append([type(each).__module__, names, types, cells])
            else:  # a model together with its file
                results.append([each, saved_bytes(each)] if hasattr(each, "guarantee_") else each)
        return outcome, tape, [described(results, "result")], b""

    _compare(seen, table, others)


# All that one fit shows to the outside, besides the model ---------------------------------------


@dataclass
class Outcome:
    """A result, or the error in its place, and what was warned, logged and printed meanwhile."""

    result: Any = None
    error: Exception | None = None
    error_text: str = ""
    warnings: list[warnings.WarningMessage] = field(default_factory=list)
    logged: list[str] = field(default_factory=list)
    printed: str = ""
    filters: list[str] = field(default_factory=list)
    at_exit: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)

    def said(self) -> dict[str, Any]:
        """Everything in words, by the way it was said."""
        return {
            "error": self.error_text,
            "warnings": [f"{w.category.__name__}: {w.message}" for w in self.warnings],
            "log": self.logged,
            "printed text": self.printed,
            "warning filters": self.filters,
            "list of functions at exit": self.at_exit,
        }


def outcome_of(action: Callable[..., Any], *arguments: Any) -> Outcome:
    """Do something, and note what can be seen of it."""
    outcome = Outcome()
    stream = io.StringIO()
    with contextlib.ExitStack() as watched:
        caught = watched.enter_context(warnings.catch_warnings(record=True))
        warnings.simplefilter("always")
        watched.enter_context(_watching(outcome))
        watched.enter_context(contextlib.redirect_stdout(stream))
        watched.enter_context(contextlib.redirect_stderr(stream))
        try:
            outcome.result = action(*arguments)
        except Exception as error:
            outcome.error, outcome.error_text = error, _as_shown(error)
        outcome.filters = [repr(each) for each in warnings.filters]  # put back at the end of `with`
    outcome.warnings = list(caught or ())
    outcome.printed = stream.getvalue()
    return outcome


def _as_shown(error: BaseException) -> str:
    """Type, text and notes of an error, and of the errors that a traceback shows before it."""
    notes = getattr(error, "__notes__", [])
    text = "\n".join([f"{type(error).__qualname__}: {error}", *notes])
    shown = None if error.__suppress_context__ else error.__context__
    earlier = error.__cause__ or shown
    return text if earlier is None else f"{_as_shown(earlier)}\n{text}"


@contextmanager
def _watching(outcome: Outcome) -> Iterator[None]:
    """Note what is logged, registered to run at exit, and written to files."""
    root, handle, register = logging.getLogger(), logging.Logger.handle, atexit.register
    level, disabled = root.level, root.manager.disable
    at_exit: list[Any] = []
    written: set[str] = set()

    def note_log(_: logging.Logger, record: logging.LogRecord) -> None:
        outcome.logged.append(f"{record.name} {record.levelname}: {record.getMessage()}")

    def note_exit(function: Any, *arguments: Any, **options: Any) -> Any:
        if not is_of_a_library(sys._getframe(1).f_globals.get("__name__", "")):
            outcome.at_exit.append(repr(described((function, arguments, options))))
            at_exit.append(function)
        return register(function, *arguments, **options)

    logging.Logger.handle = note_log  # type: ignore[method-assign, assignment]
    atexit.register = note_exit  # type: ignore[assignment]
    root.setLevel(logging.DEBUG)  # whatever handlers a logger and its parents have
    logging.disable(logging.NOTSET)
    _watch_files()
    _written.append(written)
    try:
        yield
    finally:
        logging.Logger.handle = handle  # type: ignore[method-assign]
        atexit.register = register
        root.setLevel(level)
        logging.disable(disabled)
        for function in at_exit:  # it will not run
            atexit.unregister(function)
        _written.remove(written)
        # What stands in the files at the end; their names may differ.
        left = [Path(path) for path in written if not path.endswith(COMPILED)]
        contents = [sha256(each.read_bytes()).hexdigest() for each in left if each.is_file()]
        outcome.files += sorted(contents)


_written: list[set[str]] = []


@cache
def _watch_files() -> None:
    sys.addaudithook(_note_opened)  # which stays forever, so there is one


def _note_opened(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and len(_written) > 0 and isinstance(arguments[0], str):
        path, mode, flags = arguments
        if (flags or 0) & WRITING or (mode or "r") not in ("r", "rb", "rt"):
            for written in _written:
                written.add(os.path.abspath(path))  # noqa: PTH100 - called at any place


def fit(model: Any, X: Any, y: Any) -> Any:
    """Fit with labels where there are any, and with IDs where persons are the unit.

    Each `rows_of_a_person` rows from the first on belong to one person.
    """
    if model.protected_unit is Unit.PERSON:
        return model.fit(X, y, groups=np.arange(len(X)) // rows_of_a_person(model))
    return model.fit(X) if y is None else model.fit(X, y)


def rows_of_a_person(model: Any) -> int:
    """Rows that neighbours differ in: the most of a person, or one."""
    return int(model.bounds.person_rows) if model.protected_unit is Unit.PERSON else 1
