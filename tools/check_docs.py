"""Check what the pages say of the code: proof sheets, links, docstrings, lists of packages.

python tools/check_docs.py [--repin]

A proof sheet pins the code that it speaks of: `` `models/moments.py::PrivatePCA.fit` 12ab34cd `` is
a function, method or class, and the fingerprint of its syntax tree and of the helpers and constants
of the same file that it uses, without docstrings, comments and formatting. When pinned code has
changed, read the proof again, then run ``make repin``, which writes the fingerprints anew.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import inspect
import pkgutil
import pydoc
import re
import sys
import tomllib
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "sfumato"
SHEETS = sorted(p for p in (ROOT / "docs" / "guarantees").glob("*.md") if p.name != "index.md")
PIN = re.compile(r"`([\w/]+\.py)::([\w.]+)` ([0-9a-f]{8})")
TAG = re.compile(r"\[([A-Z]\d+)\](?!\()")
MAX_SHEET_WORDS = 900

# Proof sheets -------------------------------------------------------------------------------------


def written(node: object) -> str:
    """Return the syntax tree as text, without docstrings and fields that differ between Pythons."""
    if isinstance(node, list):
        return f"[{', '.join(map(written, node))}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = dict(ast.iter_fields(node))
    if isinstance(node, ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
        fields["body"] = node.body[1:]
    kept = [f"{name}={written(value)}" for name, value in fields.items() if value not in (None, [])]
    return f"{type(node).__name__}({', '.join(kept)})"


def code_of(node: ast.AST) -> Iterator[ast.AST]:
    """Yield everything below a node but its annotations."""
    yield node
    for name, value in ast.iter_fields(node):
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, ast.AST) and name not in {"annotation", "returns"}:
                yield from code_of(item)


class Module:
    """The definitions of one file by name, and the tags in its comments by line."""

    def __init__(self, path: Path) -> None:
        text = path.read_text()
        self.definitions: dict[str, list[Any]] = {}
        self.collect(ast.parse(text).body, "")
        self.tags = [
            (number, tag)
            for number, line in enumerate(text.splitlines(), 1)
            for tag in TAG.findall(line.partition("#")[2])
        ]

    def collect(self, body: list[ast.stmt], owner: str) -> None:
        for node in body:
            if isinstance(node, ast.If | ast.Try):
                self.collect(node.body, owner)
            targets = getattr(node, "targets", [getattr(node, "target", None)])
            names = [target.id for target in targets if isinstance(target, ast.Name)]
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                names = [node.name]
            for name in names:
                self.definitions.setdefault(owner + name, []).append(node)
            if isinstance(node, ast.ClassDef):
                self.collect(node.body, f"{owner}{node.name}.")

    @cache  # noqa: B019 - a script
    def covered(self, name: str) -> list[str]:
        """Return a name and all definitions of this file that it uses, directly or not."""
        found, waiting = [], [name]
        while waiting:
            current = waiting.pop(0)
            if current in found:
                continue
            found.append(current)
            nodes = self.definitions[current]
            owner = current if isinstance(nodes[0], ast.ClassDef) else current.rpartition(".")[0]
            used = set()
            for part in (part for node in nodes for part in code_of(node)):
                if isinstance(part, ast.Name):
                    used.add(part.id)
                elif isinstance(part, ast.Attribute) and ast.unparse(part.value) in ("self", "cls"):
                    used.add(f"{owner}.{part.attr}")
            waiting += sorted(used & self.definitions.keys())
        return found

    def fingerprint(self, name: str) -> str:
        nodes = [node for each in self.covered(name) for node in self.definitions[each]]
        return hashlib.sha256("\n".join(sorted(set(map(written, nodes)))).encode()).hexdigest()[:8]

    def tags_of(self, name: str) -> set[str]:
        nodes = [node for each in self.covered(name) for node in self.definitions[each]]
        return {tag for line, tag in self.tags for n in nodes if n.lineno <= line <= n.end_lineno}


@cache
def module(name: str) -> Module:
    return Module(SOURCE / name)


def needs_proof(name: str, node: ast.FunctionDef) -> bool:
    """Return whether a function states a sensitivity, pays for noise or has it drawn."""
    for call in (part for part in ast.walk(node) if isinstance(part, ast.Call)):
        called = ast.unparse(call.func).rpartition(".")[2]
        given = {keyword.arg for keyword in call.keywords}
        if "sensitivity" in given or called in {"prepay", "_charge"}:
            return True
        if called.startswith("release") and "ledger" in given:
            return True
    return "sensitivity" in name.rpartition(".")[2]


def check_sheets() -> Iterator[str]:
    """Yield what is wrong with sheets and pins."""
    covered: set[tuple[str, str]] = set()
    proved: dict[str, set[str]] = {}
    for sheet in SHEETS:
        text, where = sheet.read_text(), sheet.relative_to(ROOT)
        pins, claimed, found = PIN.findall(text), set(TAG.findall(text)), set()
        for file, name, known in pins:
            if not (SOURCE / file).is_file() or name not in module(file).definitions:
                yield f"{where}: {file}::{name} is gone; pin what took its place"
                continue
            tags = module(file).tags_of(name)
            if module(file).fingerprint(name) != known:
                yield f"{where}: {file}::{name} has changed {sorted(tags)}; read, then make repin"
            found |= tags
            covered |= {(file, each) for each in module(file).covered(name)}
            proved.setdefault(file, set()).update(tags & claimed)
        if not pins or not text.split("\n\n")[1].startswith("**Theorem.** "):
            yield f"{where}: a sheet begins with its theorem and pins code"
        if len(text.split()) > MAX_SHEET_WORDS:
            yield f"{where}: {len(text.split())} words; at most {MAX_SHEET_WORDS}"
        if claimed - found:
            yield f"{where}: no pinned code has the tags {sorted(claimed - found)}"
        for test in set(re.findall(r"tests/[\w/]+\.py", text)) or {"tests/none.py"}:
            if not (ROOT / test).is_file():
                yield f"{where}: names no test, or one that is gone: {test}"
    for path in sorted(SOURCE.rglob("*.py")):
        file = path.relative_to(SOURCE).as_posix()
        if open_tags := {tag for _, tag in module(file).tags} - proved.get(file, set()):
            yield f"{file}: no sheet that pins the code speaks of {sorted(open_tags)}"
        for name, nodes in module(file).definitions.items():
            parts = name.split(".")
            if any((file, ".".join(parts[:k])) in covered for k in range(1, len(parts) + 1)):
                continue
            for node in nodes:  # contracts recompute sensitivities, and promise nothing
                if not isinstance(node, ast.FunctionDef) or file.startswith("audit/"):
                    continue
                if file.startswith("mechanisms/") or needs_proof(name, node):
                    yield f"{file}::{name} states, pays or draws, and no sheet pins it"


def repin() -> None:
    """Write the fingerprints of all pins anew."""

    def current(match: re.Match[str]) -> str:
        file, name, known = match.groups()
        exists = (SOURCE / file).is_file() and name in module(file).definitions
        return f"`{file}::{name}` {module(file).fingerprint(name) if exists else known}"

    for sheet in SHEETS:
        sheet.write_text(PIN.sub(current, sheet.read_text()))


# Links --------------------------------------------------------------------------------------------

LINK = re.compile(r"(?<!`)!?\[[^\]]*\]\(([^)\s]+)\)")
ROLE = re.compile(r"\{doc\}`(?:[^`<]*<)?([^`>]+)>?`")
FENCED = re.compile(r"^(`{3,}|:{3,}).*?^\1", flags=re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and MyST make them."""
    headings = re.findall(r"^#{1,6} (.*)$", FENCED.sub("", page.read_text()), flags=re.MULTILINE)
    plain = [re.sub(r"[`*]", "", heading).strip().lower() for heading in headings]
    return {re.sub(r"[^\w\- ]", "", each).replace(" ", "-") for each in plain}


