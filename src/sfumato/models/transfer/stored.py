"""What a stored transfer must hold, so that it can answer."""

from __future__ import annotations

from typing import Any

from sfumato.core.constraints import (
    MAX_FLOAT32,
    Form,
    flag,
    labels,
    listed,
    local,
    model_of,
    numbers,
    one_of,
    optional,
    or_none,
    real,
    record,
    refuse,
    seed,
    whole,
)
from sfumato.models.gaussians import stored_gaussians
from sfumato.models.transfer.start import LABELS, SHAPE, SOURCE
from sfumato.privacy.guarantee import Guarantee
from sfumato.tables.bounds import Bounds


def _bounds(value: Any, place: str, sizes: dict[str, int]) -> None:
    if not isinstance(value, Bounds):
        raise refuse(place, "public bounds")
    value.ball(sizes["e"])


def _promise(value: Any, place: str, sizes: dict[str, int]) -> None:  # noqa: ARG001
    if not isinstance(value, Guarantee):
        raise refuse(place, "a guarantee")


def _counts(value: Any, place: str, sizes: dict[str, int]) -> None:  # noqa: ARG001
    if not isinstance(value, dict) or not all(type(n) is int and n >= 0 for n in value.values()):
        raise refuse(place, "how many rows each term decided")


_moved = record(**stored_gaussians())
_released = record(
    centre=numbers("e"), basis=numbers("e", "k"), radius=real(above=0.0), **stored_gaussians()
)

_further = record(
    source=local(_released, e="e", g="c"),
    adapted=or_none(local(_moved, g="c")),
    start=or_none(one_of(SOURCE, SHAPE, LABELS)),
    weight=real(least=0.0, most=1.0),
)

STORED_TRANSFER: Form = {
    "n_source_features_": whole("e", least=1),
    "classes_": labels("c"),
    "use_source": flag(),
    "random_state": seed(),
    "bounds": optional(lambda *_: None),  # `source_bounds_` is what answers read
    "source_guarantee_": _promise,
    "target_guarantee_": optional(_promise),
    "source_": local(_released, e="e", g="c"),
    "more_sources_": optional(listed(_further)),
    "source_guarantees_": optional(listed(_promise)),
    "target_": optional(local(_released, e="e", g="c")),
    "target_centre_": optional(numbers("d", least=-MAX_FLOAT32, most=MAX_FLOAT32)),
    "target_directions_": optional(numbers("d", "t", least=-2.0, most=2.0)),
    "target_classifier_": optional(model_of("MembershipClassifier")),
    "adapted_": optional(local(_moved, g="c")),
    "start_": optional(one_of(SOURCE, SHAPE, LABELS)),
    "source_weight_": optional(real(least=0.0, most=1.0)),
    "labels_": optional(lambda *_: None),  # the target's own, read by nothing here
    "winners_": optional(_counts),
    "source_bounds_": _bounds,
}


def check_transfer(model: Any, sizes: dict[str, int]) -> None:
    """Refuse a transfer whose parts do not belong together."""
    has_target = hasattr(model, "target_classifier_") or hasattr(model, "target_")
    needed: set[str] = set()
    if has_target:
        needed = _needed_by_target(model)
    elif sizes["d"] != sizes["e"]:
        raise refuse("n_source_features_", "the number of features, where there is no target")
    missing = sorted(name for name in needed if getattr(model, name, None) is None)
    if missing:
        raise refuse(missing[0], "there, for this target")
    codes = getattr(getattr(model, "target_classifier_", None), "classes_", None)
    if codes is not None and (codes.dtype.kind not in "iu" or codes[-1] >= sizes["c"]):
        raise refuse("target_classifier_", "a classifier of codes of the labels")
    for each in active_sources(model) if hasattr(model, "adapted_") else ():
        if each["adapted"] is None:
            raise refuse("more_sources_", "moved to this target")
        order = len(each["adapted"]["means"][0])
        began = each["source"]["basis"].shape[1] if each["start"] == SOURCE else sizes["t"]
        if order != began:
            raise refuse("adapted_", "Gaussians in the coordinates that they began in")
    _check_target_width(model, sizes)


def active_sources(model: Any) -> list[dict[str, Any]]:
    """Return what a fitted transfer holds of each source: released, moved, origin, weight."""
    first: dict[str, Any] = {
        "source": model.source_,
        "adapted": getattr(model, "adapted_", None),
        "start": getattr(model, "start_", None),
        "weight": getattr(model, "source_weight_", 0.0),
    }
    return [first, *getattr(model, "more_sources_", ())]


def _needed_by_target(model: Any) -> set[str]:
    needed = {"source_weight_"}
    if hasattr(model, "target_classifier_"):
        needed |= {"target_centre_", "target_directions_"}
        needed |= {"adapted_", "start_"} if model.use_source else set()
    return needed


def _check_target_width(model: Any, sizes: dict[str, int]) -> None:
    """Compare what the target's classifier reads with what it is given."""
    if not hasattr(model, "target_classifier_"):
        if hasattr(model, "target_") and sizes["d"] != sizes["e"]:
            raise refuse("target_", "that of a target with the features of the source")
        return
    given = sizes.get("t", sizes["e"])
    if model.target_classifier_.n_features_in_ != given:
        raise refuse("target_classifier_", f"a classifier of rows of {given} numbers")
