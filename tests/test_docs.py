"""Proof sheets speak of the code as it is.

Each sheet pins the functions that it speaks of, see `tests/pins.py`. When private code changes,
read its proof again and then run ``make repin``, which says which functions have changed.
``SFUMATO_REPIN=1 python -m pytest tests/test_docs.py`` does the same.
"""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path

import pytest

from tests import pins

SHEETS = pytest.mark.parametrize("sheet", pins.SHEETS, ids=lambda p: p.stem)
MODULES = sorted(p.relative_to(pins.SOURCE).as_posix() for p in pins.SOURCE.rglob("*.py"))
# The contracts recompute sensitivities and release with broken ones; they promise nothing.
PROMISING = [name for name in MODULES if not name.startswith("audit/testing/")]


@pytest.fixture(scope="module", autouse=True)
def repinned(pytestconfig: pytest.Config) -> None:
    if os.environ.get("SFUMATO_REPIN"):
        with pytestconfig.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
            pins.main()


@SHEETS
def test_proof_sheets_were_read_after_the_last_change(sheet: Path) -> None:
    assert pins.pins(sheet), "The sheet pins no code: name functions as `file.py::name` 00000000."
    assert not re.search(r"`[\w/]+\.py` [0-9a-f]{8}", sheet.read_text()), (
        "Pin functions, not files."
    )
    assert not pins.gone(sheet), "Name the functions that took the place of these."
    changed = pins.changed(sheet)
    assert not changed, f"Read the proof again, then make repin:\n{pins.said(sheet, changed)}"


@SHEETS
def test_tags_of_a_proof_stand_in_the_functions_that_it_pins(sheet: Path) -> None:
    claimed = set(pins.TAG.findall(sheet.read_text()))
    found = {tag for file, name, _ in pins.pins(sheet) for tag in pins.module(file).tags(name)}
    assert not claimed - found, "No pinned function carries these tags of the sheet."


def test_tags_of_the_code_stand_in_a_sheet_that_pins_it() -> None:
    proved: dict[str, set[str]] = {file: set() for file in MODULES}
    for sheet in pins.SHEETS:
        claimed = set(pins.TAG.findall(sheet.read_text()))
        for file, name, _ in pins.pins(sheet):
            proved[file] |= pins.module(file).tags(name) & claimed
    open_ones = {file: pins.module(file).all_tags() - proved[file] for file in MODULES}
    assert not {file: tags for file, tags in open_ones.items() if tags}, (
        "No sheet that pins these steps speaks of them."
    )


def needs_a_proof(name: str, node: ast.FunctionDef) -> bool:
    """Whether a function states a sensitivity, pays for noise or has it drawn."""
    if "sensitivity" in name.rpartition(".")[2]:
        return True
    for call in (part for part in ast.walk(node) if isinstance(part, ast.Call)):
        called = ast.unparse(call.func).rpartition(".")[2]
        given = {keyword.arg for keyword in call.keywords}
        if "sensitivity" in given or called in {"prepay", "_charge"}:
            return True
        if called.startswith("release") and "ledger" in given:
            return True
    return False


def test_every_sensitivity_and_every_release_is_pinned() -> None:
    covered = pins.pinned()
    open_ones = [
        f"{file}::{name}"
        for file in PROMISING
        for name, node in pins.module(file).functions()
        if needs_a_proof(name, node) and not pins.is_within(file, name, covered)
    ]
    assert not open_ones, "These state a sensitivity, pay or release, and no proof sheet pins them."


def test_every_mechanism_has_a_proof_sheet() -> None:
    covered = pins.pinned()
    open_ones = [
        f"{file}::{name}"
        for file in MODULES
        if file.startswith("mechanisms/")
        for name, _ in pins.module(file).functions()
        if not pins.is_within(file, name, covered)
    ]
    assert not open_ones


@SHEETS
def test_tests_named_in_a_proof_sheet_exist(sheet: Path) -> None:
    named = set(re.findall(r"tests/[\w/]+\.py", sheet.read_text()))
    assert named
    for name in named:
        assert (pins.ROOT / name).is_file(), name


