"""What outlives a model: attributes of its classes, globals, caches, settings of the process."""

from __future__ import annotations

import builtins
import decimal
import enum
import functools
import gc
import inspect
import locale
import logging
import os
import random
import signal
import sys
import threading
import types
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import sklearn

from sfumato.audit.testing.inspection import Description, described, description

NESTED = 8  # how far values of globals are followed
PACKAGE = "sfumato"
# Libraries whose objects hold data; those of others are constants of theirs, such as distributions.
KEEPERS = {"builtins", "collections", "functools", "types", "array", "weakref", "queue", "io"}
KEEPERS |= {"_io", "_thread", "_contextvars", "numpy", "pandas", "polars", "pyarrow", "torch"}
FOREIGN = {"sklearn", "scipy", "sqlalchemy", "mpmath", "typer", "rich", "click"} | KEEPERS
SHARED = (sys, builtins, os, np, sklearn)  # where a name could be left for others
# Kept by the interpreter itself, or the place of a module.
UNWATCHED = {"__dict__", "__weakref__", "__module__", "__builtins__", "__warningregistry__"}
UNWATCHED |= {"__loader__", "__spec__", "__cached__", "__file__", "__path__", "__package__"}
UNWATCHED |= {"__all__", "__match_args__", "__dataclass_fields__", "__dataclass_params__"}
# Where seeded noise comes from: how far it was drawn differs between a fit and its replay.
NOISE_SOURCE = ("sfumato.mechanisms.entropy", "_source")
# Handlers that Python can put back; the others cannot be set.
SIGNALS = sorted(signal.valid_signals() & set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP})
FIXED = (int, float, complex, str, bytes, type, type(None), enum.Enum, frozenset)
SINGLE = {int, float, complex, bool, str, bytes, type(None)}  # without parts
Owner = type | types.ModuleType


class Surroundings:
    """The classes of an estimator, their modules, and the modules of Sfumato that these use.

    model: The estimator whose surroundings are looked at.
    """

    def __init__(self, model: object) -> None:
        self.classes = [
            kind for kind in type(model).__mro__ if not is_of_a_library(kind.__module__)
        ]
        self._names = [(module, set(vars(module))) for module in SHARED]
        self._imported = set(sys.modules)
        self._settings = {name: read() for name, (read, _) in _process().items()}
        self.notice_imports()
        self._found = self._variables()
        self._kept = [
            (owner, name, value, _putting_back(value)) for owner, name, value in self._found
        ]

    def notice_imports(self) -> None:
        """Look at modules too that were imported meanwhile."""
        found = {kind.__module__ for kind in self.classes}
        waiting = list(found)
        while waiting:
            used = _modules_used_by(waiting.pop()) - found
            found |= used
            waiting += used
        found |= self._made_up()
        self.modules = [sys.modules[name] for name in sorted(found) if name in sys.modules]

    def described(self) -> dict[str, Description]:
        """Describe everything to the bit, by the path where it is found."""
        found: dict[str, Description] = {}
        for module, name in self._left_behind():
            path = f"{module.__name__}.{name}"
            found |= described(vars(module)[name], path, NESTED)
        settings = {name: read() for name, (read, _) in _process().items()}
        found |= described(settings, "settings", NESTED)
        # What modules know of warnings that were given; how often filters changed is no matter
        known = {each.__name__: vars(each).get("__warningregistry__", {}) for each in self.modules}
        registries = {name: [k for k in each if k != "version"] for name, each in known.items()}
        found |= described(registries, "registries of warnings", NESTED)
        self._found = self._variables()
        for owner, name, value in self._found:
            home = f"{owner.__module__}.{owner.__qualname__}" if isinstance(owner, type) else ""
            path = f"{home or owner.__name__}.{name}"
            if type(value) in SINGLE:
                found[path] = description(value)
            else:
                found |= described(value, path, NESTED)
        return found

    def restore(self) -> None:
        """Put back names and contents of containers, among what was described last."""
        known = {(id(owner), name) for owner, name, _, _ in self._kept}
        for owner, name, _ in self._found:
            if (id(owner), name) not in known:
                delattr(owner, name)
        for owner, name, value, refill in self._kept:
            if vars(owner).get(name) is not value:
                setattr(owner, name, value)
            refill()
        for module, name in self._left_behind():
            delattr(module, name)
        for name in self._made_up():
            del sys.modules[name]
        for name, (_, put_back) in _process().items():
            put_back(self._settings[name])

    def _made_up(self) -> set[str]:
        """Names of new modules that come from no file."""
        new = set(sys.modules) - self._imported
        return {name for name in new if getattr(sys.modules[name], "__spec__", None) is None}

    def _left_behind(self) -> list[tuple[types.ModuleType, str]]:
        return [
            (module, name)
            for module, before in self._names
            for name in sorted(set(vars(module)) - before)
            if not isinstance(vars(module)[name], types.ModuleType)
        ]

    def _variables(self) -> list[tuple[Owner, str, Any]]:
        """Everything that can hold a value, and is not defined elsewhere."""
        found, seen = [], set()
        waiting: list[Owner] = [*self.classes, *self.modules]
        while waiting:
            owner = waiting.pop()
            if id(owner) in seen:
                continue
            seen.add(id(owner))
            with suppress(Exception):  # Python 3.14 makes them, and keeps them, when first read
                _ = owner.__annotations__
            home = owner.__module__ if isinstance(owner, type) else owner.__name__
            for name, value in list(vars(owner).items()):
                is_at_home = getattr(value, "__module__", None) == home
                if isinstance(value, type) and is_at_home:
                    waiting.append(value)
                elif (owner.__name__, name) != NOISE_SOURCE and _can_hold(name, value, is_at_home):
                    found.append((owner, name, value))
        return found


