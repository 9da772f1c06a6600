"""Everything that one fit shows to the outside, besides the model: words, and how it ended."""

from __future__ import annotations

import atexit
import contextlib
import functools
import io
import logging
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from sfumato.audit.testing.inspection import described
from sfumato.audit.testing.surroundings import is_of_a_library


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

    def warn_again(self) -> None:
        """Pass the warnings on to whoever asked for the result."""
        for each in self.warnings:
            warnings.warn_explicit(str(each.message), each.category, each.filename, each.lineno)


def outcome_of(action: Callable[..., Any], *arguments: Any) -> Outcome:
    """Do something, and note what can be seen of it."""
    outcome = Outcome()
    stream = io.StringIO()
    with contextlib.ExitStack() as watched:
        caught = watched.enter_context(warnings.catch_warnings(record=True))
        warnings.simplefilter("always")
        watched.enter_context(_noting_logs(outcome.logged))
        watched.enter_context(_noting_exits(outcome.at_exit))
        watched.enter_context(_noting_files(outcome.files))
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
def _noting_logs(lines: list[str]) -> Iterator[None]:
    """Note what any logger handles, whatever its handlers and its parents' are."""
    root, handle = logging.getLogger(), logging.Logger.handle
    level, disabled = root.level, root.manager.disable

    def noting(_: logging.Logger, record: logging.LogRecord) -> None:
        lines.append(f"{record.name} {record.levelname}: {record.getMessage()}")

    logging.Logger.handle = noting  # type: ignore[method-assign, assignment]
    root.setLevel(logging.DEBUG)
    logging.disable(logging.NOTSET)
    try:
        yield
    finally:
        logging.Logger.handle = handle  # type: ignore[method-assign]
        root.setLevel(level)
        logging.disable(disabled)


@contextmanager
def _noting_exits(lines: list[str]) -> Iterator[None]:
    """Note what is to run at exit, but for what libraries ask for; afterwards it will not run."""
    register, noted = atexit.register, []

    def noting(function: Any, *arguments: Any, **options: Any) -> Any:
        if not is_of_a_library(sys._getframe(1).f_globals.get("__name__", "")):
            lines.append(repr(described((function, arguments, options))))
            noted.append(function)
        return register(function, *arguments, **options)

    atexit.register = noting  # type: ignore[assignment]
    try:
        yield
    finally:
        atexit.register = register
        for function in noted:
            atexit.unregister(function)


@contextmanager
def _noting_files(lines: list[str]) -> Iterator[None]:
    """Note what stands at the end in files that were opened for writing; their names may differ."""
    _watch_files()
    written: set[str] = set()
    _written.append(written)
    try:
        yield
    finally:
        _written.remove(written)
        left = [Path(path) for path in written if not path.endswith(COMPILED)]
        lines += sorted(sha256(each.read_bytes()).hexdigest() for each in left if each.is_file())


COMPILED = (".pyc", ".nbi", ".nbc")  # what interpreters and compilers keep of code
WRITING = os.O_WRONLY | os.O_RDWR | os.O_APPEND | os.O_CREAT
_written: list[set[str]] = []


@functools.cache
def _watch_files() -> None:
    sys.addaudithook(_note_opened)  # which stays for ever, so there is one


def _note_opened(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and len(_written) > 0 and isinstance(arguments[0], str):
        path, mode, flags = arguments
        if (flags or 0) & WRITING or (mode or "r") not in ("r", "rb", "rt"):
            for written in _written:
                written.add(os.path.abspath(path))  # noqa: PTH100 - called at any place
