"""Rows that are kept on an accelerator, and what is asked of them again and again."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sfumato.kernels.arrays import Array
from sfumato.kernels.replay import Replayed

__all__ = ["RowsThere"]


@dataclass(frozen=True, eq=False)
class RowsThere:
    """Rows of another array library.

    Parameters
    ----------
    rows : array of shape (n, width)
        The rows.
    """

    rows: Array = field(repr=False)
    _asked: dict[Hashable, Replayed] = field(default_factory=dict, repr=False)

    def repeated(
        self, key: Hashable, function: Callable[[Array], Array], argument: NDArray[np.float64]
    ) -> Array:
        """Give ``function(argument)``, on the device of the rows.

        Parameters
        ----------
        key : hashable
            What the function depends on, but for the argument and these rows.
        function : callable
            The function, recorded with the first call of its key.
        argument : ndarray
            What differs from call to call.

        Returns
        -------
        array
            The answer; the next call may write another one in its place.
        """
        if key not in self._asked:
            self._asked[key] = Replayed(function, self.rows)
        return self._asked[key](argument)
