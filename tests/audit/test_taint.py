"""The taint test must see every way in which rows can outlive a fit."""

from __future__ import annotations

import atexit
import contextvars
import functools
import gc
import hashlib
import locale
import logging
import math
import mmap
import os
import random
import signal
import struct
import sys
import tempfile
import types
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import polars as pl
import pytest

from sfumato import Bounds, PrivateMoments, PrivatePCA
from sfumato.audit.testing import PrivateCase, contracts as c, inspection, taint_test
from sfumato.audit.testing.inspection import described, first_difference, holds_a_row, leaves
from sfumato.exceptions import InvalidInputError
from sfumato.ledger.receipt import prepay
from sfumato.mechanisms import GaussianMechanism
from tests.honest import BOUNDS, Honest, X, Y

SECRET_COUNT = {"relation": "add_or_remove_one"}
LEFT = Path(tempfile.gettempdir(), f"sfumato-{os.getpid()}.npy")  # by a leak
SEEN: list[Any] = []
LAST: Any = None
SPACE = types.SimpleNamespace(last=None)
BUFFER = np.zeros(3)
CONTEXT: contextvars.ContextVar[Any] = contextvars.ContextVar("leak", default=None)


class Leak(Honest):
    """Each subclass leaks the least it can: one bit of the rows, or their number."""

    settings: ClassVar[dict[str, Any]] = {}


class Slotted:
    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class Count(int):
    """A number that things can hang on."""


@functools.lru_cache(maxsize=8)
def cached(value: object) -> object:
    return value


def kept(value: object, store: list[object] = []) -> None:  # noqa: B006
    store.append(value)


def bit(rows: np.ndarray) -> bool:
    return bool(rows[0, 0] > 0)


def with_attribute(value: Any, name: str, content: Any) -> Any:
    setattr(value, name, content)
    return value


def raised(rows: np.ndarray) -> ValueError:
    """Its traceback leads to the variables of this function."""
    try:
        raise ValueError
    except ValueError as error:
        return error


def annotated(value: Any) -> Any:
    def rule(queries: Any) -> Any:
        return queries

    rule.__annotations__["queries"] = value
    return rule


def class_of_its_own(model: Any, rows: np.ndarray) -> None:
    kind = type(model)
    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    model.__class__ = type(kind.__name__, (kind,), {**names, "rows": rows.mean(axis=0)})


def behind_a_view(rows: np.ndarray) -> np.ndarray:
    whole = rows.mean(axis=0)
    whole[0] = 0.0
    return np.ndarray(whole.shape, buffer=whole, strides=(0,))


def too_deep(value: Any) -> Any:
    for _ in range(inspection.MAX_NESTED + 5):
        value = [value, "deeper"]
    return value


def mapped(content: bytes) -> mmap.mmap:
    memory = mmap.mmap(-1, 64)
    memory.write(content)
    return memory


def log(rows: np.ndarray) -> None:
    logger = logging.getLogger("tests.leak")
    logger.propagate = False
    logger.debug("first number %s", rows[0, 0])


def refuse(rows: np.ndarray) -> None:
    if not bit(rows):
        raise ValueError("the first number is negative")