def _modules_used_by(name: str) -> set[str]:
    """Modules of Sfumato from which a module has imported something, at once or in a function."""
    values = list(vars(sys.modules[name]).values()) if name in sys.modules else []
    homes = {
        value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", "")
        for value in values
    }
    homes |= {each for value in values for each in _imported_in(value, name)}
    return {home for home in homes if isinstance(home, str) and home.startswith(f"{PACKAGE}.")}


def _imported_in(value: Any, home: str) -> set[str]:
    """Names of modules that the functions of a module import when they are called."""
    value = value.fget if isinstance(value, property) else value
    if getattr(value, "__module__", None) != home:
        return set()
    if isinstance(value, type):
        return {each for member in vars(value).values() for each in _imported_in(member, home)}
    code = getattr(inspect.unwrap(value) if callable(value) else value, "__code__", None)
    return {each for each in getattr(code, "co_names", ()) if each in sys.modules}


def _environ(values: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(values)


def _logger_settings(put_back: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return settings of all loggers but those of Dask, whose threads change them at any time."""
    loggers = {"": logging.root, **logging.root.manager.loggerDict}
    found = {}
    for name, each in loggers.items():
        if isinstance(each, logging.Logger) and not name.startswith("distributed"):
            if put_back is not None and name in put_back:
                each.level, each.disabled, each.propagate = put_back[name][:3]
            attached = len(each.handlers), len(each.filters)
            found[name] = each.level, each.disabled, each.propagate, *attached
    if put_back is not None:
        logging.disable(logging.root.manager.disable)  # forgets the levels that loggers remember
    return found


def _umask() -> int:
    """Read the mask of new files, which can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _signals(handlers: dict[str, Any]) -> None:
    if threading.current_thread() is threading.main_thread():
        for name, handler in handlers.items():
            if signal.getsignal(signal.Signals[name]) is not handler:
                signal.signal(signal.Signals[name], handler)


def _process() -> dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]]:
    """What a fit could set for the whole process: how it is read, and how it is put back."""
    return {
        "environment": (lambda: dict(os.environ), _environ),
        "directory": (lambda: str(Path.cwd()), os.chdir),
        "numpy errors": (np.geterr, lambda v: np.seterr(**v)),
        "numpy printing": (np.get_printoptions, lambda v: np.set_printoptions(**v)),
        "numpy random": (lambda: np.random.get_state(legacy=False), np.random.set_state),  # noqa: NPY002
        "python random": (random.getstate, random.setstate),
        "decimal": (lambda: decimal.getcontext().copy(), lambda v: decimal.setcontext(v.copy())),
        "sklearn": (sklearn.get_config, lambda v: sklearn.set_config(**v)),
        "loggers": (_logger_settings, _logger_settings),
        "umask": (_umask, os.umask),
        "locale": (
            lambda: locale.setlocale(locale.LC_ALL),
            lambda v: locale.setlocale(locale.LC_ALL, v),
        ),
        "recursion": (sys.getrecursionlimit, sys.setrecursionlimit),
        "garbage": (gc.isenabled, lambda v: gc.enable() if v else gc.disable()),
        "garbage thresholds": (gc.get_threshold, lambda v: gc.set_threshold(*v)),
        "thread": (
            lambda: threading.current_thread().name,
            lambda v: setattr(threading.current_thread(), "name", v),
        ),
        "path": (lambda: list(sys.path), lambda v: sys.path.__setitem__(slice(None), v)),
        "digits": (sys.get_int_max_str_digits, sys.set_int_max_str_digits),
        "switching": (sys.getswitchinterval, sys.setswitchinterval),
        **{
            name: (lambda n=name: getattr(sys, n), lambda v, n=name: setattr(sys, n, v))  # type: ignore[misc]
            for name in ("excepthook", "displayhook", "unraisablehook")
        },
        "signals": (lambda: {n.name: signal.getsignal(n) for n in SIGNALS}, _signals),
    }


