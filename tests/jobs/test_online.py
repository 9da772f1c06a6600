"""A density that is asked point by point: its values, its sensitivity, and what it refuses."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from sfumato import Ledger
from sfumato.exceptions import InvalidInputError, StoredModelError
from sfumato.jobs.online import _density, answer_online, begin_online, require_answers
from sfumato.jobs.pipeline import PrivacyRequest
from sfumato.tables import TableBounds
from sfumato.tables.files import TableFile

BOUNDS = TableBounds.from_dict({"age": (0, 100), "town": ["a", "b"]})


def written(path: Path, ages: list[str]) -> TableFile:
    path.write_text("\n".join(["age,town", *(f"{age},a" for age in ages)]) + "\n")
    return TableFile(path)


def test_the_density_is_the_sum_of_kernels(tmp_path: Path) -> None:
    ages = ["10", "40.5", "", "old", "1e9"]
    density, _ = _density(written(tmp_path / "a.csv", ages), BOUNDS, "age", 5.0)
    at = 33.0
    near = [math.exp(-abs(at - x) / 5) for x in (10.0, 40.5, 100.0)]
    assert density(np.array([[at]]))[0] == pytest.approx(sum(near) / 10 / 5, rel=1e-14)


@pytest.mark.parametrize("other", ["0", "100", "", "50"])
def test_one_record_moves_it_no_further_than_said(tmp_path: Path, other: str) -> None:
    """‖f - f'‖² = wᵀ K w over all centres, by brute force; two far ones come near the bound."""
    ages = ["0", "17", "50", "51"]
    one, sensitivity = _density(written(tmp_path / "a.csv", ages), BOUNDS, "age", 5.0)
    two, _ = _density(written(tmp_path / "b.csv", [other, *ages[1:]]), BOUNDS, "age", 5.0)
    centres = np.concatenate([one.cells, two.cells])
    weights = np.repeat([one.height, -two.height], [len(one.cells), len(two.cells)])
    kernel = np.exp(-np.abs(centres[:, None] - centres[None]) / 5)
    distance = math.sqrt(max(0.0, weights @ kernel @ weights))
    assert distance <= sensitivity * (1 + 1e-12)
    if other == "100":
        assert distance > 0.99 * sensitivity


def test_charged_once_and_never_contradicted(tmp_path: Path) -> None:
    source = written(tmp_path / "a.csv", [str(age) for age in range(1, 90)])
    ledger = Ledger(tmp_path / "ledger.db").create("d", epsilon=2.0, delta=1e-5)
    store = {"store": tmp_path / "answers.db", "name": "ages"}
    promise = PrivacyRequest(1.0, 1e-5, ledger=ledger)
    promised = begin_online(source, BOUNDS, promise, column="age", **store)
    assert promised.epsilon == 1.0
    first = answer_online(source, BOUNDS, [20.0, 30.0], column="age", **store)
    again = answer_online(source, BOUNDS, [30.0, 25.0], column="age", **store)
    assert again[0] == first[1]
    assert len(ledger.history()) == 1
    require_answers(store["store"], "ages", [[20.0], [25.0]], [first[0], again[1]])
    with pytest.raises(StoredModelError, match="lost"):
        require_answers(store["store"], "ages", [[20.0]], [first[0] + 1e-12])


def test_what_is_promised_does_not_depend_on_cells(tmp_path: Path) -> None:
    promised = [
        begin_online(
            written(tmp_path / f"{number}.csv", ages),
            BOUNDS,
            PrivacyRequest(1.0, 1e-5),
            column="age",
            store=tmp_path / "answers.db",
            name=f"ages {number}",
        )
        for number, ages in enumerate((["1", "2", "3"], ["", "text", "1e300"]))
    ]
    assert promised[0] == promised[1]


@pytest.mark.parametrize(
    ("column", "bandwidth", "promise"),
    [
        ("town", None, {}),
        ("nothing", None, {}),
        ("age", -1.0, {}),
        ("age", 101.0, {}),
        ("age", math.nan, {}),
        ("age", None, {"unit": "person"}),
        ("age", None, {"relation": "add_or_remove_one"}),
        ("age", None, {"delta": 0.0}),
    ],
)
def test_what_is_refused_costs_nothing(
    tmp_path: Path, column: str, bandwidth: float | None, promise: dict[str, object]
) -> None:
    source = written(tmp_path / "a.csv", ["1", "2", "3"])
    ledger = Ledger(tmp_path / "ledger.db").create("d", epsilon=2.0, delta=1e-5)
    asked = PrivacyRequest(**{"epsilon": 1.0, "delta": 1e-5, "ledger": ledger, **promise})  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError):
        begin_online(source, BOUNDS, asked, column=column, bandwidth=bandwidth)
    assert ledger.history() == []