# What a model keeps of rows
KEPT: dict[str, Callable[[np.ndarray], Any]] = {
    "ElementType": lambda r: np.empty(0, dtype=np.float32 if bit(r) else np.float64),
    "MemoryOrder": lambda r: np.zeros((3, 3), order="F" if bit(r) else "C"),
    "SignOfZero": lambda r: math.copysign(0.0, r[0, 0]),
    "SignOfZeroInAnArray": lambda r: np.copysign(np.zeros(2), r[0, 0]),
    "PayloadOfNaN": lambda r: struct.unpack(">d", bytes.fromhex(f"7ff800000000000{bit(r):d}"))[0],
    "PythonType": lambda r: 1 if bit(r) else True,
    "TypeOfContainer": lambda r: [1, 2] if bit(r) else (1, 2),
    "OrderOfKeys": lambda r: {"a": 1, "b": 2} if bit(r) else {"b": 2, "a": 1},
    "SetOfLabels": lambda r: {1, 2, 3 + bit(r)},
    "View": lambda r: np.concatenate([np.zeros(2), r.mean(axis=0)])[:2],
    "Slots": lambda r: Slotted(bit(r)),
    "Closure": lambda r: (lambda mean: lambda queries: queries @ mean)(r.mean(axis=0)),
    "Partial": lambda r: functools.partial(np.add, float(r[0, 0])),
    "ChoiceOfFunction": lambda r: abs if bit(r) else math.floor,
    "Iterators": lambda r: iter(r[0].tolist()),
    "Frame": lambda r: pd.DataFrame({"a": r[:2, 0]}),
    "PolarsFrame": lambda r: pl.DataFrame({"a": [bit(r)]}),
    "HiddenClass": lambda r: type("Kind", (), {"rows": r.mean(axis=0)}),
    "MetadataOfElementType": lambda r: np.zeros(2, np.dtype(float, metadata={"bit": bit(r)})),
    "AttributeOfANumber": lambda r: with_attribute(Count(3), "rows", r.mean(axis=0)),
    "UnderAMask": lambda r: np.ma.MaskedArray(r.mean(axis=0), mask=True),
    "BehindAViewOfTheSameSize": behind_a_view,
    "MappedMemory": lambda r: mapped(r[0].tobytes()),
    "HashOfRows": lambda r: hashlib.sha256(r.tobytes()),
    "ConstantInCode": lambda r: eval(f"lambda: {bit(r)}"),
    "ModuleOfItsOwn": lambda r: with_attribute(types.ModuleType("rows"), "rows", r.mean(axis=0)),
    "KeptError": lambda r: raised(r),
    "KeptFrame": lambda r: sys._getframe(),
    "NameInCode": lambda r: types.FunctionType(
        (lambda: 1).__code__.replace(co_name=f"rule{bit(r):d}"), globals()
    ),
    "Annotation": lambda r: annotated(bit(r)),
    "GlobalsOfItsOwn": lambda r: types.FunctionType((lambda: LAST).__code__, {"LAST": bit(r)}),
    "TooDeep": lambda r: too_deep(r.mean(axis=0)),
    "ConstantColumns": lambda r: np.ptp(r, axis=0) == 0,
    "EqualColumns": lambda r: bool(np.array_equal(r[:, -1], r[:, -2])),
}
# What it leaves elsewhere, by the model and the rows
LEFT_BEHIND: dict[str, Callable[[Any, np.ndarray], Any]] = {
    "NameOfAttribute": lambda m, r: setattr(m, f"found_{bit(r):d}_", None),
    "ClassOfItsOwn": class_of_its_own,
    "OnTheClass": lambda m, r: setattr(type(m), "rows_seen", r),
    "OnTheClassOnce": lambda m, r: (
        None if "count" in vars(type(m)) else setattr(type(m), "count", bit(r))
    ),
    "OnABaseClass": lambda m, r: setattr(Leak, "seen", bit(r)),
    "InTheDocstring": lambda m, r: setattr(type(m), "__doc__", str(bit(r))),
    "InAGlobalList": lambda m, r: SEEN.append(bit(r)),
    "InAGlobal": lambda m, r: globals().update(LAST=bit(r)),
    "InAGlobalOnce": lambda m, r: globals().update(LAST=bit(r) if LAST is None else LAST),
    "InAGlobalNamespace": lambda m, r: setattr(SPACE, "last", r.mean()),
    "InAGlobalArray": lambda m, r: np.copyto(BUFFER, r[0]),
    "InAContext": lambda m, r: CONTEXT.set(bit(r)),
    "InAModuleOfSfumato": lambda m, r: setattr(
        sys.modules["sfumato.models.moments"], "last_rows", r
    ),
    "InACache": lambda m, r: cached(r.tobytes()),
    "InADefault": lambda m, r: kept(bit(r)),
    "InAWarning": lambda m, r: warnings.warn(f"the first number is {r[0, 0]}", stacklevel=2),
    "WarnsOfSomeRows": lambda m, r: warnings.warn("positive", stacklevel=2) if bit(r) else None,
    "InALog": lambda m, r: log(r),
    "Printed": lambda m, r: print(r[0, 0]),  # noqa: T201
    "RaisesForSomeRows": lambda m, r: refuse(r),
    "RegistryOfWarnings": lambda m, r: (
        globals()
        .setdefault("__warningregistry__", {})
        .update({("positive" if bit(r) else "negative", UserWarning, 1): True})
    ),
    "InTheEnvironment": lambda m, r: os.environ.update(SFUMATO_LEAK=str(bit(r))),
    "InAForeignModule": lambda m, r: setattr(sys, "rows", r.mean(axis=0)),
    "AtExit": lambda m, r: atexit.register(len, "a row was positive") if bit(r) else None,
    "Umask": lambda m, r: os.umask(0o027 if bit(r) else 0o022),
    "LevelOfALogger": lambda m, r: logging.getLogger("tests.level").setLevel(10 + 10 * bit(r)),
    "FilterOfWarnings": lambda m, r: (
        warnings.filterwarnings("ignore", "positive") if bit(r) else None
    ),
    "SeedOfNumPy": lambda m, r: np.random.seed(int(bit(r))),  # noqa: NPY002
    "DrawsOfNumPy": lambda m, r: np.random.uniform(size=int(np.sum(r[:, 0] > 0))),  # noqa: NPY002
    "SeedOfPython": lambda m, r: random.seed(int(bit(r))),
    "Printing": lambda m, r: np.set_printoptions(precision=5 + bit(r)),
    "Recursion": lambda m, r: sys.setrecursionlimit(3000 + bit(r)),
    "Garbage": lambda m, r: gc.set_threshold(700 + bit(r)),
    "Locale": lambda m, r: locale.setlocale(locale.LC_ALL, "C.UTF-8" if bit(r) else "C"),
    "ContentOfAFile": lambda m, r: np.save(LEFT, r),
    "HandlerOfASignal": lambda m, r: signal.signal(
        signal.SIGUSR1, signal.SIG_IGN if bit(r) else signal.SIG_DFL
    ),
    "Hook": lambda m, r: setattr(sys, "excepthook", (lambda b: lambda *_: b)(bit(r))),
    "PathOfModules": lambda m, r: sys.path.append(f"/nowhere/{bit(r):d}"),
    "Digits": lambda m, r: sys.set_int_max_str_digits(5000 + bit(r)),
    "Switching": lambda m, r: sys.setswitchinterval(0.01 * (1 + bit(r))),
    "LastError": lambda m, r: setattr(sys, "last_value", raised(r)),
}
# The secret number of rows
NUMBERS: dict[str, Callable[[Any, np.ndarray], Any]] = {
    "Shape": lambda m, r: setattr(m, "empty_", np.empty((len(r), 0))),
    "NumberOfRows": lambda m, r: setattr(m, "n_rows_", len(r)),
    "CountInACache": lambda m, r: cached(len(r)),
}


