"""What the attributes of a stored model must look like; each class says it of itself.

A class that can be saved declares ``stored_form``, one check for each learned attribute and for
the parameters that its answers read::

    stored_form = {"classes_": labels("c"), "weights_": numbers("c", "d"), "radius_": real()}

Sizes have names, and a name means the same number everywhere in a model; ``"d"`` is the number of
features. `sfumato.load` runs the checks, so that a file that fits answers, and any other is refused
before it is asked. What ties several attributes together stands in a method ``_check_stored``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Container, Mapping
from typing import Any

import numpy as np

from sfumato.exceptions import InvalidInputError, SfumatoError, StoredModelError
from sfumato.privacy.guarantee import Guarantee

Sizes = dict[str, int]
Check = Callable[[Any, str, Sizes], None]
Form = Mapping[str, Check]
Size = str | int | None  # the name of a size, perhaps with "+1"; a number; or any

MAX_MAGNITUDE = 1e150  # squares of larger numbers overflow; `Bounds` allows no larger norm
MAX_FLOAT32 = 1e18  # the same in single precision
_SIZE = re.compile(r"(\w+)(?:\+(\d+))?")


def check_parameters(owner: Any, form: Form, names: Container[str] | None = None) -> None:
    """Refuse the first parameter, of all or of some, that is not what its form asks for."""
    for name, check in form.items():
        if names is not None and name not in names:
            continue
        value = getattr(owner, name)
        try:
            check(value, name, {})
        except UnfitValueError as unfit:
            raise InvalidInputError(
                f"'{unfit.place}' must be {unfit.wanted}. Got {value!r} instead."
            ) from None


def check_stored(model: Any) -> None:
    """Refuse a model whose attributes do not fit the form that its class declares."""
    form = getattr(type(model), "stored_form", None)
    learned = {name for name in vars(model) if name.endswith("_") and not name.startswith("_")}
    if form is None or not learned:
        return
    form = {**_COMMON, **form}
    form["bounds"] = form.pop("bounds")  # last: arrays have told how many features there are
    unknown = sorted(learned - form.keys())
    if unknown:
        raise StoredModelError(f"A {type(model).__name__} has no attribute {unknown[0]!r}.")
    sizes: Sizes = {}
    for name, check in form.items():
        if hasattr(model, name):
            check(getattr(model, name), name, sizes)
        elif not getattr(check, "may_be_missing", False):
            raise StoredModelError(f"Its attribute {name!r} is missing.")
    together = getattr(model, "_check_stored", None)
    if together is not None:
        together(sizes)


class UnfitValueError(StoredModelError):
    """A value that is not what its form asks for."""

    def __init__(self, place: str, wanted: str) -> None:
        super().__init__(f"Its value {place!r} must be {wanted}.")
        self.place, self.wanted = place, wanted


refuse = UnfitValueError  # as in `raise refuse(place, wanted)`


def size_of(size: str, sizes: Sizes) -> int:
    """Return a size that has been met, as in "k" or "k+1"."""
    match = _SIZE.fullmatch(size)
    assert match is not None  # noqa: S101 - a declaration of ours
    return sizes[match[1]] + int(match[2] or 0)


# Arrays ---------------------------------------------------------------------------------------


def numbers(
    *shape: Size,
    least: float = -MAX_MAGNITUDE,
    above: float = -math.inf,
    most: float = MAX_MAGNITUDE,
) -> Check:
    """Ask for an array of finite real numbers of this shape, between `least` and `most`."""

    def check(value: Any, place: str, sizes: Sizes) -> None:
        _shaped(value, "f", shape, place, sizes)
        if not value.size:
            return
        low, high = float(value.min()), float(value.max())  # NaN if any is, and compares false
        is_single = value.dtype == np.float32 and not math.isinf(high)
        has_squares = not is_single or max(-low, high) <= MAX_FLOAT32
        if not (least <= low and above < low and high <= most and has_squares):
            start = f"above {above:g}" if above >= least else f"from {least:g}"
            raise refuse(place, f"numbers {start} to {most:g}")

    return check


def integers(*shape: Size, below: Size = None, all_of_them: bool = False) -> Check:
    """Ask for an array of whole numbers from 0 on, below a size; perhaps each of those."""

    def check(value: Any, place: str, sizes: Sizes) -> None:
        _shaped(value, "iu", shape, place, sizes)
        end = size_of(below, sizes) if isinstance(below, str) else below
        if value.size and not (value.min() >= 0 and (end is None or value.max() < end)):
            raise refuse(place, "whole numbers from 0, each within its range")
        if all_of_them and len(np.unique(value)) != end:
            raise refuse(place, "whole numbers without a gap")

    return check


def labels(size: str) -> Check:
    """Ask for a set of labels, sorted, each of them once."""

    def check(value: Any, place: str, sizes: Sizes) -> None:
        _shaped(value, "biufUO", (size,), place, sizes)
        listed_once = sorted(set(value.tolist())) == value.tolist()  # fails for NaN
        if not (len(value) and listed_once) or (
            value.dtype.kind == "f" and not np.isfinite(value).all()
        ):
            raise refuse(place, "labels, sorted, each of them once")

    return check


def _names(value: Any, place: str, sizes: Sizes) -> None:
    _shaped(value, "UO", ("d",), place, sizes)


def _shaped(value: Any, kinds: str, shape: tuple[Size, ...], place: str, sizes: Sizes) -> None:
    is_array = isinstance(value, np.ndarray) and value.dtype.kind in kinds
    if not is_array or value.ndim != len(shape):
        raise refuse(place, f"an array of {len(shape)} dimensions, of a number type that fits")
    for wanted, found in zip(shape, value.shape, strict=True):
        _meet(wanted, found, place, sizes)


def _meet(wanted: Size, found: int, place: str, sizes: Sizes) -> None:
    """Compare a size with its name, which it gives a meaning where it has none yet."""
    if wanted is None:
        return
    if isinstance(wanted, str):
        match = _SIZE.fullmatch(wanted)
        assert match is not None  # noqa: S101 - a declaration of ours
        wanted = sizes.setdefault(match[1], found - int(match[2] or 0)) + int(match[2] or 0)
    if found != wanted:
        raise refuse(place, f"an array whose sizes fit the others: {wanted}, not {found}")


# Single values --------------------------------------------------------------------------------


def real(
    *,
    least: float = -MAX_MAGNITUDE,
    above: float = -math.inf,
    most: float = MAX_MAGNITUDE,
    below: float = math.inf,
) -> Check:
    """Ask for one real number; finite, unless `most` is infinite."""

    def check(value: Any, place: str, sizes: Sizes) -> None:  # noqa: ARG001
        is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
        if isinstance(value, np.ndarray) and value.ndim == 0 and value.dtype.kind == "f":
            is_number, value = True, float(value)
        inside = is_number and least <= value <= most and above < value
        if not inside or (below < math.inf and not value < below):
            low = f"({above:g}" if above >= least else f"[{least:g}"
            high = f"{below:g})" if below <= most else f"{most:g}]"
            raise refuse(place, f"a number in {low}, {high}")

    return check


def whole(size: str | None = None, *, least: int = 0, most: Size = 2**62) -> Check:
    """Ask for a whole number; with `size`, it is that size."""

    def check(value: Any, place: str, sizes: Sizes) -> None:
        end = size_of(most, sizes) if isinstance(most, str) else most
        is_whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if not is_whole or not least <= value <= (2**62 if end is None else end):
            ends = f"from {least} on" if end in (None, 2**62) else f"between {least} and {end}"
            raise refuse(place, f"a whole number {ends}")
        if size is not None:
            _meet(size, value, place, sizes)

    return check


def one_of(*choices: Any) -> Check:
    """Ask for one of a few values."""

    def check(value: Any, place: str, sizes: Sizes) -> None:  # noqa: ARG001
        if not any(type(value) is type(choice) and value == choice for choice in choices):
            raise refuse(place, f"one of {', '.join(map(repr, choices))}")

    return check


def flag() -> Check:
    """Ask for a truth value."""
    return one_of(True, False)


# Values made of others ------------------------------------------------------------------------


def or_none(check: Check) -> Check:
    """Let a value be None."""
    return lambda value, place, sizes: None if value is None else check(value, place, sizes)


def optional(check: Check) -> Check:
    """Let an attribute be None, or not be there."""
    checked = or_none(check)
    checked.may_be_missing = True  # type: ignore[attr-defined]
    return checked


def record(**checks: Check) -> Check:
    """Ask for a dict with these keys and no others."""

    def check(value: Any, place: str, sizes: Sizes) -> None:
        if not isinstance(value, dict) or value.keys() != checks.keys():
            raise refuse(place, f"a record of {', '.join(checks)}")
        for name, each in checks.items():
            each(value[name], f"{place}.{name}", sizes)

    return check


def local(check: Check, **renamed: str) -> Check:
    """Rename the sizes inside a value; `renamed` says which are known."""

    def checked(value: Any, place: str, sizes: Sizes) -> None:
        check(value, place, {inside: sizes[outside] for inside, outside in renamed.items()})

    return checked


def list_of(check: Check, *, least: int = 1, size: Size = None, kind: Any = list) -> Check:
    """Ask for a list; names of sizes that are new in an item are its own."""

    def checked(value: Any, place: str, sizes: Sizes) -> None:
        items: Any = value
        if not isinstance(value, kind) or len(items) < least:
            raise refuse(place, f"a list of {least} or more")
        _meet(size, len(items), place, sizes)
        for i, item in enumerate(items):
            check(item, f"{place}[{i}]", dict(sizes))

    return checked


def model_of(*names: str, **attributes: str) -> Check:
    """Ask for a fitted model of one of these classes; sizes of its attributes are met.

    ``model_of("AffineHullClassifier", n_features_in_="d", classes_="c")``.
    """

    def check(value: Any, place: str, sizes: Sizes) -> None:
        if type(value).__name__ not in names:
            raise refuse(place, f"a {' or '.join(names)}")
        for name, size in attributes.items():
            if not hasattr(value, name):
                raise refuse(place, "a fitted model")
            found = getattr(value, name)
            _meet(size, found if isinstance(found, int) else len(found), place, sizes)

    return check


def known_bounds(value: Any, place: str, sizes: Sizes) -> None:
    """Ask for public bounds of rows of d numbers."""
    from sfumato.tables.bounds import Bounds  # here: tables stand above
    from sfumato.tables.encoder import TableEncoder
    from sfumato.tables.schema import TableBounds

    try:
        if isinstance(value, TableBounds):
            extra = (0, value.target_range is not None)  # a fabricator reads a numeric target too
            widths = (TableEncoder(value).width, len(value.features))
            if sizes["d"] not in {width + more for width in widths for more in extra}:
                raise refuse(place, f"bounds of a table with {sizes['d']} numbers per record")
            return
        if not isinstance(value, Bounds):
            raise refuse(place, "public bounds")
        value.ball(sizes["d"])
    except SfumatoError as error:
        raise StoredModelError(f"Its bounds do not fit: {error}") from None


def guarantee(value: Any, place: str, sizes: Sizes) -> None:  # noqa: ARG001
    """Ask for a guarantee."""
    if not isinstance(value, Guarantee):
        raise refuse(place, "a guarantee")


def n_jobs(value: Any, place: str, sizes: Sizes) -> None:
    """Ask for a number of workers, as joblib takes it."""
    if value is not None:
        whole(least=-4096, most=4096)(value, place, sizes)
        if value == 0:
            raise refuse(place, "None or a whole number other than 0; -1 stands for all cores")


def random_state(value: Any, place: str, sizes: Sizes) -> None:
    """Ask for a source of public randomness, as scikit-learn takes it."""
    if value is not None and not isinstance(value, np.random.RandomState):
        whole(most=2**32 - 1)(value, place, sizes)


COMMON_PARAMETERS: Form = {"random_state": random_state, "n_jobs": n_jobs}
_COMMON: Form = {
    "n_features_in_": whole("d", least=1, most=2**32),
    "feature_names_in_": optional(_names),
    "guarantee_": optional(guarantee),
    "bounds": optional(known_bounds),
    "n_jobs": optional(n_jobs),
}