def check_links() -> Iterator[str]:
    """Yield links that lead nowhere, and pages that no table of contents names."""
    patterns = ("*.md", "llms.txt", "docs/*.md", "docs/[!_]*/*.md", "benchmarks/*.md")
    pages = [page for pattern in patterns for page in sorted(ROOT.glob(pattern))]
    listed = set()
    for page in pages:
        text = page.read_text()
        for block in re.findall(r"```\{toctree\}\n(.*?)```", text, flags=re.DOTALL):
            lines = [line for line in block.splitlines() if line and not line.startswith(":")]
            listed |= {(page.parent / line).resolve() for line in lines}
        text = FENCED.sub("", text)
        for link in [*LINK.findall(re.sub(r"`[^`\n]*`", "", text)), *ROLE.findall(text)]:
            name, _, anchor = link.partition("#")
            target = page.parent / name if name else page
            if re.match(r"(https?|mailto):", link):
                continue
            if "gallery/" in name:  # made from the examples when the site is built
                made = "README.rst" if target.stem == "index" else f"{target.stem}.py"
                target = ROOT / "examples" / made
            target = target if target.exists() else target.with_name(target.name + ".md")
            if not target.exists() or (
                anchor and target.suffix == ".md" and anchor not in anchors(target)
            ):
                yield f"{page.relative_to(ROOT)}: {link} leads nowhere"
    docs = ROOT / "docs"
    for page in (p for p in pages if p.is_relative_to(docs) and p != docs / "index.md"):
        if page.with_suffix("").resolve() not in listed:
            yield f"{page.relative_to(ROOT)} stands in no table of contents"