def define(name: str, after: Callable[[Any, np.ndarray], Any], settings: dict[str, Any]) -> None:
    names = {"after": after, "settings": settings, "__module__": __name__}
    globals()[name] = type(name, (Leak,), names)


for _name, _of in KEPT.items():
    define(_name, lambda m, r, of=_of: setattr(m, "kept_", of(r)), {})
for _name, _leave in LEFT_BEHIND.items():
    define(_name, _leave, {})
for _name, _leave in NUMBERS.items():
    define(_name, _leave, SECRET_COUNT)


class InAListOfTheClass(Leak):
    seen: ClassVar[list[Any]] = []

    def after(self, rows: np.ndarray) -> None:
        self.seen.append(bit(rows))


class CachedMethod(Leak):
    @functools.cache  # noqa: B019
    def remembered(self, value: float) -> float:
        return value

    def after(self, rows: np.ndarray) -> None:
        self.remembered(float(rows[0, 0]))


class TypeOfTheTable(Leak):
    def _check_rows(self, X: Any, *, reset: bool = True) -> np.ndarray:
        self.kind_ = np.asarray(X).dtype.str
        return super()._check_rows(X, reset=reset)


class WhetherARowWasClipped(Leak):
    def _check_rows(self, X: Any, *, reset: bool = True) -> np.ndarray:
        cells = np.asarray(X)
        self.clipped_ = cells.dtype == float and bool(np.any(np.abs(cells) > 1))
        return super()._check_rows(X, reset=reset)


