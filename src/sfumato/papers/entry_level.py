"""Noise on every number of a table: what the papers on hulls and on mappings promise.

The unit is one number of one record, changed by at most `entry_bound`; labels are public.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.exceptions import InvalidInputError, UnsupportedModeError
from sfumato.ledger.receipt import Receipt
from sfumato.mechanisms import EntryMechanism
from sfumato.models.base import PrivateEstimator
from sfumato.models.budget import Budget
from sfumato.privacy.guarantee import Guarantee, Relation, Unit
from sfumato.tables.bounds import PUBLIC_LABELS, Bounds
from sfumato.tables.cells import checked_column

Array = NDArray[np.float64]
Codes = NDArray[np.intp]
# Scaling an entry rounds it four times, by 2**-53 of the column's width each; this covers two.
ROUNDING = 2.0**-49


class EntryScale:
    """Scale entries to [0, 1] by a public box, each by itself, and back before they get noise.

    A column at least as wide as the protected change is released in units of the data, so that one
    entry moves by at most that change; a narrower one is stretched to that width.

    bounds: A box.
    n_features: Numbers of a row.
    entry_bound: The protected change; None for any change inside the box.
    """

    def __init__(self, bounds: Bounds, n_features: int, entry_bound: float | None) -> None:
        box = bounds.box(n_features)
        if box is None or bounds.norm is not None:
            raise UnsupportedModeError(
                "Unit 'entry' needs a box, Bounds(lower=..., upper=...), and no norm: scaling a "
                "row back into a ball moves its other entries too."
            )
        if entry_bound is not None and not 0 < entry_bound < math.inf:
            raise InvalidInputError(
                f"'entry_bound' must be finite and positive, or None. Got {entry_bound} instead."
            )
        self.lower, self.width = box[0], box[1] - box[0]
        self.whole_range = entry_bound is None
        whole = bounds.entry_diameter(n_features=n_features)
        self.bound = whole if entry_bound is None else float(entry_bound)
        self.units = np.maximum(self.width, self.bound)
        self.rounding = ROUNDING * float(self.units.max())

    def __call__(self, X: Array) -> Array:
        """Clip and scale; a missing entry goes to the middle of its range and moves no other."""
        entries = np.clip(X, self.lower, self.lower + self.width)  # first: it must not overflow
        entries -= self.lower
        entries /= self.width
        np.copyto(entries, 0.5, where=np.isnan(entries))
        return np.asarray(np.clip(entries, 0.0, 1.0, out=entries))


class EntryEstimator(PrivateEstimator):
    """Base of the systems that release every entry with noise of its own."""

    offered_units: ClassVar[tuple[Unit, ...]] = (Unit.ENTRY,)
    offered_relations: ClassVar[tuple[Relation, ...]] = (Relation.REPLACE_ONE,)
    scales_columns: ClassVar[bool] = False  # as printed
    has_labels: ClassVar[bool | None] = False  # they are public here
    in_unit_ball: ClassVar[bool] = False
    needs_memory: ClassVar[bool] = True
    unit = "entry"
    relation = "replace_one"

    entry_bound: float | None

    def _read_entries(
        self, X: ArrayLike, y: ArrayLike | None
    ) -> tuple[EntryScale, Array, Codes, NDArray[Any] | None, Budget]:
        """Return entries scaled to [0, 1], numbers and set of the public labels, and a budget."""
        rows, _, budget = self._begin_in_memory(X, None)
        bounds = self.row_bounds
        scale = EntryScale(bounds, rows.shape[1], self.entry_bound)
        codes, labels = np.zeros(len(rows), dtype=np.intp), None
        if y is not None:
            public = replace(bounds, labels=bounds.labels or PUBLIC_LABELS)
            codes, labels = public.clip_labels(checked_column(self, y, len(rows)))
        return scale, scale(rows), codes, labels, budget

    def _noise(self, scale: EntryScale, entries: Array, *, atom: float = 0.0) -> EntryMechanism:
        """Return the noise; `atom` is the chance of none, as printed."""
        return EntryMechanism(
            entry_bound=scale.bound, epsilon=self.epsilon, delta=atom, rounding=scale.rounding
        ).for_size(entries.size)

    def _release_entries(
        self, scale: EntryScale, entries: Array, mechanism: EntryMechanism, receipt: Receipt
    ) -> tuple[Array, Guarantee]:
        """Draw, and return noisy entries with the promise for one of them."""
        noisy = mechanism.release(entries * scale.units, ledger=receipt) / scale.units
        promise = replace(
            mechanism.guarantee(n_entries=entries.shape[1]),
            whole_range=scale.whole_range,
            public=(*self._public_facts(), "labels of the rows", "size of each class"),
        )
        return noisy, promise.only_if(*receipt.conditions)
