"""What the page of the API says of a route, taken from the description of the API itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def documented(
    described: Mapping[str, Any], method: str, path: str, about: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what a reader wants to know of one route."""
    schemas = described["components"]["schemas"]
    content = about.get("requestBody", {}).get("content", {})
    named = content.get("application/json", {}).get("schema", {}).get("$ref", "")
    body = schemas.get(named.rpartition("/")[2], {})
    required = body.get("required", [])
    words = about.get("description", "").replace("`", "").split("\n\n")
    return {
        "method": method.upper(),
        "path": path,
        "words": words,
        "roles": about.get("x-roles", []),
        "query": [
            _field(one["name"], {**one, **one["schema"]}, one.get("required", False))
            for one in about.get("parameters", ())
            if one["in"] == "query"
        ],
        "fields": [
            _field(name, one, name in required) for name, one in body.get("properties", {}).items()
        ],
    }


def _field(name: str, schema: Mapping[str, Any], is_required: bool) -> dict[str, Any]:
    return {
        "name": name,
        "kind": _kind(schema),
        "required": is_required,
        "about": str(schema.get("description", "")).replace("`", ""),
    }


def _kind(schema: Mapping[str, Any]) -> str:
    """Return in a few words what a field holds."""
    if "enum" in schema:
        return " or ".join(str(one) for one in schema["enum"])
    if "anyOf" in schema:
        kinds = [_kind(one) for one in schema["anyOf"] if one.get("type") != "null"]
        return " or ".join(dict.fromkeys(kinds))
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {})) or 'values'}"
    plain = {"string": "text", "integer": "whole number", "number": "number"}
    plain |= {"boolean": "true or false", "object": "values by name"}
    return plain.get(str(schema.get("type", "")), "value")
