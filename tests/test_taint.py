"""The taint test must see every way in which rows can outlive a fit."""

from __future__ import annotations

import contextvars
import functools
import hashlib
import logging
import math
import mmap
import os
import struct
import sys
import types
import warnings
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
import polars as pl
import pytest

from sfumato import Bounds, PrivateMoments, PrivatePCA
from sfumato.audit.testing import (
    PrivateCase,
    check_private_estimator,
    contracts as c,
    inspection,
    taint_test,
)
from sfumato.audit.testing.inspection import described, first_difference, holds_a_row, leaves
from sfumato.exceptions import InvalidInputError
from sfumato.ledger.receipt import prepay
from sfumato.mechanisms import GaussianMechanism
from tests.honest import BOUNDS, Honest, X, Y

CASE = PrivateCase(Honest(2, bounds=BOUNDS), X)
SECRET_COUNT = {"relation": "add_or_remove_one"}


class HonestUnderRemoval(Honest):
    """With the sensitivity of one row added or removed."""

    sensitivity = 1.0


class Leak(Honest):
    """Each subclass leaks the least it can: one bit of the rows, or their number."""

    def bit(self, rows: np.ndarray) -> bool:
        return bool(rows[0, 0] > 0)


class Shape(Leak):
    settings: ClassVar[dict[str, Any]] = SECRET_COUNT

    def after(self, rows: np.ndarray) -> None:
        self.empty_ = np.empty((len(rows), 0))


class NumberOfRows(Leak):
    settings: ClassVar[dict[str, Any]] = SECRET_COUNT

    def after(self, rows: np.ndarray) -> None:
        self.n_rows_ = len(rows)


class ElementType(Leak):
    def after(self, rows: np.ndarray) -> None:
        self.empty_ = np.empty(0, dtype=np.float32 if self.bit(rows) else np.float64)


class TypeOfTheTable(Leak):
    def _check_rows(self, X: Any, *, reset: bool = True) -> np.ndarray:
        self.kind_ = np.asarray(X).dtype.str
        return super()._check_rows(X, reset=reset)


class MemoryOrder(Leak):
    def after(self, rows: np.ndarray) -> None:
        self.zeros_ = np.zeros((3, 3), order="F" if self.bit(rows) else "C")


class SignOfZero(Leak):
    def after(self, rows: np.ndarray) -> None:
        self.zero_ = math.copysign(0.0, rows[0, 0])


class SignOfZeroInAnArray(Leak):
    def after(self, rows: np.ndarray) -> None:
        self.zero_ = np.copysign(np.zeros(2), rows[0, 0])


class PayloadOfNaN(Leak):
    def after(self, rows: np.ndarray) -> None:
        self.missing_ = struct.unpack(">d", bytes.fromhex(f"7ff800000000000{self.bit(rows):d}"))[0]


class PythonType(Leak):
    def after(self, rows: np.ndarray) -> None:
        self.one_ = 1 if self.bit(rows) else True


class TypeOfContainer(Leak):
    def after(self, rows: np.ndarray) -> None:
        self.pair_ = [1, 2] if self.bit(rows) else (1, 2)


class OrderOfKeys(Leak):
    def after(self, rows: np.ndarray) -> None:
        self.table_ = {"a": 1, "b": 2} if self.bit(rows) else {"b": 2, "a": 1}


class SetOfLabels(Leak):
    def after(self, rows: np.ndarray) -> None:
        self.found_ = {1, 2, 3 + self.bit(rows)}


class NameOfAttribute(Leak):
    def after(self, rows: np.ndarray) -> None:
        setattr(self, f"found_{self.bit(rows):d}_", None)


class View(Leak):
    def after(self, rows: np.ndarray) -> None:
        whole = np.concatenate([np.zeros(2), rows.mean(axis=0)])
        self.zeros_ = whole[:2]


class Slotted:
    __slots__ = ("value",)


class Slots(Leak):
    def after(self, rows: np.ndarray) -> None:
        self.slots_ = Slotted()
        self.slots_.value = self.bit(rows)


class Closure(Leak):
    def after(self, rows: np.ndarray) -> None:
        mean = rows.mean(axis=0)
        self.rule_ = lambda queries: queries @ mean


class Partial(Leak):
    def after(self, rows: np.ndarray) -> None:
        self.rule_ = functools.partial(np.add, float(rows[0, 0]))


class ChoiceOfFunction(Leak):
    def after(self, rows: np.ndarray) -> None:
        self.rule_ = abs if self.bit(rows) else math.floor


class Iterators(Leak):
    def after(self, rows: np.ndarray) -> None:
        self.stream_ = iter(rows[0].tolist())


class Frame(Leak):
    def after(self, rows: np.ndarray) -> None:
        self.frame_ = pd.DataFrame({"a": rows[:2, 0]})


