"""Print how large the house is and how far a fit walks through it, against the most we allow.

python tools/house.py [--check] [--write] [REVISION]

Counted are files that git tracks: lines of `.py`, `.html`, `.js` and `.css`; words of `.md`,
`.rst`, `.ipynb` and `.txt`. Code alone has no docstrings, comments and empty lines. The walk is
that of ``PrivateLinearClassifier(...).fit(X, y).predict(X)`` on an array, after the same has run
once: functions of the package that are called, their files, how often the package changes from one
function to the next in the order of first calls, and the most frames of the package on the stack
when noise is drawn. ``--check`` fails where a limit is exceeded; ``--write`` puts the line of
figures into ARCHITECTURE.md.
"""

from __future__ import annotations

import argparse
import ast
import io
import os
import re
import subprocess
import sys
import tempfile
import threading
import tokenize
import warnings
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

SOURCE = (".py", ".html", ".js", ".css")
PROSE = (".md", ".rst", ".ipynb", ".txt")
NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
NO_CODE |= {tokenize.ENDMARKER, tokenize.ENCODING}
# of 0.2.0, at most, moonshot; 0: none is set
LIMITS = {
    "lines of src": (81_210, 52_000, 42_000),
    "code of src": (51_089, 33_000, 27_000),
    "files of src": (420, 230, 0),
    "functions of src": (4_629, 2_600, 0),
    "packages and modules": (39, 16, 0),
    "lines of tests": (49_355, 30_000, 24_000),
    "lines of benchmarks": (15_582, 9_000, 0),
    "words of pages": (136_121, 70_000, 50_000),
    "functions of a fit": (267, 200, 0),
    "files of a fit": (31, 22, 0),
    "changes of package": (73, 45, 0),
    "frames to the draw": (15, 9, 0),
}
PACKAGES = {
    "tables": 3_000,
    "privacy": 3_000,
    "ledger": 2_400,
    "mechanisms": 2_200,
    "sums": 3_800,
    "models": 12_000,
    "synthetic": 3_000,
    "federated": 3_200,
    "audit": 3_200,
    "report": 2_400,
    "papers": 7_000,
    "cli, service, core": 6_800,
}
TOGETHER = dict.fromkeys(("cli", "service", "core"), "cli, service, core")


def sizes(root: Path, files: list[str]) -> tuple[dict[str, int], Counter[str]]:
    """Return the figures of a tree, and the lines of each package of the source."""
    lines: Counter[str] = Counter()
    packages: Counter[str] = Counter()
    code = functions = words = n_files = 0
    names: set[str] = set()
    for file in files:
        kind, (top, *below) = Path(file).suffix, Path(file).parts
        if kind in PROSE:
            words += len((root / file).read_text().split())
        if kind not in SOURCE:
            continue
        text = (root / file).read_text()
        lines[top] += len(text.splitlines())
        if top != "src":
            continue
        package = below[1].removesuffix(".py")
        packages[TOGETHER.get(package, package)] += len(text.splitlines())
        n_files += kind == ".py"
        if kind != ".py":
            code += sum(bool(line.strip()) for line in text.splitlines())
            continue
        tree = ast.parse(text)
        code += code_lines(text, tree)
        functions += sum(
            isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) for node in ast.walk(tree)
        )
        if not package.startswith("__"):
            names.add(package)
    found = {
        "lines of src": lines["src"],
        "code of src": code,
        "files of src": n_files,
        "functions of src": functions,
        "packages and modules": len(names),
        "lines of tests": lines["tests"],
        "lines of benchmarks": lines["benchmarks"],
        "words of pages": words,
    }
    return found, packages


def code_lines(text: str, tree: ast.Module) -> int:
    """Count lines of Python without docstrings, comments and empty ones."""
    documented = {
        number
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and ast.get_docstring(node) is not None
        for number in range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)
    }
    used = {
        number
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type not in NO_CODE
        for number in range(token.start[0], token.end[0] + 1)
    }
    return len(used - documented)