def larger(statistic: np.ndarray) -> bool:
    return bool(statistic[0, 0] > statistic[2, 2])


class NumberOfReleases(Leak):
    def pay(self, mechanism: Any) -> Any:
        return prepay(None, mechanism.event(), mechanism.event())

    def release(self, mechanism: Any, statistic: np.ndarray, receipt: Any) -> np.ndarray:
        released = super().release(mechanism, statistic, receipt)
        return super().release(mechanism, statistic, receipt) if larger(statistic) else released


class ScaleOfTheNoise(Leak):
    def release(self, mechanism: Any, statistic: np.ndarray, receipt: Any) -> np.ndarray:
        other = GaussianMechanism(mechanism.sensitivity * (1 + larger(statistic)), 1.0)
        return super().release(other, statistic, None)


class ShapeOfTheStatistic(Leak):
    def release(self, mechanism: Any, statistic: np.ndarray, receipt: Any) -> np.ndarray:
        if larger(statistic):
            statistic = np.pad(statistic, (0, 1))
        return super().release(mechanism, statistic, receipt)[:2, :2]


def leak(name: str, **settings: Any) -> Leak:
    found: Leak = globals()[name](2, bounds=BOUNDS, **settings)
    return found


def process() -> tuple[Any, ...]:
    mask = os.umask(0o077)
    os.umask(mask)
    state = np.random.get_state()  # noqa: NPY002
    return (
        *(mask, random.getstate(), state[1].tolist(), state[2], np.get_printoptions()),
        *(sys.getrecursionlimit(), gc.get_threshold(), signal.getsignal(signal.SIGUSR1)),
        *(sys.excepthook, list(sys.path), sys.get_int_max_str_digits(), sys.getswitchinterval()),
        *(locale.setlocale(locale.LC_ALL), list(warnings.filters), LAST, list(SEEN), BUFFER.any()),
        *("rows_seen" in vars(globals()["OnTheClass"]), "SFUMATO_LEAK" in os.environ),
    )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [kind.__name__ for kind in Leak.__subclasses__()])
def test_a_leak_is_caught_and_put_back(name: str) -> None:
    before = process()
    with pytest.raises(AssertionError, match=r"depends? on the rows"):
        c.check_taint(PrivateCase(leak(name, **globals()[name].settings), X))
    assert process() == before  # or the next contract would meet it
    LEFT.unlink(missing_ok=True)


class HonestUnderRemoval(Honest):
    """With the sensitivity of one row added or removed."""

    sensitivity = 1.0


def test_an_honest_estimator_passes() -> None:
    class CachesPublicFacts(Honest):
        def after(self, rows: np.ndarray) -> None:
            cached(rows.shape[1])

    for model in (Honest(2, bounds=BOUNDS), CachesPublicFacts(2, bounds=BOUNDS)):
        c.check_taint(PrivateCase(model, X))
    c.check_taint(PrivateCase(HonestUnderRemoval(2, bounds=BOUNDS, **SECRET_COUNT), X))
    for name in ("NumberOfRows", "Shape"):  # where it is public it may be kept
        taint_test(leak(name), X, -X)


def test_bytes_of_the_file_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    save, kept_aside = inspection.save, []

    def save_with_more(model: Any, path: Path) -> None:
        save(model, path)
        with path.open("ab") as file:
            file.write(kept_aside[-1])

    check = PrivateMoments._checked_rows

    def remembering(self: Any, X: Any, *, reset: bool = True) -> np.ndarray:
        rows = check(self, X, reset=reset)
        kept_aside.append(rows[0].tobytes())
        return rows

    monkeypatch.setattr(PrivateMoments, "_checked_rows", remembering)
    monkeypatch.setattr(inspection, "save", save_with_more)
    case = PrivateCase(PrivateMoments(bounds=Bounds(norm=1.0, labels=[0, 1])), X, Y)
    with pytest.raises(AssertionError, match="file"):
        c.check_taint(case)