class PolarsFrame(Leak):
    def after(self, rows: np.ndarray) -> None:
        self.frame_ = pl.DataFrame({"a": [self.bit(rows)]})


class OnTheClass(Leak):
    def after(self, rows: np.ndarray) -> None:
        type(self).rows_seen = rows


class OnTheClassOnce(Leak):
    def after(self, rows: np.ndarray) -> None:
        if "count" not in vars(type(self)):
            type(self).count = self.bit(rows)


class OnABaseClass(Leak):
    def after(self, rows: np.ndarray) -> None:
        Leak.seen = self.bit(rows)


class InAListOfTheClass(Leak):
    seen: ClassVar[list[Any]] = []

    def after(self, rows: np.ndarray) -> None:
        self.seen.append(self.bit(rows))


SEEN: list[Any] = []
LAST: Any = None
SPACE = types.SimpleNamespace(last=None)
BUFFER = np.zeros(3)
CONTEXT: contextvars.ContextVar[Any] = contextvars.ContextVar("leak", default=None)


class InAGlobalList(Leak):
    def after(self, rows: np.ndarray) -> None:
        SEEN.append(self.bit(rows))


class InAGlobal(Leak):
    def after(self, rows: np.ndarray) -> None:
        global LAST
        LAST = self.bit(rows)


class InAGlobalOnce(Leak):
    def after(self, rows: np.ndarray) -> None:
        global LAST
        LAST = self.bit(rows) if LAST is None else LAST


class InAGlobalNamespace(Leak):
    def after(self, rows: np.ndarray) -> None:
        SPACE.last = rows.mean()


class InAGlobalArray(Leak):
    def after(self, rows: np.ndarray) -> None:
        BUFFER[:] = rows[0]


class InAContext(Leak):
    def after(self, rows: np.ndarray) -> None:
        CONTEXT.set(self.bit(rows))


class InAModuleOfSfumato(Leak):
    def after(self, rows: np.ndarray) -> None:
        from sfumato.models import moments as pca

        pca.last_rows = rows


@functools.lru_cache(maxsize=8)
def cached(value: object) -> object:
    return value


class InACache(Leak):
    def after(self, rows: np.ndarray) -> None:
        cached(rows.tobytes())


class CountInACache(Leak):
    settings: ClassVar[dict[str, Any]] = SECRET_COUNT

    def after(self, rows: np.ndarray) -> None:
        cached(len(rows))


class CachedMethod(Leak):
    @functools.cache  # noqa: B019
    def remembered(self, value: float) -> float:
        return value

    def after(self, rows: np.ndarray) -> None:
        self.remembered(float(rows[0, 0]))


def kept(value: object, store: list[object] = []) -> None:  # noqa: B006
    store.append(value)


class InADefault(Leak):
    def after(self, rows: np.ndarray) -> None:
        kept(self.bit(rows))


class InAWarning(Leak):
    def after(self, rows: np.ndarray) -> None:
        warnings.warn(f"the first number is {rows[0, 0]}", stacklevel=2)


class WarnsOfSomeRows(Leak):
    def after(self, rows: np.ndarray) -> None:
        if self.bit(rows):
            warnings.warn("positive", stacklevel=2)


class InALog(Leak):
    def after(self, rows: np.ndarray) -> None:
        log = logging.getLogger("tests.leak")
        log.propagate = False
        log.debug("first number %s", rows[0, 0])


class Printed(Leak):
    def after(self, rows: np.ndarray) -> None:
        print(rows[0, 0])  # noqa: T201


class RaisesForSomeRows(Leak):
    def after(self, rows: np.ndarray) -> None:
        if not self.bit(rows):
            raise ValueError("the first number is negative")


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


class HiddenClass(Leak):
    def after(self, rows: np.ndarray) -> None:
        self.kind_ = type("Kind", (), {"rows": rows.mean(axis=0)})


class ClassOfItsOwn(Leak):
    def after(self, rows: np.ndarray) -> None:
        kind = type(self)
        names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
        self.__class__ = type(kind.__name__, (kind,), {**names, "rows": rows.mean(axis=0)})


class MetadataOfElementType(Leak):
    def after(self, rows: np.ndarray) -> None:
        self.zeros_ = np.zeros(2, dtype=np.dtype(float, metadata={"bit": self.bit(rows)}))


class Count(int):
    """A number that things can hang on."""


class AttributeOfANumber(Leak):
    def after(self, rows: np.ndarray) -> None:
        self.count_ = Count(3)
        self.count_.rows = rows.mean(axis=0)


class UnderAMask(Leak):
    def after(self, rows: np.ndarray) -> None:
        self.masked_ = np.ma.MaskedArray(rows.mean(axis=0), mask=True)


