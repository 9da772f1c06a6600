"""Functions that an accelerator is asked for again and again: recorded once, then played.

A step of a descent is some sixty small operations, and handing them over takes an interpreter
longer than an accelerator needs for them. Recorded as a graph they are handed over at once. The
operations are the same, so the numbers are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.kernels.arrays import Array, is_accelerated, like

__all__ = ["Replayed"]

PLAIN_CALLS = 2  # before a function is recorded, so that libraries have made their choices


class Replayed:
    """A function of one array of numbers whose shape stays, on the device of a reference.

    Parameters
    ----------
    function : callable
        Takes an array on the device and gives one; it asks for no number of it on the way.
    reference : array
        Says where. Elsewhere than on a CUDA device the function is called as it is.
    """

    def __init__(self, function: Callable[[Array], Array], reference: Array) -> None:
        self._function, self._reference = function, reference
        self._calls_left: float = PLAIN_CALLS
        self._graph: Any = None
        self._argument: Array = None
        self._answer: Array = None

    def __call__(self, argument: NDArray[np.float64]) -> Array:
        """Give the answer; the next call may write another one in its place."""
        there = like(self._reference, argument)
        if not is_accelerated(self._reference) or self._calls_left > 0:
            self._calls_left -= 1
            return self._function(there)
        if self._graph is None and not self._is_recorded(there):
            self._calls_left = math.inf
            return self._function(there)
        self._argument.copy_(there)
        self._graph.replay()
        return self._answer

    def _is_recorded(self, argument: Array) -> bool:
        """Record the function; where the first answer is not the same to the bit, forget it."""
        cuda, expected = import_module("torch").cuda, self._function(argument)
        graph = cuda.CUDAGraph()
        self._argument = argument
        try:  # other threads may go on with theirs
            with cuda.graph(graph, capture_error_mode="thread_local"):
                self._answer = self._function(argument)
            graph.replay()
        except RuntimeError:  # a library that cannot: the function is called as it is
            return False
        if not bool((self._answer == expected).all()):
            return False
        self._graph = graph
        return True
