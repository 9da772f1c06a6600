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
HOOKS = ("excepthook", "displayhook", "unraisablehook")
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
        self._settings = _settings()
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
        new = set(sys.modules) - self._imported
        found |= {name for name in new if _is_made_up(sys.modules[name])}
        self.modules = [sys.modules[name] for name in sorted(found) if name in sys.modules]

    def described(self) -> dict[str, Description]:
        """Describe everything to the bit, by the path where it is found."""
        found: dict[str, Description] = {}
        for module, name in self._left_behind():
            path = f"{module.__name__}.{name}"
            found |= described(vars(module)[name], path, NESTED)
        found |= described(_settings(), "settings", NESTED)
        found |= described(self._registries(), "registries of warnings", NESTED)
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
        for name in {n for n in set(sys.modules) - self._imported if _is_made_up(sys.modules[n])}:
            del sys.modules[name]
        _set(self._settings)

    def _registries(self) -> dict[str, list[Any]]:
        """What modules know of warnings that were given; how often filters changed is no matter."""
        known = {each.__name__: vars(each).get("__warningregistry__", {}) for each in self.modules}
        return {
            name: [key for key in registry if key != "version"] for name, registry in known.items()
        }

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
            for name, value in list(vars(owner).items()):
                if isinstance(value, type) and _is_at_home(value, owner):
                    waiting.append(value)
                elif (owner.__name__, name) != NOISE_SOURCE and _can_hold_a_value(
                    name, value, owner
                ):
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


def _settings() -> dict[str, Any]:
    """What a fit could set for the whole process."""
    return {
        "environment": dict(os.environ),
        "directory": str(Path.cwd()),
        "numpy errors": np.geterr(),
        "numpy printing": np.get_printoptions(),
        "numpy random": np.random.get_state(legacy=False),  # noqa: NPY002
        "python random": random.getstate(),
        "decimal": decimal.getcontext().copy(),
        "sklearn": sklearn.get_config(),
        "loggers": {name: _logger_settings(each) for name, each in _loggers().items()},
        "umask": _umask(),
        "locale": locale.setlocale(locale.LC_ALL),
        "recursion": sys.getrecursionlimit(),
        "garbage": (gc.isenabled(), gc.get_threshold()),
        "thread": threading.current_thread().name,
        "path": list(sys.path),
        "digits": sys.get_int_max_str_digits(),
        "switching": sys.getswitchinterval(),
        "hooks": [getattr(sys, name) for name in HOOKS],
        "signals": {number.name: signal.getsignal(number) for number in SIGNALS},
    }


def _set(settings: dict[str, Any]) -> None:
    os.environ.clear()
    os.environ.update(settings["environment"])
    os.chdir(settings["directory"])
    np.seterr(**settings["numpy errors"])
    np.set_printoptions(**settings["numpy printing"])
    np.random.set_state(settings["numpy random"])  # noqa: NPY002
    random.setstate(settings["python random"])
    decimal.setcontext(settings["decimal"].copy())
    sklearn.set_config(**settings["sklearn"])
    for name, logger in _loggers().items():
        if name in settings["loggers"]:
            logger.level, logger.disabled, logger.propagate = settings["loggers"][name][:3]
    logging.disable(logging.root.manager.disable)  # forgets the levels that loggers remember
    os.umask(settings["umask"])
    locale.setlocale(locale.LC_ALL, settings["locale"])
    sys.setrecursionlimit(settings["recursion"])
    (gc.enable if settings["garbage"][0] else gc.disable)()
    gc.set_threshold(*settings["garbage"][1])
    threading.current_thread().name = settings["thread"]
    sys.path[:] = settings["path"]
    sys.set_int_max_str_digits(settings["digits"])
    sys.setswitchinterval(settings["switching"])
    for name, hook in zip(HOOKS, settings["hooks"], strict=True):
        setattr(sys, name, hook)
    if threading.current_thread() is threading.main_thread():
        for name, handler in settings["signals"].items():
            if signal.getsignal(signal.Signals[name]) is not handler:
                signal.signal(signal.Signals[name], handler)


def _loggers() -> dict[str, logging.Logger]:
    """Return all loggers but those of Dask, whose threads change them at any time."""
    named = logging.root.manager.loggerDict.items()
    return {"": logging.root} | {
        name: each
        for name, each in named
        if isinstance(each, logging.Logger) and not name.startswith("distributed")
    }


def _logger_settings(logger: logging.Logger) -> tuple[Any, ...]:
    attached = len(logger.handlers), len(logger.filters)
    return logger.level, logger.disabled, logger.propagate, *attached


def _umask() -> int:
    """Read the mask of new files, which can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _is_made_up(module: types.ModuleType) -> bool:
    return getattr(module, "__spec__", None) is None


def is_of_a_library(module: str) -> bool:
    """Whether a module is one of Python or of a library that holds no rows."""
    root = module.partition(".")[0]
    return root in FOREIGN or (root in sys.stdlib_module_names and root != "__main__")


def _is_at_home(value: Any, owner: Owner) -> bool:
    home = owner.__module__ if isinstance(owner, type) else owner.__name__
    return getattr(value, "__module__", None) == home


def _can_hold_a_value(name: str, value: Any, owner: Owner) -> bool:
    if isinstance(value, types.FunctionType):
        return _is_at_home(value, owner) and not _is_fixed(value)
    if name in UNWATCHED or name.startswith("_abc_"):
        return False
    if isinstance(value, type | types.ModuleType):
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
    cells = [cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell)]
    defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    inner = [value for value in cells if not isinstance(value, FIXED)]
    return (
        all(isinstance(value, FIXED) for value in defaults)
        and not (function.__dict__.keys() - {"__wrapped__"})
        and all(_is_fixed(value) for value in inner)
    )


def _is_filled(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False


def _putting_back(value: Any) -> Callable[[], None]:
    """Return a function that puts the present content back into a container."""
    if type(value) is dict:
        return functools.partial(_refill, value, value.update, dict(value))
    if type(value) is set:
        return functools.partial(_refill, value, value.update, set(value))
    if type(value) in {list, deque}:
        return functools.partial(_refill, value, value.extend, list(value))
    if isinstance(value, np.ndarray) and value.flags.writeable:
        return functools.partial(np.copyto, value, value.copy())
    return lambda: None


def _refill(container: Any, fill: Callable[[Any], None], content: Any) -> None:
    if _identities(container) != _identities(content):
        container.clear()
        fill(content)


def _identities(container: Any) -> list[Any]:
    if isinstance(container, dict):
        return [(id(key), id(value)) for key, value in container.items()]
    return [id(item) for item in container]