class BehindAViewOfTheSameSize(Leak):
    def after(self, rows: np.ndarray) -> None:
        whole = rows.mean(axis=0)
        whole[0] = 0.0
        self.zeros_ = np.ndarray(whole.shape, buffer=whole, strides=(0,))


class MappedMemory(Leak):
    def after(self, rows: np.ndarray) -> None:
        self.memory_ = mmap.mmap(-1, 64)
        self.memory_.write(rows[0].tobytes())


class HashOfRows(Leak):
    def after(self, rows: np.ndarray) -> None:
        self.hash_ = hashlib.sha256(rows.tobytes())


class ConstantInCode(Leak):
    def after(self, rows: np.ndarray) -> None:
        self.rule_ = eval(f"lambda: {self.bit(rows)}")


class ModuleOfItsOwn(Leak):
    def after(self, rows: np.ndarray) -> None:
        self.module_ = types.ModuleType("rows")
        self.module_.__dict__["rows"] = rows.mean(axis=0)


class KeptError(Leak):
    """Its traceback leads to the variables of `after`, and of `fit`."""

    def after(self, rows: np.ndarray) -> None:
        try:
            raise ValueError
        except ValueError as error:
            self.error_ = error


class KeptFrame(Leak):
    def after(self, rows: np.ndarray) -> None:
        self.frame_ = sys._getframe()


class NameInCode(Leak):
    def after(self, rows: np.ndarray) -> None:
        code = (lambda: 1).__code__.replace(co_name=f"rule{self.bit(rows):d}")
        self.rule_ = types.FunctionType(code, globals())


class Annotation(Leak):
    def after(self, rows: np.ndarray) -> None:
        def rule(queries: Any) -> Any:
            return queries

        rule.__annotations__["queries"] = self.bit(rows)
        self.rule_ = rule


class GlobalsOfItsOwn(Leak):
    def after(self, rows: np.ndarray) -> None:
        self.rule_ = types.FunctionType((lambda: LAST).__code__, {"LAST": self.bit(rows)})


class RegistryOfWarnings(Leak):
    def after(self, rows: np.ndarray) -> None:
        registry = globals().setdefault("__warningregistry__", {})
        registry["positive" if self.bit(rows) else "negative", UserWarning, 1] = True


class TooDeep(Leak):
    def after(self, rows: np.ndarray) -> None:
        value: Any = rows.mean(axis=0)
        for _ in range(inspection.MAX_NESTED + 5):
            value = [value, "deeper"]
        self.value_ = value


class InTheEnvironment(Leak):
    def after(self, rows: np.ndarray) -> None:
        os.environ["SFUMATO_LEAK"] = str(self.bit(rows))


class InAForeignModule(Leak):
    def after(self, rows: np.ndarray) -> None:
        sys.rows = rows.mean(axis=0)  # type: ignore[attr-defined]


class InTheDocstring(Leak):
    def after(self, rows: np.ndarray) -> None:
        type(self).__doc__ = str(self.bit(rows))


class ShapeOfTheStatistic(Leak):
    def release(self, mechanism: Any, statistic: np.ndarray, receipt: Any) -> np.ndarray:
        if larger(statistic):
            statistic = np.pad(statistic, (0, 1))
        return super().release(mechanism, statistic, receipt)[:2, :2]


class WhetherARowWasClipped(Leak):
    def _check_rows(self, X: Any, *, reset: bool = True) -> np.ndarray:
        cells = np.asarray(X)
        self.clipped_ = cells.dtype == float and bool(np.any(np.abs(cells) > 1))
        return super()._check_rows(X, reset=reset)