def walk() -> dict[str, int]:
    """Follow a fit through the package that is imported."""
    import numpy as np

    import sfumato
    from sfumato import Bounds, PrivateLinearClassifier

    warnings.simplefilter("ignore")
    root = str(Path(sfumato.__file__).parent) + os.sep
    generator = np.random.default_rng(0)
    X = generator.uniform(size=(300, 4))
    y = (X[:, 0] > 0.5).astype(int)
    seen: dict[tuple[str, str], None] = {}
    frames = [0]

    def note(frame: Any, event: str, argument: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(root) and code.co_name != "<module>":
            seen.setdefault((code.co_filename[len(root) :], code.co_qualname))
        elif event == "c_call" and argument is os.urandom:
            depth = 0
            while frame is not None:
                depth += frame.f_code.co_filename.startswith(root)
                frame = frame.f_back
            frames.append(depth)

    def flow() -> None:
        bounds = Bounds(norm=2.0, labels=[0, 1])
        PrivateLinearClassifier(epsilon=1.0, delta=1e-5, bounds=bounds).fit(X, y).predict(X)

    flow()
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        flow()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    packages = [Path(file).parts[0].removesuffix(".py") for file, _ in seen]
    return {
        "functions of a fit": len(seen),
        "files of a fit": len({file for file, _ in seen}),
        "changes of package": sum(a != b for a, b in pairwise(packages)),
        "frames to the draw": max(frames),
    }


def measure(root: Path, files: list[str]) -> tuple[dict[str, int], Counter[str]]:
    """Return all figures of a tree; walks are made in a process that imports its source."""
    found, packages = sizes(root, files)
    environment = {**os.environ, "PYTHONPATH": str(root / "src")}
    command = [sys.executable, __file__, "--walk"]
    walks = []
    for _ in range(3):  # one walk in ten meets the branch of the sampler that decides a doubt
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        walks.append(ast.literal_eval(done.stdout.splitlines()[-1]))
    return found | min(walks, key=lambda each: each["functions of a fit"]), packages


def git(*words: str) -> str:
    """Ask git about the repository of this script."""
    command = ["git", "-C", str(Path(__file__).parents[1]), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def row(name: str, *cells: str | int) -> None:
    """Print a line of the table; a limit of 0 is none."""
    shown = (f"{cell:,}" if isinstance(cell, int) and cell else cell or "" for cell in cells)
    print(f"{name:21}" + "".join(f"{cell:>10}" for cell in shown))


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description="The size of the house.")
    parser.add_argument("revision", nargs="?", help="default: the tracked files as they are")
    parser.add_argument("--check", action="store_true", help="fail where a limit is exceeded")
    parser.add_argument("--write", action="store_true", help="write the line of ARCHITECTURE.md")
    parser.add_argument("--walk", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.walk:
        print(walk())
        return 0
    if asked.revision:
        with tempfile.TemporaryDirectory() as folder:
            top = str(Path(__file__).parents[1])
            archive = ["git", "-C", top, "archive", "-o", f"{folder}/tree.tar", asked.revision]
            subprocess.run(archive, check=True)
            subprocess.run(["tar", "-xf", f"{folder}/tree.tar", "-C", folder], check=True)
            files = git("ls-tree", "-r", "--name-only", asked.revision).splitlines()
            found, packages = measure(Path(folder), files)
    else:
        root = Path(__file__).parents[1]
        files = [file for file in git("ls-files").splitlines() if (root / file).is_file()]
        found, packages = measure(root, files)
    exceeded = [name for name, (_, most, _) in LIMITS.items() if found[name] > most]
    row("", "0.2.0", "now", "at most", "moonshot")
    for name, (before, *limits) in LIMITS.items():
        row(name, before, found[name], *limits, "*" if name in exceeded else "")
    row("")
    row("lines of package", "", "now", "at most")
    for name, number in sorted(packages.items()):
        row(name, "", number, PACKAGES.get(name, 0))
    if asked.write:
        page = Path(__file__).parents[1] / "ARCHITECTURE.md"
        shown = "; ".join(f"{name} {found[name]:,}" for name in LIMITS)
        page.write_text(
            re.sub(r"(?m)^`make house`: .*$", f"`make house`: {shown}.", page.read_text())
        )
    return int(asked.check and bool(exceeded))


if __name__ == "__main__":
    sys.exit(main())
