"""The rooms and their arrows, kept by reading the source."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from functools import cache
from importlib import import_module
from pathlib import Path

import sfumato
from sfumato.models.base import PrivateEstimator
from tests.every import for_each

SOURCE = Path(sfumato.__file__).parent
MODULES = sorted(SOURCE.rglob("*.py"))

# From the ground up: a room may import its own modules and those of the rows above it.
FLOORS: list[set[str]] = [
    {"exceptions"},
    {"core"},
    {"privacy"},
    {"ledger"},
    {"tables"},
    {"mechanisms"},
    {"sums"},
    {"models"},
    {"report"},
    {"synthetic"},
    {"datasets"},
    {"audit"},
    {"federated"},
    {"papers"},
    {"cli"},
    {"service"},
    {"__main__"},
]
FLOOR = {room: height for height, rooms in enumerate(FLOORS) for room in rooms}
# The file format must name the classes it may build, and the command line those it offers; both
# look them up when they are called. An estimator's audit stands above all estimators, and what an
# attacker can do against a guarantee is computed where events are accounted.
LATE_IMPORTS = {
    ("core", "privacy"),
    ("core", "tables"),
    ("models", "audit"),
    ("models", "sfumato"),
    ("models", "synthetic"),
    ("cli", "sfumato"),
    ("cli", "service"),
    ("federated", "cli"),
}


def room_of(path: Path) -> str:
    relative = path.relative_to(SOURCE)
    return relative.parts[0].removesuffix(".py")


@cache
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


@cache
def attributes_of(path: Path) -> set[str]:
    return {
        ast.unparse(n)
        for n in ast.walk(ast.parse(path.read_text()))
        if isinstance(n, ast.Attribute)
    }


@for_each(MODULES)
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
            assert (room, "sfumato") in LATE_IMPORTS or room in {"audit", "cli", "service"}
            continue
        other = parts[1]
        is_below = FLOOR[other] < FLOOR[room] or (room, other) in LATE_IMPORTS
        assert other == room or is_below, f"{room} must not import {other}"


# Imported under another name, by way of a package that is declared, or only where a user has them.
DISTRIBUTIONS = {"sklearn": "scikit-learn", "markupsafe": "jinja2", "starlette": "fastapi"}
OF_THE_USER = {"polars", "torch"}


def test_every_package_that_is_imported_is_declared() -> None:
    # A package that another one happens to bring is absent once that one no longer needs it.
    kept = tomllib.loads((SOURCE.parents[1] / "pyproject.toml").read_text())["project"]
    extras = kept["optional-dependencies"]
    for_developers = {"test", "test-torch", "coverage", "lint", "docs"}
    for_users = [extras[name] for name in extras if name not in for_developers]
    declared = {re.split(r"[\[<>=]", line)[0] for line in sum(for_users, kept["dependencies"])}
    names = {name.split(".")[0] for path in MODULES for name in imports_of(path)}
    names -= set(sys.stdlib_module_names) | OF_THE_USER | {"sfumato"}
    assert {DISTRIBUTIONS.get(name, name.replace("_", "-")) for name in names} <= declared


RANDOM = {"random", "numpy.random", "randomgen"}


@for_each(MODULES)
def test_noise_is_drawn_only_in_mechanisms(path: Path) -> None:
    room = room_of(path)
    imports = imports_of(path)
    if path.name == "surroundings.py":  # of the taint test: it puts states back and draws nothing
        drawn = {a for a in attributes_of(path) if "random." in a}
        assert drawn == {f"np.random.{do}_state" for do in ("get", "set")} | {
            f"random.{do}state" for do in ("get", "set")
        }
        return
    assert not imports & RANDOM, f"{path.name} imports a random module"
    if room == "mechanisms":
        return
    if room != "audit":
        assert not {i for i in imports if i.startswith("sfumato.mechanisms.entropy")}
        assert not {i for i in imports if i.startswith("sfumato.mechanisms.sampling")}
    drawn = {
        a
        for a in attributes_of(path)
        if a.startswith(("np.random.", "numpy.random.", "os.urandom"))
    }
    assert not drawn - {"np.random.RandomState", "np.random.Generator"}, (
        f"{path.name} draws {drawn}"
    )


@for_each(MODULES)
def test_nothing_is_pickled_and_nothing_private_is_borrowed(path: Path) -> None:
    for name in imports_of(path):
        assert name.split(".")[0] not in {"pickle", "cloudpickle", "dill", "shelve", "marshal"}
        if name.startswith("sklearn"):
            assert not any(part.startswith("_") for part in name.split(".")), name


# What a private estimator may say of itself before anything is charged. Nobody overrides what
# charges, draws or promises.
HOOKS = {"_check_request", "_check_stored", "_public_facts"}


def borrowed_methods(kind: type) -> set[str]:
    """Underscore methods of a class of another room that this class overrides."""
    found = set()
    for name in vars(kind):
        if not name.startswith("_") or name.startswith("__") or name == "_abc_impl":
            continue
        for base in kind.__mro__[1:]:
            if name in vars(base) and base.__module__.partition(".")[0] == "sfumato":
                method = vars(base)[name]
                is_hook = name in HOOKS and base is PrivateEstimator
                is_other = base.__module__.split(".")[1] != kind.__module__.split(".")[1]
                if is_other and not is_hook and not getattr(method, "__isabstractmethod__", False):
                    found.add(f"{kind.__name__}.{name} of {base.__name__}")
    return found


def test_no_room_overrides_a_private_method_of_another() -> None:
    found = set()
    for path in MODULES:
        name = ".".join(["sfumato", *path.relative_to(SOURCE).with_suffix("").parts])
        if "flower" in name or name.endswith(("__main__", "__init__", "models.base")):
            continue
        module = import_module(name)
        for kind in vars(module).values():
            if isinstance(kind, type) and kind.__module__ == name:
                found |= borrowed_methods(kind)
    assert not found


def test_an_override_is_noticed() -> None:
    class Cheap(PrivateEstimator):
        __module__ = "sfumato.papers.cheap"

        def _begin(self, *_: object) -> None: ...

        def _check_request(self) -> None: ...

    assert borrowed_methods(Cheap) == {"Cheap._begin of PrivateEstimator"}
