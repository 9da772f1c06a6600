"""What the fields of forms mean: columns that are confirmed at once, and requests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sfumato.exceptions import InvalidInputError
from sfumato.tables.columns import arrow_kind

TYPES = ("double", "int64", "string", "bool", "date32[day]", "timestamp[s]")
WRITTEN = ("delimiter", "decimal", "thousands", "encoding")


def columns_to_confirm(dataset: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the columns of a proposal as the page shows them, the target first."""
    bounds, notes = dataset["bounds"], dataset.get("notes") or {}
    found = [(name, record, False) for name, record in bounds["columns"].items()]
    if bounds.get("target"):
        found.insert(0, (bounds["target"]["column"], bounds["target"], True))
    words = ("type", "lower", "upper", "format", "fill", "decimals")
    return [
        {
            **{key: record.get(key, "") for key in words},
            **{key: record.get(key, False) for key in ("left_out", "log", "missing", "ordered")},
            "name": name,
            "is_target": is_target,
            "note": notes.get(name, ""),
            "listed": values if isinstance(values, list) else None,
            "is_number": bool(arrow_kind(str(record["type"]))),
            "parts": ", ".join(record.get("parts", ())),
        }
        for name, record, is_target in found
        for values in (record.get("categories") or record.get("labels"),)
    ]


def opening(form: Mapping[str, str]) -> dict[str, Any]:
    """Return what the one form of confirmation declares; fields are numbered by column."""
    told: dict[str, Any] = {"columns": {}, "one_row_per_person": "one_row_per_person" in form}
    for key, name in form.items():
        field, _, place = key.partition(":")
        if field != "column":
            continue
        own = {
            f: v.strip() for k, v in form.items() for f, _, p in [k.partition(":")] if p == place
        }
        is_target = "is_target" in own
        try:
            facts = _facts(own, is_target)
        except InvalidInputError as error:
            raise InvalidInputError(f"{name}: {error}") from None
        if is_target:
            told["target"] = facts
        else:
            told["columns"][name] = facts
    if "is_text" in form:
        words = [line.strip() for line in form.get("words", "").splitlines() if line.strip()]
        told["file"] = {**{key: form.get(key, "") for key in WRITTEN}, "missing": words}
    for key in ("person_rows", "per_person", "protected"):
        if form.get(key, "").strip():
            told[key] = form[key].strip()
    if form.get("epsilon", "").strip():
        told["epsilon"] = number(form["epsilon"])
    return told


def _facts(own: Mapping[str, str], is_target: bool) -> dict[str, Any]:
    """Return what is declared about one column, in the types of the column."""
    declared = own.get("type", "")
    kind = arrow_kind(declared) if declared in TYPES else ""
    facts: dict[str, Any] = {"type": declared}
    if not is_target:
        if "left_out" in own:
            return {**facts, "left_out": True}
        facts |= {key: True for key in ("log", "missing", "ordered") if key in own}
        if own.get("fill"):
            facts["fill"] = _typed(own["fill"], kind)
        if own.get("decimals"):
            facts["decimals"] = _typed(own["decimals"], "i")
        parts = [part.strip() for part in own.get("parts", "").split(",") if part.strip()]
        facts |= {"parts": parts} if parts else {}
        facts |= {"format": own["format"]} if own.get("format") else {}
    if own.get("values"):
        lines = [line.strip() for line in own["values"].splitlines() if line.strip()]
        facts["labels" if is_target else "categories"] = [_typed(one, kind) for one in lines]
    for key in ("lower", "upper"):
        if own.get(key) and kind != "b":  # true or false has no range to state
            facts[key] = _typed(own[key], kind)
    return facts


def number(text: str) -> float:
    """Read a number, with a decimal point or comma."""
    plain = text.strip()
    if plain.count(",") == 1 and "." not in plain:
        plain = plain.replace(",", ".")
    try:
        return float(plain)
    except ValueError:
        raise InvalidInputError(f"{text!r} is not a number.") from None


def _typed(text: str, kind: str) -> Any:
    if not kind:
        return text
    if kind == "b":
        return text.lower() in ("true", "1", "yes")
    found = number(text)
    return int(found) if kind in ("i", "u") and found.is_integer() else found


def request_of(form: Mapping[str, str]) -> dict[str, Any]:
    """Return the request that a form makes."""
    kind = form.get("kind", "fit")
    asked: dict[str, Any] = {"kind": kind, "epsilon": number(form.get("epsilon", ""))}
    asked["purpose"] = form.get("purpose", "")
    try:
        asked["parameters"] = json.loads(form.get("parameters") or "{}")
    except (ValueError, RecursionError):
        raise InvalidInputError("The settings of the model are not valid JSON.") from None
    if kind == "fit":
        asked["estimator"] = form.get("estimator")
    if kind in ("density", "curve"):
        asked["columns"] = [one for key, one in form.items() if key.startswith("column:")]
    if kind == "fabricate" and form.get("rows", "").strip():
        asked["rows"] = int(number(form["rows"]))
    return asked
