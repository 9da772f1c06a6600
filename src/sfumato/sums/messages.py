"""Secret sums on their way from where rows lie to where noise is drawn.

A message holds the exact sum over one part of the records: which pass and which part it belongs
to, its shape, and whole numbers of 64 bits. It is as secret as the rows. It prints nothing of what
it holds, and whoever opens it checks it against the public statistic first.
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from sfumato.exceptions import EngineError, InvalidInputError
from sfumato.sums.grid import MOST_ROWS, QUANTUM, SecretSum
from sfumato.sums.persons import PersonSum
from sfumato.sums.statistics import Statistic

__all__ = ["SecretMessage", "opened", "sealed"]

START = b"sfumato partial sum 1\n"
LONGEST_HEADER = 2**16


class SecretMessage(bytes):
    """Bytes that hold a secret sum: they travel inside an engine and are never shown or stored."""

    def __repr__(self) -> str:
        return f"SecretMessage({len(self)} bytes)"

    __str__ = __repr__


def sealed(total: SecretSum | PersonSum, *, task: str, part: int) -> SecretMessage:
    """Write down the sum over one part.

    Parameters
    ----------
    total : SecretSum or PersonSum
        The sum.
    task : str
        The public name of the pass.
    part : int
        The number of the part.

    Returns
    -------
    SecretMessage
        What travels.
    """
    of_persons = isinstance(total, PersonSum)
    sums = total._by_size if isinstance(total, PersonSum) else {1: total}
    header = {
        "task": task,
        "part": part,
        "of_persons": of_persons,
        "shape": list(total._shape if isinstance(total, PersonSum) else total._units.shape),
        "sizes": [[size, sums[size].n_rows] for size in sorted(sums)],
    }
    bodies = [sums[size]._units.astype("<i8").tobytes() for size in sorted(sums)]
    return SecretMessage(b"".join([START, json.dumps(header).encode(), b"\n", *bodies]))


def opened(
    message: Any, statistic: Statistic, *, task: str, n_parts: int
) -> tuple[int, SecretSum | PersonSum]:
    """Read a message and check it against what was asked for.

    Parameters
    ----------
    message : bytes
        What a worker has sent.
    statistic : Statistic
        What was to be added up.
    task : str
        The public name of the pass.
    n_parts : int
        Parts of the records.

    Returns
    -------
    part : int
        The number of the part.
    total : SecretSum or PersonSum
        The sum over it.
    """
    try:
        header, body = _divided(bytes(message))
        part, shape = int(header["part"]), tuple(map(int, header["shape"]))
        sizes = [(int(size), int(n_rows)) for size, n_rows in header["sizes"]]
        of_persons = bool(header["of_persons"])
    except (ValueError, KeyError, TypeError):
        raise EngineError("A worker has sent what is no partial sum.") from None
    if header.get("task") != task or not 0 <= part < n_parts:
        raise EngineError("A worker has answered another task than it was given.")
    if shape != statistic.shape or len(body) != 8 * math.prod(shape) * len(sizes):
        raise EngineError(
            f"A worker has sent a sum of shape {shape}; {type(statistic).__name__} has shape "
            f"{statistic.shape}."
        )
    numbers = np.frombuffer(body, dtype="<i8").reshape(len(sizes), *shape)
    total = PersonSum(shape)
    for (size, n_rows), units in zip(sizes, numbers, strict=True):
        _check_size(units, size, n_rows, statistic)
        each = SecretSum(shape)
        each._units += units
        each.n_rows = n_rows
        total._of(size).merge(each)
    return part, total if of_persons else total.added()


def _divided(message: bytes) -> tuple[dict[str, Any], bytes]:
    if not message.startswith(START):
        raise InvalidInputError("no partial sum")
    end = message.index(b"\n", len(START), len(START) + LONGEST_HEADER)
    return json.loads(message[len(START) : end]), message[end + 1 :]


def _check_size(units: Any, size: int, n_rows: int, statistic: Statistic) -> None:
    """Refuse what no so many records can add up to."""
    most = n_rows * math.ceil(statistic.largest_term / QUANTUM)
    is_possible = 0 <= n_rows <= MOST_ROWS and size >= 1 and n_rows % size == 0
    if not is_possible or (units.size and max(-int(units.min()), int(units.max())) > most):
        raise EngineError("A worker has sent a sum that so many records cannot have.")