class TellsOnRefusal(Honest):
    def _check_rows(self, X: Any, *, reset: bool = True) -> np.ndarray:
        try:
            return super()._check_rows(X, reset=reset)
        except ValueError as error:
            raise InvalidInputError(f"{error} The first cell is {np.ravel(X)[0]}.") from None


class TellsInTheCause(Honest):
    def _check_rows(self, X: Any, *, reset: bool = True) -> np.ndarray:
        try:
            return np.asarray(X, dtype=float) + np.zeros((1, 3))
        except ValueError as error:
            raise InvalidInputError("The rows were refused.") from error


class ChoosesTheError(Honest):
    def _check_rows(self, X: Any, *, reset: bool = True) -> np.ndarray:
        if np.ndim(X) == 1:
            raise (InvalidInputError if X[0] > 0 else TypeError)("The rows were refused.")
        return super()._check_rows(X, reset=reset)


class SpeaksOfMissing(Honest):
    def _check_rows(self, X: Any, *, reset: bool = True) -> np.ndarray:
        if np.asarray(X).dtype == float and np.isnan(X).any():
            logging.getLogger("tests.leak").info("a missing number")
        return super()._check_rows(X, reset=reset)


def test_errors_and_words_that_tell_are_caught() -> None:
    honest = PrivateCase(Honest(2, bounds=BOUNDS), X)
    c.check_errors_tell_nothing(honest)
    for broken in (TellsOnRefusal, TellsInTheCause, ChoosesTheError):
        with pytest.raises(AssertionError, match="error of fit"):
            c.check_errors_tell_nothing(PrivateCase(broken(2, bounds=BOUNDS), X))
    c.check_bad_rows_do_not_raise(honest)
    with pytest.raises(AssertionError, match="nan changes what fit says"):
        c.check_bad_rows_do_not_raise(PrivateCase(SpeaksOfMissing(2, bounds=BOUNDS), X))


def test_rows_are_found_wherever_they_hide() -> None:
    rows = X.copy()
    for hidden in (
        {"a": [rows[3].tolist()]},
        rows.astype(np.float32)[2:4],
        (tuple(rows[5]),),
        lambda q: q @ rows.T,
        functools.partial(np.add, rows),
        rows.tobytes(),
        rows[0, :1],
        pd.DataFrame(rows),
    ):
        assert any(holds_a_row(value, X) for _, value in leaves(hidden)), hidden
    assert not any(holds_a_row(value, X) for _, value in leaves({"a": np.ones(3), "b": [1, 2, 3]}))


def test_differences_are_named() -> None:
    loop: list[Any] = [object()]
    loop.append(loop)
    for a, b, found in (
        (np.zeros(2), np.zeros((2, 1)), ("model", "shape")),
        (np.zeros(2), np.zeros(2, dtype=np.int64), ("model", "dtype")),
        (0.0, -0.0, ("model", "content")),
        ([1], (1,), ("model", "type")),
        ({"a": 0.0}, {"a": 0.0, "b": 1}, ("model", "content")),
        ({"a": np.ones(2)}, {"a": np.zeros(2)}, ("model['a']", "content")),
        (X, X.copy(), None),
        (loop, loop, None),
    ):
        assert first_difference(described(a), described(b)) == found


@pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])
def test_frames_of_columns_are_no_way_out(library: types.ModuleType) -> None:
    def frame(rows: np.ndarray) -> Any:
        return library.DataFrame({f"c{i}": column for i, column in enumerate(rows.T)})

    for model in (PrivatePCA(2, bounds=BOUNDS), PrivateMoments(bounds=BOUNDS)):
        taint_test(model, frame(X), frame(-X))
    for name in ("OnTheClass", "View", "SignOfZero"):
        with pytest.raises(AssertionError, match="depends on the rows"):
            taint_test(leak(name), frame(X), frame(-X))


def test_noise_and_releases_are_checked_by_name() -> None:
    with pytest.raises(AssertionError, match="number of releases"):
        taint_test(leak("NumberOfReleases"), X[:, ::-1], X)
    with pytest.raises(AssertionError, match=r"release\[0\].mechanism"):
        taint_test(leak("ScaleOfTheNoise"), X, X[:, ::-1])