@SHEETS
def test_a_sheet_begins_with_its_theorem_and_ends_with_its_pins(sheet: Path) -> None:
    """Title, theorem; then the proof; fingerprints at the very end."""
    title, *rest = sheet.read_text().rstrip().split("\n\n")
    assert title.startswith("# ")
    assert rest[0].startswith("**Theorem.** ")
    first = next(i for i, text in enumerate(rest) if pins.PIN.search(text))
    assert not [text for text in rest[first + 1 :] if not pins.PIN.search(text)]


# The pins themselves ------------------------------------------------------------------------------

CODE = '''
"""A module."""
SCALE = 2.0
OTHER = 5


def used():
    return SCALE


def unused():
    return OTHER


class Model:
    share = 1

    def fit(self, X: "Unrelated"):
        """Documented."""
        return self._step(used())  # [P1] a step

    def _step(self, value):
        return value * self.share

    def predict(self):
        return 0
'''
NEUTRAL = {
    "a docstring": ('"""Documented."""', '"""Better documented."""'),
    "a comment": ("# [P1] a step", "# [P1] the step"),
    "a function that is not used": ("return OTHER", "return OTHER + 1"),
    "another constant": ("OTHER = 5", "OTHER = 6"),
    "another method": ("return 0", "return 1"),
    "formatting": ("self._step(used())", "self._step( used() )"),
}
TELLING = {
    "the function": ("self._step(used())", "self._step(0)"),
    "a helper": ("return SCALE", "return SCALE / 2"),
    "a constant of a helper": ("SCALE = 2.0", "SCALE = 1.0"),
    "a method that it calls": ("value * self.share", "value"),
    "an attribute of the class": ("share = 1", "share = 2"),
}


@pytest.mark.parametrize("change", [*NEUTRAL, *TELLING])
def test_a_fingerprint_sees_what_a_function_uses_and_nothing_else(
    change: str, tmp_path: Path
) -> None:
    old, new = {**NEUTRAL, **TELLING}[change]
    assert old in CODE
    before, after = tmp_path / "before.py", tmp_path / "after.py"
    before.write_text(CODE)
    after.write_text(CODE.replace(old, new))
    same = pins.Module(before).fingerprint("Model.fit") == pins.Module(after).fingerprint(
        "Model.fit"
    )
    assert same is (change in NEUTRAL)
    assert pins.Module(after).tags("Model.fit") == {"P1"}
    assert pins.Module(after).tags("Model.predict") == set()


def test_what_needs_a_proof_is_recognised() -> None:
    def needs(text: str) -> bool:
        (node,) = ast.parse(text).body
        assert isinstance(node, ast.FunctionDef)
        return needs_a_proof(node.name, node)

    assert needs("def row_sensitivity(): pass")
    assert needs("def f(): return M.calibrate(sensitivity=1.0)")
    assert needs("def f(self): self._charge(m)")
    assert needs("def f(): return m.release_symmetric(v, ledger=r)")
    assert not needs("def f(): return m.release(lock)")
    assert not needs("def sensitive(): pass")


def test_repinning_says_what_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sheet = tmp_path / "sheet.md"
    (tmp_path / "model.py").write_text(CODE)
    for name, value in (("ROOT", tmp_path), ("SOURCE", tmp_path), ("SHEETS", [sheet])):
        monkeypatch.setattr(pins, name, value)
    pins.module.cache_clear()
    sheet.write_text("[P1] `model.py::Model.fit` 00000000, `model.py::lost` 11111111")
    assert pins.main() == 1
    out = capsys.readouterr().out
    assert "sheet.md: model.py::Model.fit [P1]" in out
    assert "model.py::lost is gone" in out
    sheet.write_text(sheet.read_text().split(",")[0])
    assert pins.main() == 0
    assert "Nothing has changed" in capsys.readouterr().out
    pins.module.cache_clear()
