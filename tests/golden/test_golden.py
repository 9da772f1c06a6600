"""Every release is the one that was recorded; see `tests.golden.record`.

SFUMATO_GOLDEN=bits asks for learned numbers and answers to the bit, on the machine of the record.
"""

from __future__ import annotations

import copy
import json
import os
from dataclasses import replace
from typing import Any

import pytest

from tests.golden.cases import ALL, cases
from tests.golden.record import FOLDER, differences, recorded
from tests.test_common import CASES

BITS = os.environ.get("SFUMATO_GOLDEN") == "bits"


@pytest.mark.parametrize("subject", ALL)
def test_releases_are_those_recorded(subject: str) -> None:
    kept = json.loads((FOLDER / f"{subject}.json").read_text())
    found = cases(subject)
    assert list(found) == list(kept)
    said = [
        f"{name}: {fault}"
        for name, case in found.items()
        for fault in differences(
            kept[name], json.loads(json.dumps(recorded(case))), case.loose, bits=BITS
        )
    ]
    assert not said, "\n".join(said)


def test_every_private_estimator_is_recorded() -> None:
    text = (FOLDER / "cases.py").read_text()
    assert [name for name in CASES if f".{name}" not in text] == []


def test_a_difference_is_found() -> None:
    """Another draw, another bit of a sum, another event or a lost attribute do not pass."""
    name, case = next(iter(cases("linear_regressor").items()))
    kept = json.loads((FOLDER / "linear_regressor.json").read_text())[name]

    def said(found: dict[str, Any], *, bits: bool = False) -> list[str]:
        return differences(kept, found, {}, bits=bits)

    assert said(json.loads(json.dumps(recorded(replace(case, seed=1)))))
    assert not said(kept, bits=True)
    for path, value in (
        (("releases", 2, "hash"), "0"),
        (("releases", 2, "released"), "0"),
        (("events",), {}),
        (("charged",), []),
        (("learned",), {}),
        (("learned", "coef_"), {**kept["learned"]["coef_"], "hash": "0", "numbers": [1.0] * 4}),
    ):
        found: Any = copy.deepcopy(kept)
        place = found
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = value
        assert len(said(found)) > 0, path
    nearly = copy.deepcopy(kept)
    nearly["learned"]["coef_"]["hash"] = "0"
    nearly["learned"]["coef_"]["numbers"][0] *= 1 + 1e-10
    assert not said(nearly)
    assert said(nearly, bits=True)
