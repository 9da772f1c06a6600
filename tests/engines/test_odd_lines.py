"""One odd line of a text file is no error, wherever files are opened by their path."""

from __future__ import annotations

from pathlib import Path

import pytest

from sfumato import Bounds, PrivateLinearClassifier, PrivateMoments, TableBounds
from sfumato.exceptions import InvalidInputError

BOUNDS = TableBounds.from_dict(
    {
        "age": {"lower": 0, "upper": 100, "missing": True},
        "sex": {"categories": ["m", "f"], "missing": True},
        "y": {"labels": ["a", "b"]},
    },
    target="y",
)
LINES = [f"{20 + place},{'mf'[place % 2]},{'ab'[place % 3 == 0]}" for place in range(60)]
ODD = ["44,m,a,9,9", "44", "", '"44,m,a', "\x00,\x00,\x00", "44,m", "x" * 5000]
RECORDS = [f'{{"age": {20 + place}, "sex": "m", "y": "a"}}' for place in range(60)]
ODD_RECORDS = ["", "{", "[]", "{}", '{"age": 44, "more": {"x": [1]}}', '{"age": "44", "y": 3}']
WIDE = "{" + ", ".join(f'"k{place}": 1' for place in range(30_000)) + "}"


def fitted(path: Path | str) -> PrivateLinearClassifier:
    model = PrivateLinearClassifier(
        epsilon=1.0, delta=1e-5, bounds=BOUNDS, relation="add_or_remove_one", n_steps=2
    )
    return model.fit(str(path))


@pytest.mark.parametrize("place", [0, 30])
@pytest.mark.parametrize("odd", ODD)
def test_a_line_of_text(tmp_path: Path, odd: str, place: int) -> None:
    lines = ["age,sex,y", *LINES[:place], odd, *LINES[place:]]
    (tmp_path / "one.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "two.csv").write_text("\n".join(["age,sex,y", *LINES]) + "\n")
    for path in (tmp_path / "one.csv", tmp_path / "*.csv", tmp_path):
        assert fitted(path).coef_.size


@pytest.mark.parametrize("place", [0, 30])
@pytest.mark.parametrize("odd", [*ODD_RECORDS, WIDE], ids=range(len(ODD_RECORDS) + 1))
def test_a_line_of_json(tmp_path: Path, odd: str, place: int) -> None:
    lines = [*RECORDS[:place], odd, *RECORDS[place:]]
    (tmp_path / "one.jsonl").write_text("\n".join(lines) + "\n")
    (tmp_path / "two.jsonl").write_text("\n".join(RECORDS) + "\n")
    for path in (tmp_path / "one.jsonl", tmp_path / "*.jsonl"):
        assert fitted(path).coef_.size


def test_a_header_that_lacks_a_column_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "one.csv").write_text("age,y\n44,a\n")
    with pytest.raises(ValueError, match="no column 'sex'"):
        fitted(tmp_path / "one.csv")


@pytest.mark.parametrize("first", [RECORDS[0], *ODD_RECORDS])
@pytest.mark.parametrize("columns", [1, 3])
def test_without_declared_types_text_is_refused_whatever_it_holds(
    tmp_path: Path, first: str, columns: int
) -> None:
    """JSON has the names of its columns in its records, so that one of them could decide."""
    (tmp_path / "one.jsonl").write_text("\n".join([first, *RECORDS]) + "\n")
    (tmp_path / "two.csv").write_text("age,sex,y\n44,m,a\n")
    bounds = Bounds(lower=[0.0] * columns, upper=[1.0] * columns)
    model = PrivateMoments(epsilon=1.0, delta=1e-5, bounds=bounds, relation="add_or_remove_one")
    for path in (tmp_path / "one.jsonl", tmp_path / "two.csv", tmp_path / "*.csv"):
        with pytest.raises(InvalidInputError, match=r"types of the columns of .* would be guessed"):
            model.fit(str(path))