# Docstrings ---------------------------------------------------------------------------------------

# Codes of numpydoc that are not asked for: a second paragraph (ES01), related names (SA01),
# examples of everything (EX01), our section Privacy and its place (GL06, GL07), the order of
# parameters where shared ones come last (PR03), one line for several parameters (PR04).
NOT_ASKED = {"ES01", "SA01", "EX01", "GL06", "GL07", "PR03", "PR04"}
# An override says what is different; the rest is described where the method begins.
NOT_ASKED_OF_OVERRIDES = {"PR01", "RT01", "YD01"}


def public_names() -> dict[str, Any]:
    """Return every public class and function once, by the shortest name it has."""
    import sfumato

    found: dict[int, tuple[str, Any]] = {}
    packages = [m.name for m in pkgutil.walk_packages(sfumato.__path__, "sfumato.") if m.ispkg]
    for package in ["sfumato", *packages]:
        if package.startswith("sfumato.federated.flower"):  # apps, behind an extra
            continue
        names = vars(importlib.import_module(package))
        for name in sfumato._MODULE_OF if package == "sfumato" else names:
            value = getattr(sys.modules[package], name)
            described = inspect.isclass(value) or inspect.isfunction(value)
            if described and name[0] != "_" and value.__module__.startswith("sfumato"):
                found.setdefault(id(value), (f"{package}.{name}", value))
    return dict(found.values())


def check_docstrings() -> Iterator[str]:
    """Yield what numpydoc finds in public names, and names that the reference lacks."""
    from numpydoc.validate import validate

    names = public_names()
    asked = dict.fromkeys(names, NOT_ASKED)
    for name, kind in names.items():
        for method, value in vars(kind).items() if inspect.isclass(kind) else ():
            bare = getattr(value, "__func__", getattr(value, "fget", value))
            if method[0] != "_" and inspect.isfunction(bare):
                above = [k for k in kind.__mro__[1:] if k.__module__.startswith("sfumato.")]
                is_override = any(method in vars(each) for each in above)
                more = NOT_ASKED_OF_OVERRIDES if is_override else set()
                asked[f"{name}.{method}"] = NOT_ASKED | more
    for name, left_out in asked.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # our section Privacy
            errors = validate(name)["errors"]
        yield from (f"{name}: {code} {text}" for code, text in errors if code not in left_out)
    text = "\n".join(p.read_text() for p in (ROOT / "docs" / "reference").glob("*.md"))
    listed = re.findall(r"^   (sfumato\.[\w.]+)$", text, flags=re.MULTILINE)
    found = {name: pydoc.locate(name) for name in listed}
    yield from (f"docs/reference names {n}, which is not there" for n in found if found[n] is None)
    described = set(map(id, found.values()))
    yield from (
        f"{n} is missing in docs/reference" for n, v in names.items() if id(v) not in described
    )


# Packages -----------------------------------------------------------------------------------------


def check_packages() -> Iterator[str]:
    """Yield packages that pyproject.toml asks for and another list lacks."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["test"], *extras["lint"], *extras["docs"]]

    def names(lines: list[str]) -> set[str]:
        found = (re.match(r"[A-Za-z0-9._-]+", line) for line in lines)
        return {re.sub(r"[-_.]+", "-", match[0]).lower() for match in found if match}

    lock = (ROOT / "requirements-dev.txt").read_text().splitlines()
    yield from (f"requirements-dev.txt lacks {each}" for each in names(wanted) - names(lock))


if __name__ == "__main__":
    if "--repin" in sys.argv:
        repin()
    checks = (check_sheets, check_links, check_docstrings, check_packages)
    faults = [fault for check in checks for fault in check()]
    sys.stdout.write("\n".join([*faults, f"{len(faults)} faults in what the pages say.\n"]))
    sys.exit(bool(faults))
