"""Where random bits come from: the operating system's cryptographic generator.

Tests may put another source in its place. While one is in force every guarantee made reads
``testing``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]


_source: ContextVar[Callable[[int], Words] | None] = ContextVar("noise source", default=None)


def random_words(count: int) -> Words:
    """Draw `count` independent uniform 64-bit words."""
    source = _source.get()
    if source is not None:
        return source(count)
    return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)


def is_seeded() -> bool:
    """Whether noise drawn now could be drawn again by somebody who knows the seed."""
    return _source.get() is not None


@contextmanager
def drawing_from(source: Callable[[int], Words] | None) -> Iterator[None]:
    """Draw words from another source inside the with-block, None for the system's; for tests."""
    token = _source.set(source)
    try:
        yield
    finally:
        _source.reset(token)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Draw words from a seeded generator inside the with-block; for tests only.

    Parameters
    ----------
    seed : int
        The seed.

    Yields
    ------
    None
        Inside, every guarantee is marked "testing".
    """
    generator = np.random.Generator(np.random.Philox(seed))
    with drawing_from(lambda n: np.frombuffer(generator.bytes(8 * n), dtype=np.uint64)):
        yield
