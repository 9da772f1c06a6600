"""What the fields of forms mean."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sfumato.exceptions import InvalidInputError
from sfumato.tables.columns import arrow_kind

TYPES = ("double", "int64", "string", "bool", "date32[day]", "timestamp[s]")


def columns_to_confirm(dataset: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the columns of a proposal as the page shows them."""
    bounds, notes = dataset["bounds"], dataset.get("notes") or {}
    found = [(name, record, False) for name, record in bounds["columns"].items()]
    if bounds.get("target"):
        found.append((bounds["target"]["column"], bounds["target"], True))
    if bounds.get("person"):
        found.append((bounds["person"], {"type": "ID of a person", "left_out": True}, False))
    return [
        {
            "name": name,
            "type": record["type"],
            "is_target": is_target,
            "confirmed": name in dataset["confirmed"],
            "note": notes.get(name, ""),
            "left_out": record.get("left_out", False),
            "lower": record.get("lower", ""),
            "upper": record.get("upper", ""),
            "listed": values if isinstance(values, list) else None,
            "is_number": bool(arrow_kind(str(record["type"]))),
            "log": record.get("log", False),
            "missing": record.get("missing", False),
            "parts": ", ".join(record.get("parts", ())),
            "format": record.get("format", ""),
            "ordered": record.get("ordered", False),
            "fill": record.get("fill", ""),
            "decimals": record.get("decimals", ""),
            "weights": "\n".join(str(one) for one in record.get("weights") or ()),
            "is_person": name == bounds.get("person"),
            "person_rows": bounds.get("person_rows", ""),
            "per_person": bounds.get("per_person", "average"),
        }
        for name, record, is_target in found
        for values in (record.get("categories") or record.get("labels"),)
    ]


def column_facts(
    dataset: Mapping[str, Any], column: str, form: Mapping[str, str]
) -> dict[str, Any]:
    """Return what a form declares about a column, in the types of the column."""
    bounds = dataset["bounds"]
    is_target = bool(bounds.get("target")) and bounds["target"]["column"] == column
    if column == bounds.get("person"):
        rows = form.get("person_rows", "").strip()
        about: dict[str, Any] = {"person_rows": _typed(rows, "i")} if rows else {}
        return about | ({"per_person": form["per_person"]} if form.get("per_person") else {})
    record = bounds["target"] if is_target else bounds["columns"].get(column, {})
    declared = form.get("type", "").strip() or str(record.get("type", ""))
    kind = arrow_kind(declared) if declared in TYPES else ""
    told: dict[str, Any] = {"type": declared}
    if "left_out" in form and not is_target:
        return told | {"left_out": True}
    if not is_target:
        told |= {key: True for key in ("log", "missing", "ordered") if key in form}
        if form.get("fill", "").strip():
            told["fill"] = _typed(form["fill"].strip(), kind)
        if form.get("decimals", "").strip():
            told["decimals"] = _typed(form["decimals"].strip(), "i")
        if weights := form.get("weights", "").split():
            told["weights"] = [_typed(one, "f") for one in weights]
        parts = [part.strip() for part in form.get("parts", "").split(",") if part.strip()]
        told |= {"parts": parts} if parts else {}
        told |= {"format": form["format"].strip()} if form.get("format", "").strip() else {}
    if form.get("values", "").strip():
        lines = [line.strip() for line in form["values"].splitlines() if line.strip()]
        told["labels" if is_target else "categories"] = [_typed(one, kind) for one in lines]
    for key in ("lower", "upper"):
        if form.get(key, "").strip() and kind != "b":  # true or false has no range to state
            told[key] = _typed(form[key].strip(), kind)
    return told


def _typed(text: str, kind: str) -> Any:
    if not kind:
        return text
    if kind == "b":
        return text.lower() in ("true", "1", "yes")
    try:
        number = float(text)
    except ValueError:
        raise InvalidInputError(f"{text!r} is no number.") from None
    return int(number) if kind in ("i", "u") and number.is_integer() else number


def new_job(form: Mapping[str, str]) -> dict[str, Any]:
    """Return the request that a form makes."""
    kind = form.get("kind", "fit")
    asked: dict[str, Any] = {
        "kind": kind,
        "epsilon": form.get("epsilon", ""),
        "purpose": form.get("purpose", ""),
    }
    try:
        asked["parameters"] = json.loads(form.get("parameters") or "{}")
    except json.JSONDecodeError:
        raise InvalidInputError("The settings of the model are not valid JSON.") from None
    if kind in ("fit", "search"):
        asked["estimator"] = form.get("estimator")
    if kind == "search":
        asked["grid"] = {}  # one setting per line: a name, a colon, values separated by commas
        for line in filter(str.strip, form.get("grid", "").splitlines()):
            name, colon, values = line.partition(":")
            if not colon or not values.strip():
                raise InvalidInputError(
                    "Settings to try are written one per line, such as 'learning_rate: 0.1, 1'."
                )
            tried = asked["grid"][name.strip()] = []
            for one in filter(None, map(str.strip, values.split(","))):
                try:
                    tried.append(json.loads(one))
                except ValueError:
                    tried.append(one)
    if kind in ("density", "curve"):
        names = form.get("columns", "").split(",")
        asked["columns"] = [name.strip() for name in names if name.strip()]
    if kind == "fabricate" and form.get("rows", "").strip():
        asked["rows"] = form["rows"].strip()
    return asked
