"""The file of public bounds: written, read back, refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sfumato.exceptions import InvalidInputError, MissingBoundsError
from sfumato.tables.schema import Column, TableBounds, Target

BOUNDS = TableBounds(
    (
        Column("age", "int64", lower=0, upper=120),
        Column("größe [cm]", "double", lower=1e-7, upper=2.5e20),
        Column('quo"ted\\', "string", categories=("a", 'b"', "ü\n", "\x7f")),
        Column("code", "int64", categories=(1, 2, 3)),
        Column("born", "date32[day]", left_out=True),
    ),
    Target("label", "string", categories=("no", "yes")),
    confirmed=True,
)


def test_there_and_back(tmp_path: Path) -> None:
    BOUNDS.write(tmp_path / "bounds.toml")
    assert TableBounds.read(tmp_path / "bounds.toml") == BOUNDS


def test_nothing_is_used_before_it_is_confirmed() -> None:
    BOUNDS.require_confirmed()
    with pytest.raises(MissingBoundsError, match="sfumato confirm"):
        replace(BOUNDS, confirmed=False).require_confirmed()


def test_a_confirmed_file_is_sealed(tmp_path: Path) -> None:
    """Typing confirmed = true, or changing a value afterwards, confirms nothing."""
    path = tmp_path / "bounds.toml"
    replace(BOUNDS, confirmed_by="A. Meier").write(path)
    found = TableBounds.read(path)
    assert (found.confirmed_by, found.confirmed_seal) == ("A. Meier", BOUNDS.seal)
    sealed = path.read_text()
    for old, new in (("upper = 120", "upper = 130"), ('"yes"', '"yea"'), ("seal = ", "#")):
        path.write_text(sealed.replace(old, new, 1))
        with pytest.raises(MissingBoundsError, match="sfumato confirm"):
            TableBounds.read(path)
    path.write_text(HEAD + COLUMN)
    with pytest.raises(MissingBoundsError, match="sfumato confirm"):
        TableBounds.read(path)


def test_another_column_can_be_the_target() -> None:
    other = BOUNDS.with_target("code")
    assert other.target == Target("code", "int64", categories=(1, 2, 3))
    assert other.columns[-1] == Column("label", "string", categories=("no", "yes"))
    assert other.with_target("label").target == BOUNDS.target
    assert BOUNDS.with_target("age").target_range == (0, 120)
    assert BOUNDS.with_target(None) is BOUNDS
    for name in ("born", "nobody"):
        with pytest.raises(InvalidInputError, match=name):
            BOUNDS.with_target(name)


COLUMN = '[columns.age]\ntype = "int64"\nlower = 0\nupper = 9\n'
HEAD = "version = 2\nconfirmed = true\n"


def test_the_target_is_no_feature_even_if_it_is_listed(tmp_path: Path) -> None:
    text = HEAD + '[target]\ncolumn = "age"\ntype = "int64"\nlabels = "public"\n' + COLUMN
    text = text.replace("confirmed = true", "confirmed = false")
    (tmp_path / "bounds.toml").write_text(text + COLUMN.replace("age", "size"))
    found = TableBounds.read(tmp_path / "bounds.toml")
    assert [column.name for column in found.columns] == ["size"]
    assert found.types() == {"size": "int64", "age": "int64"}
