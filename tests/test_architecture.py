"""The rooms and their arrows, kept by reading the source."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import sfumato

SOURCE = Path(sfumato.__file__).parent
MODULES = sorted(SOURCE.rglob("*.py"))

# From the ground up: a room may import its own modules and those of the rows above it.
FLOORS: list[set[str]] = [
    {"exceptions"},
    {"cells"},
    {"atomic_file", "memory", "events", "bounds", "parallel"},
    {"tables"},
    {"guarantee"},
    {"accounting"},
    {"mechanisms", "kernels"},
    {"sums"},
    {"private", "persistence"},
    {"moments"},
    {"hulls", "margins"},
    {"functions"},
    {"mappings"},
    {"report"},
    {"testing", "demo", "datasets", "streaming"},
    {"auditing"},
    {"pipeline"},
    {"measuring", "publishing", "federated"},
    {"function_stores"},
    {"papers"},
    {"interfaces"},
    {"__main__"},
]
FLOOR = {room: height for height, rooms in enumerate(FLOORS) for room in rooms}
# The file format must name the classes it may build, and the command line those it offers; both
# look them up when they are called. An estimator's audit stands above all estimators, and what an
# attacker can do against a guarantee is computed where events are accounted.
LATE_IMPORTS = {
    ("guarantee", "accounting"),
    ("persistence", "sfumato"),
    ("pipeline", "sfumato"),
    ("private", "auditing"),
}


def room_of(path: Path) -> str:
    relative = path.relative_to(SOURCE)
    return relative.parts[0].removesuffix(".py")


def imports_of(path: Path) -> set[str]:
    """Modules that are imported when the code runs, not those for type checkers only."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = [ast.Pass()]
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found.add(node.module or "")
    return found


def attributes_of(path: Path) -> set[str]:
    return {
        ast.unparse(n)
        for n in ast.walk(ast.parse(path.read_text()))
        if isinstance(n, ast.Attribute)
    }


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_point_one_way(path: Path) -> None:
    room = room_of(path)
    if room == "__init__":
        return
    assert room in FLOOR, f"the room {room!r} is not on any floor"
    for name in imports_of(path):
        parts = name.split(".")
        if parts[0] != "sfumato":
            continue
        if len(parts) == 1:
            assert (room, "sfumato") in LATE_IMPORTS or room in {"testing", "interfaces", "demo"}
            continue
        other = parts[1]
        is_below = FLOOR[other] < FLOOR[room] or (room, other) in LATE_IMPORTS
        assert other == room or is_below, f"{room} must not import {other}"


RANDOM = {"random", "numpy.random", "randomgen"}


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_noise_is_drawn_only_in_mechanisms(path: Path) -> None:
    room = room_of(path)
    imports = imports_of(path)
    assert not imports & RANDOM, f"{path.name} imports a random module"
    if room == "mechanisms":
        return
    if room != "testing":
        assert not {i for i in imports if i.startswith("sfumato.mechanisms.entropy")}
        assert not {i for i in imports if i.startswith("sfumato.mechanisms.sampling")}
        assert not {i for i in imports if i.startswith("sfumato.mechanisms.spherical")}
    drawn = {
        a
        for a in attributes_of(path)
        if a.startswith(("np.random.", "numpy.random.", "os.urandom"))
    }
    assert not drawn - {"np.random.RandomState", "np.random.Generator"}, (
        f"{path.name} draws {drawn}"
    )


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_nothing_is_pickled_and_nothing_private_is_borrowed(path: Path) -> None:
    for name in imports_of(path):
        assert name.split(".")[0] not in {"pickle", "cloudpickle", "dill", "shelve", "marshal"}
        if name.startswith("sklearn"):
            assert not any(part.startswith("_") for part in name.split(".")), name


LONGEST_FILE = 600
LONGEST_FUNCTION = 60


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_files_and_functions_stay_short(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") <= LONGEST_FILE
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            body = node.body[1:] if ast.get_docstring(node) else node.body
            lines = body[-1].end_lineno - body[0].lineno + 1 if body else 0
            assert lines <= LONGEST_FUNCTION, f"{path.name}:{node.name} has {lines} lines"
