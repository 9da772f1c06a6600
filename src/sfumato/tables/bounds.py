"""Bounds: public facts that limit a row, and `clip`, which makes every row obey them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.multiclass import check_classification_targets

from sfumato.core.constraints import Form, check_parameters, one_of, or_none, whole
from sfumato.exceptions import InvalidInputError, MissingBoundsError
from sfumato.tables.cells import REAL_KINDS, as_cells, as_number, as_numbers, as_rows

PUBLIC_LABELS = "public"
WAYS = ("average", "sum")  # to add up the rows of a person
PERSONS: Form = {  # a person stays within one block of rows
    "person_rows": or_none(whole(least=1, most=2**12)),
    "per_person": one_of(*WAYS),
}
# Of a norm, of corners and of sides: squares of other numbers overflow or vanish, for some rows.
MIN_MAGNITUDE, MAX_MAGNITUDE = 1e-150, 1e150


@dataclass(frozen=True)
class Bounds:
    """Public limits of a row: ball ``||x||₂ <= norm``, box ``lower <= x <= upper``, label set.

    Parameters
    ----------
    norm : float, optional
        Radius R of the L2 ball around zero.
    lower, upper : float or sequence of float, optional
        Corners of the box, one number for all features or one per feature.
    labels : sequence or "public", optional
        The possible labels, known before the data are seen. ``labels="public"`` declares that the
        set of labels found in the data is public knowledge; guarantees then say so.
    person_rows : int, optional
        The largest number of rows used per person, for unit "person".
    per_person : {"average", "sum"}, default="average"
        How a person's rows are added up: as their average, so that each person has one vote, or
        as their sum.

    Notes
    -----
    `clip` acts on each row alone, so it costs no budget: a row outside the box is moved to the
    nearest point of it, a row outside the ball is scaled back, a row with a missing or infinite
    number becomes the centre of `ball`, and a record with a label outside the set adds nothing to
    any sum. A cell that is not a number (text, a date, any object) counts as missing. No single row
    can make it raise or warn.

    Examples
    --------
    >>> from sfumato import Bounds
    >>> Bounds(norm=1.0).clip([[3.0, 4.0], [0.3, 0.4]]).round(6)
    array([[0.6, 0.8],
           [0.3, 0.4]])
    """

    norm: float | None = None
    lower: Any = None  # kept as a float or a tuple of floats
    upper: Any = None
    labels: Any = None  # kept as a tuple, or the word "public"
    person_rows: int | None = None
    per_person: str = "average"

    def __post_init__(self) -> None:
        for name in ("lower", "upper"):
            if (value := getattr(self, name)) is not None:
                corner = np.asarray(value, dtype=float)
                if corner.ndim > 1 or corner.size == 0 or not np.isfinite(corner).all():
                    raise InvalidInputError(f"'{name}' must be a number, or one per feature.")
                plain = float(corner) if corner.ndim == 0 else tuple(corner.tolist())
                object.__setattr__(self, name, plain)
        object.__setattr__(self, "labels", _label_set(self.labels))
        if self.norm is None and self.lower is None and self.upper is None and self.labels is None:
            raise MissingBoundsError(
                "Bounds need a 'norm', or 'lower' and 'upper', or 'labels'; "
                "for example Bounds(norm=1.0) or Bounds(lower=0.0, upper=1.0, labels=[0, 1])."
            )
        if (self.lower is None) != (self.upper is None):
            raise MissingBoundsError("A box needs both 'lower' and 'upper'.")
        if self.norm is not None and not MIN_MAGNITUDE <= self.norm <= MAX_MAGNITUDE:
            raise InvalidInputError(f"'norm' must lie between {MIN_MAGNITUDE} and {MAX_MAGNITUDE}.")
        check_parameters(self, PERSONS)
        if self.lower is None:
            return
        lower, upper = np.asarray(self.lower), np.asarray(self.upper)
        if lower.ndim and upper.ndim and lower.shape != upper.shape:
            raise InvalidInputError("'lower' and 'upper' must have one number per feature each.")
        if not np.all(lower < upper):
            raise InvalidInputError("'lower' must lie below 'upper' in every feature.")
        largest = max(np.abs(lower).max(), np.abs(upper).max())
        if largest > MAX_MAGNITUDE or np.min(upper - lower) < MIN_MAGNITUDE:
            raise InvalidInputError(
                f"'lower' and 'upper' must lie between {-MAX_MAGNITUDE} and {MAX_MAGNITUDE}, and "
                f"{MIN_MAGNITUDE} apart; rescale the data."
            )
        if self.norm is not None and not np.all((lower <= 0) & (upper >= 0)):
            raise InvalidInputError("A box used together with 'norm' must contain zero.")

    def box(self, n_features: int) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """Return the corners of the box for rows of `n_features`, or None without a box.

        Parameters
        ----------
        n_features : int
            Numbers of a row.

        Returns
        -------
        tuple of ndarray or None
            Lower and upper corner, one number per feature.
        """
        if self.lower is None:
            return None
        for corner in (self.lower, self.upper):
            if isinstance(corner, tuple) and len(corner) != n_features:
                raise InvalidInputError(
                    f"The bounds are given for {len(corner)} features, the rows have {n_features}."
                )
        return np.zeros(n_features) + self.lower, np.zeros(n_features) + np.asarray(self.upper)

    def ball(self, n_features: int) -> tuple[NDArray[np.float64], float]:
        """Return centre and radius of the smallest known ball that holds every clipped row.

        Parameters
        ----------
        n_features : int
            Numbers of a row.

        Returns
        -------
        tuple of ndarray and float
            Centre and radius.
        """
        self.require_features()
        origin = np.zeros(n_features)
        box = self.box(n_features)
        if box is None:
            assert self.norm is not None  # noqa: S101 - require_features leaves one of the two
            return origin, float(self.norm)
        centre = (box[0] + box[1]) / 2
        radius = float(np.linalg.norm((box[1] - box[0]) / 2))
        if self.norm is not None and self.norm <= radius:
            return origin, float(self.norm)
        return centre, radius

    @property
    def has_ranges(self) -> bool:
        """Whether each feature has a range of its own, and nothing else binds a row."""
        return self.norm is None and self.n_features is not None

    @property
    def n_features(self) -> int | None:
        """Number of features where the corners of the box name it, else None."""
        named = [corner for corner in (self.lower, self.upper) if isinstance(corner, tuple)]
        return len(named[0]) if named else None

    def require_features(self) -> None:
        """Raise `MissingBoundsError` unless a norm or a box is given."""
        if self.norm is None and self.lower is None:
            raise MissingBoundsError(
                "Bounds on the features are needed and are never learned from data: "
                "give Bounds(norm=...) or Bounds(lower=..., upper=...)."
            )

    def clip(self, X: ArrayLike) -> NDArray[np.float64]:
        """Make every row obey the bounds; idempotent, row by row, never raises for a value.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; any value.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            Rows inside the bounds.
        """
        # In one order of memory, for the length of a row is summed in it.
        rows = np.array(as_rows(X, self.n_features), dtype=np.float64, order="C")
        n_features = rows.shape[1]
        self.require_features()
        with np.errstate(over="ignore", invalid="ignore"):
            are_finite = math.isfinite(rows.sum())  # one pass; if not, it may be one of them
        if not are_finite:
            rows[~np.isfinite(rows).all(axis=1)] = self.ball(n_features)[0]  # [Q3] row by row
        box = self.box(n_features)
        if box is not None:
            np.clip(rows, box[0], box[1], out=rows)
        if self.norm is not None:
            # A hair inside the ball: the true norm of a float row then never passes the bound,
            # although its computed norm carries up to n_features/2 roundings, and a second clip
            # changes nothing.
            hair = max(2.0**-40, n_features * 2.0**-51)
            with np.errstate(over="ignore"):
                lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
                huge = ~np.isfinite(lengths)  # the squares overflow beyond 1e154
                rows[huge] *= 2.0**-600
                lengths[huge] = np.sqrt(np.einsum("ij,ij->i", rows[huge], rows[huge]))
            outside = huge | (lengths > self.norm * (1 - hair))
            rows[outside] *= (self.norm * (1 - 2 * hair) / lengths[outside])[:, None]
        return rows

    def clip_labels(self, y: ArrayLike) -> tuple[NDArray[np.intp], NDArray[Any]]:
        """Return the code of each label and the label set; unknown labels become the first one.

        Parameters
        ----------
        y : array-like of shape (n_samples,)
            Labels; any value.

        Returns
        -------
        tuple of ndarray
            Place of each label in the set, and the set.
        """
        given = as_cells(y)
        found = given
        if self.labels == PUBLIC_LABELS:
            try:  # a missing label is no class
                if given.dtype == object:
                    kinds, cells = (str, bytes, Real, np.generic), given.tolist()
                    found = np.asarray([c for c in cells if isinstance(c, kinds) and c == c])
                else:
                    found = given[given == given]
                check_classification_targets(found)
                found = np.unique(found if found.dtype != object else np.asarray(found.tolist()))
            except TypeError:
                raise InvalidInputError("The labels have no order: give labels=[...].") from None
            except ValueError as error:  # its first sentence, without the cells that it quotes
                words = str(error).partition("array=")[0].partition("\n")[0].rstrip(" :.")
                raise InvalidInputError(f"{words}.") from None
        if self.labels is None:
            raise MissingBoundsError(
                "The set of labels is needed and is never learned from data: Bounds(..., "
                "labels=[...]), or labels='public' if those in the data are public; of a "
                "table, TableBounds.from_dict(columns, target=...)."
            )
        labels = np.asarray(sorted(found if self.labels == PUBLIC_LABELS else self.labels))
        return np.maximum(label_places(labels, given), 0), labels  # [Q4] each label on its own


def label_places(labels: NDArray[Any], y: ArrayLike) -> NDArray[np.intp]:
    """Return the place of each label in a set, -1 for what is not in it; nothing raises."""
    given = as_cells(y)  # of what type, one odd label can decide: it shall make no difference
    if labels.dtype.kind in REAL_KINDS:
        numbers, ordered = as_numbers(given), as_numbers(labels)
        places = np.searchsorted(ordered, numbers).clip(max=len(labels) - 1)
        return np.where(ordered[places] == numbers, places, -1)
    known: dict[Any, int] = {label: place for place, label in enumerate(labels.tolist())}
    pairs = zip(as_numbers(labels).tolist(), labels.tolist(), strict=True)  # 7 is "7", not "007"
    for number, label in sorted(pairs, key=lambda p: p[1] not in (f"{p[0]:.0f}", repr(p[0]))):
        if not math.isnan(number):
            known.setdefault(number, known[label])
    codes = []
    for label in given.tolist():
        try:
            if isinstance(label, bytes) and label not in known:
                label = label.decode()
            found = known.get(label) if isinstance(label, str | bytes) else None
            codes.append(known.get(as_number(label), -1) if found is None else found)
        except Exception:  # not hashable, not comparable, not decodable: no label
            codes.append(-1)
    return np.array(codes, dtype=np.intp)


def _label_set(labels: Iterable[Any] | str | None) -> tuple[Any, ...] | str | None:
    if labels is None or isinstance(labels, str):
        if labels in (None, PUBLIC_LABELS):
            return labels
        raise InvalidInputError("'labels' must be a sequence of labels, or the word 'public'.")
    found = tuple(x.item() if isinstance(x, np.generic) else x for x in labels)
    if len(set(found)) != len(found) or not found:
        raise InvalidInputError("'labels' must name at least one label, each only once.")
    if len({isinstance(label, str) for label in found}) > 1:
        raise InvalidInputError("'labels' must be all text or all numbers.")
    numbers = [as_number(label) for label in found if isinstance(label, int | float)]
    if len({number for number in numbers if math.isfinite(number)}) != len(numbers):
        raise InvalidInputError(
            "'labels' that are numbers must be finite and differ as doubles: whole numbers beyond "
            "2**53 do not always. Use text instead."
        )
    return found
