"""Proof sheets speak of the code as it is.

Each sheet pins source files by a fingerprint of their syntax tree, without docstrings and
formatting. When private code changes, read its proof again and then run
``SFUMATO_REPIN=1 python -m pytest tests/test_docs.py``.
"""

from __future__ import annotations

import ast
import hashlib
import os
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SHEETS = sorted(p for p in (ROOT / "docs" / "guarantees").glob("*.md") if p.name != "index.md")
PIN = re.compile(r"`([\w/]+\.py)` ([0-9a-f]{8})")


def fingerprint(path: Path) -> str:
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(
            node
        ):
            node.body = node.body[1:] or [ast.Pass()]
    return hashlib.sha256(written(tree).encode()).hexdigest()[:8]


def written(node: object) -> str:
    """Like ast.dump, without the empty fields that differ between versions of Python."""
    if isinstance(node, ast.AST):
        fields = [
            f"{name}={written(value)}"
            for name, value in ast.iter_fields(node)
            if value is not None and value != []
        ]
        return f"{type(node).__name__}({', '.join(fields)})"
    if isinstance(node, list):
        return f"[{', '.join(map(written, node))}]"
    return repr(node)


@pytest.mark.parametrize("sheet", SHEETS, ids=lambda p: p.stem)
def test_proof_sheets_were_read_after_the_last_change(sheet: Path) -> None:
    text = sheet.read_text()
    pins = PIN.findall(text)
    assert pins, "the sheet pins no code"
    current = {name: fingerprint(ROOT / "src" / "sfumato" / name) for name, _ in pins}
    if os.environ.get("SFUMATO_REPIN"):
        sheet.write_text(PIN.sub(lambda m: f"`{m[1]}` {current[m[1]]}", text))
        return
    changed = [name for name, pinned in pins if current[name] != pinned]
    assert not changed, f"{changed} changed: read the proof again, then repin"


@pytest.mark.parametrize("sheet", SHEETS, ids=lambda p: p.stem)
def test_tests_named_in_a_proof_sheet_exist(sheet: Path) -> None:
    named = set(re.findall(r"tests/[\w/]+\.py", sheet.read_text()))
    assert named
    for name in named:
        assert (ROOT / name).is_file(), name


def test_tags_of_the_proofs_stand_in_the_code() -> None:
    for sheet, source in (
        ("pca", "moments/pca.py"),
        ("moments", "moments/moments.py"),
        ("gaussian-classifier", "moments/classifier.py"),
        ("fabrication", "hulls/engines.py"),
        ("hull-classifier", "hulls/private.py"),
        ("large-margin", "margins/private_large_margin.py"),
        ("linear-classifier", "margins/private_linear.py"),
        ("density", "functions/density.py"),
        ("kernel-machines", "functions/classifier.py"),
        ("kernel-machines", "functions/regressor.py"),
        ("mean-curve", "functions/mean_curve.py"),
    ):
        text = (ROOT / "docs" / "guarantees" / f"{sheet}.md").read_text()
        code = (ROOT / "src" / "sfumato" / source).read_text()
        tags = set(re.findall(r"\[([PMGFHLDKC]\d)\]", text))
        assert tags
        assert all(f"[{tag}]" in code for tag in tags), tags


def test_every_mechanism_has_a_proof_sheet() -> None:
    pinned = {name for sheet in SHEETS for name, _ in PIN.findall(sheet.read_text())}
    folder = ROOT / "src" / "sfumato" / "mechanisms"
    helpers = {"__init__.py", "base.py", "tape.py"}
    missing = {p.name for p in folder.glob("*.py")} - helpers - {Path(n).name for n in pinned}
    assert not missing
