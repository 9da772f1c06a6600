"""Secret sums on their way from where rows lie to where noise is drawn.

A message holds the exact sum over one part of the records: which pass and which part it belongs
to, its shape, and whole numbers of 64 bits, two for each number of a sum over more records than
fit one of them. It is as secret as the rows. It prints nothing of what
it holds, and whoever opens it checks it against the public statistic first.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from sfumato.exceptions import EngineError, InvalidInputError
from sfumato.sums.grid import CARRY_BITS, MAX_ROWS, QUANTUM, WINDOW_ROWS, SecretSum
from sfumato.sums.persons import PersonSum
from sfumato.sums.statistics import Statistic

START = b"sfumato partial sum 2\n"
MAX_HEADER_BYTES = 2**16
CARRIED_BITS = 46  # more than the records of any sum can carry


class SecretMessage(bytes):
    """Bytes that hold a secret sum: they travel inside an engine and are never shown or stored."""

    def __repr__(self) -> str:
        return f"SecretMessage({len(self)} bytes)"

    __str__ = __repr__


def sealed(total: SecretSum | PersonSum, *, task: str, part: int) -> SecretMessage:
    """Write down the sum over one part."""
    of_persons = isinstance(total, PersonSum)
    sums = total._by_size if isinstance(total, PersonSum) else {1: total}
    header = {
        "task": task,
        "part": part,
        "of_persons": of_persons,
        "shape": list(total._shape if isinstance(total, PersonSum) else total._units.shape),
        "sizes": [[size, sums[size].n_rows] for size in sorted(sums)],
    }
    bodies = [part.astype("<i8").tobytes() for size in sorted(sums) for part in _parts(sums[size])]
    return SecretMessage(b"".join([START, json.dumps(header).encode(), b"\n", *bodies]))


def _parts(total: SecretSum) -> list[Any]:
    """Return what a sum holds, in one way whatever the order in which it was taken."""
    if total.n_rows <= WINDOW_ROWS:
        return [total._units]
    carried = total._carry()
    return [total._units, carried]


def opened(
    message: Any, statistic: Statistic, *, task: str, n_parts: int
) -> tuple[int, SecretSum | PersonSum]:
    """Read a message and check it against what was asked for."""
    try:
        header, body = _divided(bytes(message))
        part, shape = int(header["part"]), tuple(map(int, header["shape"]))
        sizes = [(int(size), int(n_rows)) for size, n_rows in header["sizes"]]
        of_persons = bool(header["of_persons"])
    except (ValueError, KeyError, TypeError):
        raise EngineError("A worker sent something that is not a partial sum.") from None
    if header.get("task") != task or not 0 <= part < n_parts:
        raise EngineError("A worker has answered another task than it was given.")
    n_arrays = sum(1 + (n_rows > WINDOW_ROWS) for _, n_rows in sizes)
    if shape != statistic.shape or len(body) != 8 * math.prod(shape) * n_arrays:
        raise EngineError(
            f"A worker has sent a sum of shape {shape}; {type(statistic).__name__} has shape "
            f"{statistic.shape}."
        )
    numbers = iter(np.frombuffer(body, dtype="<i8").reshape(n_arrays, *shape))
    total = PersonSum(shape)
    for size, n_rows in sizes:
        each = _sum_of(numbers, n_rows, shape)
        _check_size(each.integers(), size, n_rows, statistic)
        total._of(size).merge(each)
    return part, total if of_persons else total.added()


def _divided(message: bytes) -> tuple[dict[str, Any], bytes]:
    if not message.startswith(START):
        raise InvalidInputError("no partial sum")
    end = message.index(b"\n", len(START), len(START) + MAX_HEADER_BYTES)
    return json.loads(message[len(START) : end]), message[end + 1 :]


def _sum_of(numbers: Iterator[Any], n_rows: int, shape: tuple[int, ...]) -> SecretSum:
    each = SecretSum(shape)
    each._units += next(numbers)
    each.n_rows = each._in_window = n_rows
    if n_rows > WINDOW_ROWS:
        each._carried, each._in_window = next(numbers).astype(np.int64), 0
        is_rest = each._units.min(initial=0) >= 0 and each._units.max(initial=0) < 2**CARRY_BITS
        if not is_rest or np.abs(each._carried).max(initial=0) > 2**CARRIED_BITS:
            raise EngineError("A worker sent something that is not a partial sum.")
    return each


def _check_size(units: Any, size: int, n_rows: int, statistic: Statistic) -> None:
    """Refuse what no so many records can add up to."""
    most = n_rows * math.ceil(statistic.max_term / QUANTUM)
    is_possible = 0 <= n_rows <= MAX_ROWS and size >= 1 and n_rows % size == 0
    if not is_possible or (units.size and max(-int(units.min()), int(units.max())) > most):
        raise EngineError("A worker sent a sum that this many records cannot have.")
