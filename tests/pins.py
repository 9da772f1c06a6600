"""Pins of the proof sheets: the functions that a proof speaks of, as they were when it was read.

A pin is `` `models/moments.py::PrivatePCA.fit` 12ab34cd ``: a function, method or class, and the
fingerprint of its syntax tree without docstrings, comments and formatting. The fingerprint covers
the helpers and constants of the same file that the function uses, directly or through others.

``python -m tests.pins`` writes the fingerprints anew and says which functions have changed.
"""

from __future__ import annotations

import ast
import hashlib
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "sfumato"
SHEETS = sorted(p for p in (ROOT / "docs" / "guarantees").glob("*.md") if p.name != "index.md")
PIN = re.compile(r"`([\w/]+\.py)::([\w.]+)` ([0-9a-f]{8})")
TAG = re.compile(r"\[([A-Z]\d+)\](?!\()")

Definition = ast.FunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign


class Module:
    """The definitions of one file, by name: functions, classes, methods and constants."""

    def __init__(self, path: Path) -> None:
        self.path = path
        text = path.read_text()
        self.tree = ast.parse(text)
        self.definitions: dict[str, list[Definition]] = {}
        self._covered: dict[str, list[str]] = {}
        self._collect(self.tree.body, "")
        comments = tokenize.generate_tokens(io.StringIO(text).readline)
        self._tags = [
            (token.start[0], tag)
            for token in comments
            if token.type == tokenize.COMMENT
            for tag in TAG.findall(token.string)
        ]

    def _collect(self, body: list[ast.stmt], owner: str) -> None:
        for node in body:
            if isinstance(node, ast.If | ast.Try):
                self._collect(node.body, owner)
            for name in _names_of(node):
                self.definitions.setdefault(owner + name, []).append(node)  # type: ignore[arg-type]
            if isinstance(node, ast.ClassDef):
                self._collect(node.body, f"{owner}{node.name}.")

    def covered(self, name: str) -> list[str]:
        """Names of all definitions of this file that `name` uses, itself first."""
        if name not in self._covered:
            self._covered[name] = self._search(name)
        return self._covered[name]

    def _search(self, name: str) -> list[str]:
        found, waiting = [], [name]
        while waiting:
            current = waiting.pop(0)
            if current not in found:
                found.append(current)
                waiting += sorted(self._used(current) & self.definitions.keys())
        return found

    def _used(self, name: str) -> set[str]:
        owner = (
            name if isinstance(self.definitions[name][0], ast.ClassDef) else name.rpartition(".")[0]
        )
        used = set()
        for node in self.definitions[name]:
            for part in _code_of(node):
                if isinstance(part, ast.Name):
                    used.add(part.id)
                elif isinstance(part, ast.Attribute) and ast.unparse(part.value) in {"self", "cls"}:
                    used.add(f"{owner}.{part.attr}")
        return used

    def fingerprint(self, name: str) -> str:
        parts = [written(node) for each in self.covered(name) for node in self.definitions[each]]
        return hashlib.sha256("\n".join(sorted(set(parts))).encode()).hexdigest()[:8]

    def tags(self, name: str) -> set[str]:
        """Tags in the comments of a definition and of what it uses."""
        return {
            tag
            for each in self.covered(name)
            for node in self.definitions[each]
            for line, tag in self._tags
            if node.lineno <= line <= (node.end_lineno or node.lineno)
        }

    def all_tags(self) -> set[str]:
        return {tag for _, tag in self._tags}

    def functions(self) -> Iterator[tuple[str, ast.FunctionDef]]:
        for name, nodes in self.definitions.items():
            for node in nodes:
                if isinstance(node, ast.FunctionDef):
                    yield name, node


def _names_of(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else []
    if isinstance(node, ast.AnnAssign):
        targets = [node.target]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _code_of(node: ast.AST) -> Iterator[ast.AST]:
    """Everything below a node but the types it is annotated with."""
    yield node
    for name, value in ast.iter_fields(node):
        if name in {"annotation", "returns"}:
            continue
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, ast.AST):
                yield from _code_of(item)


def written(node: object) -> str:
    """Like ast.dump, without docstrings and the empty fields that differ between Pythons."""
    if isinstance(node, ast.AST):
        fields = [
            f"{name}={written(_without_docstring(node) if name == 'body' else value)}"
            for name, value in ast.iter_fields(node)
            if value is not None and value != []
        ]
        return f"{type(node).__name__}({', '.join(fields)})"
    if isinstance(node, list):
        return f"[{', '.join(map(written, node))}]"
    return repr(node)


def _without_docstring(node: ast.AST) -> object:
    body = node.body  # type: ignore[attr-defined]
    documented = isinstance(node, ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node)
    return body[1:] if documented else body


@cache
def module(name: str) -> Module:
    return Module(SOURCE / name)


def pins(sheet: Path) -> list[tuple[str, str, str]]:
    """File, name and fingerprint of each pin of a sheet."""
    return PIN.findall(sheet.read_text())


def is_defined(file: str, name: str) -> bool:
    return (SOURCE / file).is_file() and name in module(file).definitions


def pinned() -> set[tuple[str, str]]:
    """All definitions that some sheet pins, with what they use."""
    return {
        (file, each)
        for sheet in SHEETS
        for file, name, _ in pins(sheet)
        if is_defined(file, name)
        for each in module(file).covered(name)
    }


def is_within(file: str, name: str, group: set[tuple[str, str]]) -> bool:
    """Whether a definition, or a class around it, is in the group."""
    parts = name.split(".")
    return any((file, ".".join(parts[:k])) in group for k in range(1, len(parts) + 1))


def gone(sheet: Path) -> list[str]:
    return [f"{file}::{name}" for file, name, _ in pins(sheet) if not is_defined(file, name)]


def changed(sheet: Path) -> list[str]:
    """Pinned functions that are not what the sheet read."""
    return [
        f"{file}::{name}"
        for file, name, known in pins(sheet)
        if is_defined(file, name) and module(file).fingerprint(name) != known
    ]


def repin(sheet: Path) -> None:
    def current(match: re.Match[str]) -> str:
        file, name, known = match.groups()
        new = module(file).fingerprint(name) if is_defined(file, name) else known
        return f"`{file}::{name}` {new}"

    sheet.write_text(PIN.sub(current, sheet.read_text()))


def said(sheet: Path, names: list[str]) -> str:
    """A line per changed function: the sheet to read, the function, and its tags."""
    lines = []
    for each in names:
        file, _, name = each.partition("::")
        tags = " ".join(f"[{tag}]" for tag in sorted(module(file).tags(name)))
        lines.append(f"{sheet.relative_to(ROOT)}: {each} {tags}".rstrip())
    return "\n".join(lines)


def main() -> int:
    lost = [
        f"{sheet.relative_to(ROOT)}: {name} is gone" for sheet in SHEETS for name in gone(sheet)
    ]
    news = [said(sheet, names) for sheet in SHEETS if (names := changed(sheet))]
    for sheet in SHEETS:
        repin(sheet)
    heading = "Repinned; these have changed, so their proofs must have been read again:"
    lines = [heading, *news] if news else ["Nothing has changed."]
    lines += ["Name the functions that took the place of:", *lost] if lost else []
    sys.stdout.write("\n".join(lines) + "\n")
    return len(lost) > 0


if __name__ == "__main__":
    sys.exit(main())
