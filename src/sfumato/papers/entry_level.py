"""Noise on every number of a table: what the papers on hulls and on mappings promise.

The unit is one number of one record, changed by at most `entry_bound`; labels are public.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.core.constraints import Form, or_none, real
from sfumato.exceptions import UnsupportedModeError
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
ENTRY_PARAMETERS = """epsilon, delta : float, default=1.0, 1e-6
        The budget of one entry; as printed, delta is the mass of an atom at zero, else not needed.
    unit, relation : {"entry"}, {"replace_one"}
        What is protected: one number of one row, replaced by one at most `entry_bound` away.
    bounds : Bounds
        A public box of the rows, and the label set; required.
    entry_bound : float, optional
        The largest protected change d of one entry; by default any change inside the box.
    ledger : DatasetBudget, optional
        The budget that pays; see `sfumato.Ledger`."""
ENTRY_PRIVACY = """Unit and relation : one entry, replaced by one at most d away; labels,
        class sizes and the number of rows are public.
    Released : every entry with noise; all else sees noisy rows only.
    Sensitivity : d.
    Guarantee : (epsilon, 0) for an entry; the figure for a whole record is stated next to it."""


class EntryScale:
    """Scale entries to [0, 1] by a public box, each on its own, and back before they get noise.

    A column at least as wide as the protected change is released in units of the data, so that one
    entry moves by at most that change; a narrower one is stretched to that width.

    bounds: A box.
    n_features: Numbers of a row.
    entry_bound: The protected change; None for any change inside the box.
    rescales: False keeps entries in units of the data, clipped to the box, as printed.
    """

    def __init__(
        self, bounds: Bounds, n_features: int, entry_bound: float | None, *, rescales: bool = True
    ) -> None:
        box = bounds.box(n_features)
        if box is None or bounds.norm is not None:
            raise UnsupportedModeError(
                "Unit 'entry' needs a box, Bounds(lower=..., upper=...), and no norm: scaling a "
                "row back into a ball moves its other entries too."
            )
        self.lower, self.width = box[0], box[1] - box[0]
        self.whole_range = entry_bound is None
        whole = float(np.max(self.width))
        self.bound = whole if entry_bound is None else float(entry_bound)
        self.rescales = rescales
        self.units = np.maximum(self.width, self.bound) if rescales else np.ones_like(self.width)
        self.rounding = ROUNDING * float(self.units.max()) if rescales else 0.0

    def __call__(self, X: Array) -> Array:
        """Clip and scale; a missing entry goes to the middle of its range and moves no other."""
        entries = np.clip(X, self.lower, self.lower + self.width)  # first: it must not overflow
        if not self.rescales:
            return np.where(np.isnan(entries), self.lower + self.width / 2, entries)
        entries -= self.lower
        entries /= self.width
        np.copyto(entries, 0.5, where=np.isnan(entries))
        return np.asarray(np.clip(entries, 0.0, 1.0, out=entries))


@dataclass(kw_only=True, eq=False, repr=False)
class EntryEstimator(PrivateEstimator):
    """Base of the systems that release every entry with noise of its own.

    In docstrings ``$entry`` and ``$privacy`` stand for what all of them share.
    """

    unit: str = "entry"
    entry_bound: float | None = None

    offered_units: ClassVar[tuple[Unit, ...]] = (Unit.ENTRY,)
    offered_relations: ClassVar[tuple[Relation, ...]] = (Relation.REPLACE_ONE,)
    scales_columns: ClassVar[bool] = False  # as printed
    rescales: ClassVar[bool] = True  # entries to [0, 1]
    needs_memory: ClassVar[bool] = True
    reads_cells: ClassVar[bool] = True  # a missing entry moves no other
    has_labels: ClassVar[bool | None] = False  # they are public, and read here
    parameters: ClassVar[Form] = {"entry_bound": or_none(real(above=0.0))}

    def __init_subclass__(cls, **options: Any) -> None:
        for name, text in (("$entry", ENTRY_PARAMETERS), ("$privacy", ENTRY_PRIVACY)):
            cls.__doc__ = (cls.__doc__ or "").replace(name, text)
        super().__init_subclass__(**options)

    def _read_entries(
        self, X: ArrayLike, y: ArrayLike | None
    ) -> tuple[Budget, EntryScale, Array, Codes, NDArray[Any] | None]:
        """Return the budget, entries scaled to [0, 1], codes and set of the public labels."""
        rows, _, budget = self._begin_in_memory(X, None)
        bounds = self.bounds
        if not isinstance(bounds, Bounds):
            raise UnsupportedModeError("Unit 'entry' needs a box, Bounds(lower=..., upper=...).")
        scale = EntryScale(bounds, rows.shape[1], self.entry_bound, rescales=self.rescales)
        codes, labels = np.zeros(len(rows), dtype=np.intp), None
        if y is not None:
            public = replace(bounds, labels=bounds.labels or PUBLIC_LABELS)
            codes, labels = public.clip_labels(checked_column(self, y, len(rows)))
        return budget, scale, scale(rows), codes, labels

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