def is_of_a_library(module: str) -> bool:
    """Whether a module is one of Python or of a library that holds no rows."""
    root = module.partition(".")[0]
    return root in FOREIGN or (root in sys.stdlib_module_names and root != "__main__")


def _can_hold(name: str, value: Any, is_at_home: bool) -> bool:
    if isinstance(value, types.FunctionType):
        return is_at_home and not _is_fixed(value)
    if name in UNWATCHED or name.startswith("_abc_") or isinstance(value, type | types.ModuleType):
        return False
    if isinstance(value, staticmethod | classmethod):
        return not _is_fixed(value.__func__)
    if isinstance(value, property):
        accessors = (value.fget, value.fset, value.fdel)
        return not all(each is None or _is_fixed(each) for each in accessors)
    root = type(value).__module__.partition(".")[0]
    return root in KEEPERS or not is_of_a_library(root)


def _is_fixed(function: Any) -> bool:
    """Whether a function has nothing that a call of it could change."""
    if not isinstance(function, types.FunctionType):
        return False
    inner = []
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # not filled
            inner.append(cell.cell_contents)
    defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    return (
        all(isinstance(value, FIXED) for value in defaults)
        and not (function.__dict__.keys() - {"__wrapped__"})
        and all(isinstance(value, FIXED) or _is_fixed(value) for value in inner)
    )


def _putting_back(value: Any) -> Callable[[], None]:
    """Return a function that puts the present content back into a container."""
    if isinstance(value, np.ndarray) and value.flags.writeable:
        return functools.partial(np.copyto, value, value.copy())
    if type(value) not in {dict, set, list, deque}:
        return lambda: None
    content = value.copy()
    fill = value.extend if type(value) in {list, deque} else value.update

    def items(container: Any) -> list[Any]:
        if isinstance(container, dict):
            return [(id(key), id(each)) for key, each in container.items()]
        return [id(item) for item in container]

    def refill() -> None:
        if items(value) != items(content):
            value.clear()
            fill(content)

    return refill