LEAKS = [
    leak
    for leak in list(globals().values())
    if isinstance(leak, type) and issubclass(leak, Leak) and leak is not Leak
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("leak", LEAKS, ids=lambda leak: leak.__name__)
def test_a_leak_is_caught(leak: type[Leak]) -> None:
    model = leak(2, bounds=BOUNDS, **getattr(leak, "settings", {}))
    with pytest.raises(AssertionError, match=r"depends? on the rows"):
        c.check_taint(PrivateCase(model, X))


def test_the_model_of_the_review_is_caught() -> None:
    """It stored n, the type of the table and all rows on its class, and kept every contract."""

    class Reviewed(HonestUnderRemoval):
        def _check_rows(self, X: Any, *, reset: bool = True) -> np.ndarray:
            rows = super()._check_rows(X, reset=reset)
            type(self).n_rows, type(self).kind, type(self).rows = len(rows), X.dtype, rows
            return rows

    with pytest.raises(AssertionError, match=r"Reviewed|model.__class__"):
        check_private_estimator(Reviewed(2, bounds=BOUNDS, **SECRET_COUNT), X)


def test_an_honest_estimator_passes_and_leaves_nothing_behind() -> None:
    c.check_taint(CASE)
    c.check_taint(PrivateCase(HonestUnderRemoval(2, bounds=BOUNDS, **SECRET_COUNT), X))
    for leak in (OnTheClass, InAGlobal, InAGlobalList, InAGlobalArray):
        with pytest.raises(AssertionError):
            c.check_taint(PrivateCase(leak(2, bounds=BOUNDS), X))
    # The planted rows are put away, or the next contract would meet them.
    assert "rows_seen" not in vars(OnTheClass)
    assert LAST is None
    assert SEEN == []
    assert not BUFFER.any()


def test_where_the_number_of_rows_is_public_it_may_be_kept() -> None:
    taint_test(NumberOfRows(2, bounds=BOUNDS), X, -X)
    taint_test(Shape(2, bounds=BOUNDS), X, -X)


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


@pytest.mark.parametrize("broken", [TellsOnRefusal, TellsInTheCause, ChoosesTheError])
def test_errors_that_tell_are_caught(broken: type[Honest]) -> None:
    c.check_errors_tell_nothing(CASE)
    with pytest.raises(AssertionError, match="error of fit"):
        c.check_errors_tell_nothing(PrivateCase(broken(2, bounds=BOUNDS), X))


class SpeaksOfMissing(Honest):
    def _check_rows(self, X: Any, *, reset: bool = True) -> np.ndarray:
        if np.isnan(X).any():
            logging.getLogger("tests.leak").info("a missing number")
        return super()._check_rows(X, reset=reset)


def test_a_word_about_one_bad_row_is_caught() -> None:
    c.check_bad_rows_do_not_raise(CASE)
    with pytest.raises(AssertionError, match="nan changes what fit says"):
        c.check_bad_rows_do_not_raise(PrivateCase(SpeaksOfMissing(2, bounds=BOUNDS), X))


def test_rows_are_found_wherever_they_hide() -> None:
    def rule(queries: np.ndarray) -> np.ndarray:
        return queries @ X.T

    rows = X.copy()
    for hidden in (
        {"a": [rows[3].tolist()]},
        rows.astype(np.float32)[2:4],
        (tuple(rows[5]),),
        lambda q: q @ rows.T,
        functools.partial(rule, rows),
        rows.tobytes(),
        rows[0, :1],
        pd.DataFrame(rows),
    ):
        assert any(holds_a_row(value, X) for _, value in leaves(hidden)), hidden
    assert not any(holds_a_row(value, X) for _, value in leaves({"a": np.ones(3), "b": [1, 2, 3]}))


def test_differences_are_named() -> None:
    def named(a: Any, b: Any) -> Any:
        return first_difference(described(a), described(b))

    assert named(np.zeros(2), np.zeros((2, 1))) == ("model", "shape")
    assert named(np.zeros(2), np.zeros(2, dtype=np.int64)) == ("model", "dtype")
    assert named(0.0, -0.0) == ("model", "content")
    assert named([1], (1,)) == ("model", "type")
    assert named({"a": 0.0}, {"a": 0.0, "b": 1}) == ("model", "content")
    assert named({"a": np.ones(2)}, {"a": np.zeros(2)}) == ("model['a']", "content")
    assert named(X, X.copy()) is None
    loop: list[Any] = [object()]
    loop.append(loop)
    assert named(loop, loop) is None


@pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])
def test_frames_of_columns_are_no_way_out(library: types.ModuleType) -> None:
    def frame(rows: np.ndarray) -> Any:
        return library.DataFrame({f"c{i}": column for i, column in enumerate(rows.T)})

    for model in (PrivatePCA(2, bounds=BOUNDS), PrivateMoments(bounds=BOUNDS)):
        taint_test(model, frame(X), frame(-X))
    for leak in (OnTheClass, View, SignOfZero):
        with pytest.raises(AssertionError, match="depends on the rows"):
            taint_test(leak(2, bounds=BOUNDS), frame(X), frame(-X))


def test_noise_and_releases_are_checked_by_name() -> None:
    with pytest.raises(AssertionError, match="number of releases"):
        taint_test(NumberOfReleases(2, bounds=BOUNDS), X[:, ::-1], X)
    with pytest.raises(AssertionError, match=r"release\[0\].mechanism"):
        taint_test(ScaleOfTheNoise(2, bounds=BOUNDS), X, X[:, ::-1])


def test_honest_uses_of_caches_pass() -> None:
    class CachesPublicFacts(Honest):
        def after(self, rows: np.ndarray) -> None:
            cached(rows.shape[1])

        def fit(self, X: Any, y: object = None) -> Self:
            return super().fit(X)

    c.check_taint(PrivateCase(CachesPublicFacts(2, bounds=BOUNDS), X))
