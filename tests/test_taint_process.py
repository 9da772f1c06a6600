"""The taint test sees what a fit leaves in the process, and what only special rows would show."""

from __future__ import annotations

import atexit
import gc
import locale
import logging
import os
import random
import signal
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfumato.audit.testing import PrivateCase, contracts as c
from tests.honest import BOUNDS, X
from tests.test_taint import Leak

LEFT = Path(tempfile.gettempdir(), f"sfumato-{os.getpid()}.npy")  # by a leak


class ConstantColumns(Leak):
    def after(self, rows: np.ndarray) -> None:
        self.constant_ = np.ptp(rows, axis=0) == 0


class EqualColumns(Leak):
    def after(self, rows: np.ndarray) -> None:
        self.equal_ = bool(np.array_equal(rows[:, -1], rows[:, -2]))


class AtExit(Leak):
    def after(self, rows: np.ndarray) -> None:
        if self.bit(rows):
            atexit.register(len, "a row was positive")


class Umask(Leak):
    def after(self, rows: np.ndarray) -> None:
        os.umask(0o027 if self.bit(rows) else 0o022)


class LevelOfALogger(Leak):
    def after(self, rows: np.ndarray) -> None:
        logging.getLogger("tests.level").setLevel(10 if self.bit(rows) else 20)


class FilterOfWarnings(Leak):
    def after(self, rows: np.ndarray) -> None:
        if self.bit(rows):
            warnings.filterwarnings("ignore", "positive")


class SeedOfNumPy(Leak):
    def after(self, rows: np.ndarray) -> None:
        np.random.seed(int(self.bit(rows)))  # noqa: NPY002


class DrawsOfNumPy(Leak):
    def after(self, rows: np.ndarray) -> None:
        np.random.uniform(size=int(np.sum(rows[:, 0] > 0)))  # noqa: NPY002


class SeedOfPython(Leak):
    def after(self, rows: np.ndarray) -> None:
        random.seed(int(self.bit(rows)))


class Printing(Leak):
    def after(self, rows: np.ndarray) -> None:
        np.set_printoptions(precision=5 + self.bit(rows))


class Recursion(Leak):
    def after(self, rows: np.ndarray) -> None:
        sys.setrecursionlimit(3000 + self.bit(rows))


class Garbage(Leak):
    def after(self, rows: np.ndarray) -> None:
        gc.set_threshold(700 + self.bit(rows))


class Locale(Leak):
    def after(self, rows: np.ndarray) -> None:
        locale.setlocale(locale.LC_ALL, "C.UTF-8" if self.bit(rows) else "C")


class ContentOfAFile(Leak):
    def after(self, rows: np.ndarray) -> None:
        np.save(LEFT, rows)


class HandlerOfASignal(Leak):
    def after(self, rows: np.ndarray) -> None:
        signal.signal(signal.SIGUSR1, signal.SIG_IGN if self.bit(rows) else signal.SIG_DFL)


class Hook(Leak):
    def after(self, rows: np.ndarray) -> None:
        bit = self.bit(rows)
        sys.excepthook = lambda *_: bit


class PathOfModules(Leak):
    def after(self, rows: np.ndarray) -> None:
        sys.path.append(f"/nowhere/{self.bit(rows):d}")


class Digits(Leak):
    def after(self, rows: np.ndarray) -> None:
        sys.set_int_max_str_digits(5000 + self.bit(rows))


class Switching(Leak):
    def after(self, rows: np.ndarray) -> None:
        sys.setswitchinterval(0.01 * (1 + self.bit(rows)))


class LastError(Leak):
    def after(self, rows: np.ndarray) -> None:
        try:
            raise ValueError
        except ValueError as error:
            sys.last_value = error


LEAKS = [
    leak
    for leak in list(globals().values())
    if isinstance(leak, type) and leak.__module__ == __name__
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("leak", LEAKS, ids=lambda leak: leak.__name__)
def test_a_leak_is_caught_and_put_back(leak: type[Leak]) -> None:
    before = _process()
    with pytest.raises(AssertionError, match=r"depends? on the rows"):
        c.check_taint(PrivateCase(leak(2, bounds=BOUNDS), X))
    assert _process() == before
    LEFT.unlink(missing_ok=True)


def _process() -> tuple[Any, ...]:
    mask = os.umask(0o077)
    os.umask(mask)
    state = np.random.get_state()  # noqa: NPY002
    return (
        mask,
        random.getstate(),
        state[1].tolist(),
        state[2],
        np.get_printoptions(),
        sys.getrecursionlimit(),
        gc.get_threshold(),
        signal.getsignal(signal.SIGUSR1),
        sys.excepthook,
        list(sys.path),
        sys.get_int_max_str_digits(),
        sys.getswitchinterval(),
        locale.setlocale(locale.LC_ALL),
        list(warnings.filters),
    )
