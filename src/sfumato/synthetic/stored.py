"""What the attributes of a stored fabricator must look like."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sfumato.core.constraints import integers, numbers, optional, real, record, refuse, whole
from sfumato.models.gaussians import stored_gaussians
from sfumato.sums.grid import MAX_ROWS
from sfumato.synthetic.table_cells import MAX_FINE_VALUES, MAX_VALUES

_gaussians = record(
    centre=numbers("d"),
    basis=numbers("d", "k"),
    radius=real(above=0.0),
    classes=integers("g"),
    n_rows=optional(whole(least=1, most=MAX_ROWS)),
    **stored_gaussians(),
)
_rows = record(rows=numbers("n", "d"), codes=integers("n"))
_tree = record(
    cuts=numbers(None, None, least=0.0),
    margins=numbers(None),
    pairs=numbers(None),
    tree=integers(None, None),
    noise=numbers(2, least=0.0),
    n_rows=optional(whole(least=1, most=MAX_ROWS)),
    seconds=integers(None, 2),
    more_pairs=numbers(None),
    n_parts=whole(least=0, most=2**20),
    most_values=whole(least=MAX_VALUES, most=MAX_FINE_VALUES),
)


def stored_release(value: Any, place: str, sizes: dict[str, int]) -> None:
    """Ask for what a method releases."""
    kinds = {"rows": _rows, "margins": _tree}
    known = [kind for name, kind in kinds.items() if isinstance(value, dict) and name in value]
    (known[0] if known else _gaussians)(value, place, sizes)


def stored_names(value: Any, place: str, sizes: dict[str, int]) -> None:  # noqa: ARG001
    """Ask for a list of texts."""
    if not isinstance(value, list | tuple) or not all(isinstance(each, str) for each in value):
        raise refuse(place, "a list of texts")


def stored_bins(value: Any, place: str, sizes: dict[str, int]) -> None:  # noqa: ARG001
    """Ask for edges of columns."""
    lists = list(value.values()) if isinstance(value, dict) else [None]
    for edges in lists:
        are_numbers = isinstance(edges, list | tuple | np.ndarray) and all(
            isinstance(edge, int | float) and math.isfinite(edge) for edge in edges
        )
        if not are_numbers:
            raise refuse(place, "edges of columns")
