"""The model of a table is chosen by public facts alone."""

from __future__ import annotations

from typing import Any

import pytest

from sfumato import TableBounds
from sfumato.cli.jobs.pipeline import PrivacyRequest, default_model


def bounds(n_columns: int, target: Any) -> TableBounds:
    columns: dict[str, Any] = {f"x{place}": (0, 1) for place in range(n_columns)}
    return TableBounds.from_dict({**columns, "y": target}, target="y")


@pytest.mark.parametrize(
    ("n_columns", "target", "promise", "n_rows", "wanted"),
    [
        (5, ["a", "b"], PrivacyRequest(1.0, relation="add_or_remove_one"), None, "additive"),
        (300, ["a", "b"], PrivacyRequest(1.0, relation="add_or_remove_one"), None, "linear"),
        (30, ["a", "b"], PrivacyRequest(1.0), 100, "linear"),
        (30, ["a", "b"], PrivacyRequest(1.0), 400, "additive"),
        (30, ["a", "b"], PrivacyRequest(0.1), 1000, "linear"),
        (5, (0, 9), PrivacyRequest(1.0), 100, "additive-regressor"),
    ],
)
def test_the_rule(
    n_columns: int, target: Any, promise: PrivacyRequest, n_rows: int | None, wanted: str
) -> None:
    assert default_model(bounds(n_columns, target), promise, n_rows) == wanted
