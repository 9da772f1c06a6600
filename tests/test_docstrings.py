"""Every public name is described: numpydoc's own validation, with few and stated exceptions."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import pydoc
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from numpydoc.validate import validate

import sfumato
from tests.every import for_each

# Codes that are not asked for, and why.
NOT_ASKED = {
    "ES01": "one sentence that says it all needs no second one",
    "SA01": "related names stand beside each other in the reference",
    "EX01": "examples are asked of classes with something to show, and run as doctests",
    "GL06": "the section Privacy is ours; its five lines are checked in test_public_api.py",
    "PR03": "parameters that all estimators share are documented after those of the class",
    "PR04": "a line may name several parameters that are described elsewhere",
    "GL07": "that section stands between Attributes and See Also, where numpydoc knows no place",
}
# An override says what is different; parameters and result are described where the method begins.
NOT_ASKED_OF_OVERRIDES = {"PR01", "RT01", "YD01"}


# Rooms without names for users of the library: apps that need an extra, and the experiments.
APPLICATIONS = ("sfumato.federated.flower",)


def rooms() -> Iterator[str]:
    """Yield the package and its public subpackages."""
    yield "sfumato"
    for module in pkgutil.walk_packages(sfumato.__path__, "sfumato."):
        if module.ispkg and not module.name.startswith(APPLICATIONS):
            yield module.name


def _names_of(module: Any) -> list[str]:
    """Return the names that a package shows: those of its own that do not begin with `_`."""
    if module is sfumato:
        return list(sfumato._MODULE_OF)
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", "").startswith("sfumato")
    ]


def public_names() -> dict[str, Any]:
    """Return every listed class and function once, by the shortest name it has."""
    found: dict[int, tuple[str, Any]] = {}
    for room in rooms():
        module = importlib.import_module(room)
        for name in _names_of(module):
            value = getattr(module, name)
            if inspect.isclass(value) or inspect.isfunction(value):
                found.setdefault(id(value), (f"{room}.{name}", value))
    return dict(found.values())


def own_methods(kind: type) -> Iterator[str]:
    """Yield the public methods and properties that a class itself writes."""
    for name, value in vars(kind).items():
        bare = getattr(value, "__func__", getattr(value, "fget", value))
        if not name.startswith("_") and inspect.isfunction(bare):
            yield name


NAMES = public_names()
METHODS = [
    f"{name}.{method}"
    for name, value in NAMES.items()
    if inspect.isclass(value)
    for method in own_methods(value)
]


def overrides(name: str) -> bool:
    """Return whether a method stands, described, in another class of this package above it."""
    owner, _, method = name.rpartition(".")
    return any(
        method in vars(above) and above.__module__.startswith("sfumato.")
        for above in NAMES[owner].__mro__[1:]
    )


def faults(name: str, also_not_asked: set[str]) -> list[str]:
    found = validate(name)["errors"]
    return [
        f"{code} {text}" for code, text in found if code not in NOT_ASKED.keys() | also_not_asked
    ]


@pytest.mark.filterwarnings("ignore:Unknown section Privacy")
@for_each(NAMES)
def test_names(name: str) -> None:
    assert not faults(name, set())


@for_each(METHODS)
def test_methods(name: str) -> None:
    assert not faults(name, NOT_ASKED_OF_OVERRIDES if overrides(name) else set())


def test_nothing_is_left_out() -> None:
    assert {f"sfumato.{name}" for name in sfumato._MODULE_OF} <= set(NAMES)
    assert "sfumato.mechanisms.GaussianMechanism.release_symmetric" in METHODS
    assert "sfumato.Bounds.clip" in METHODS
    assert len(NAMES) > 90
    assert len(METHODS) > 200


def test_every_name_stands_in_the_reference() -> None:
    page = Path(__file__).parents[1] / "docs" / "reference" / "index.md"
    listed = re.findall(r"^   (sfumato\.[\w.]+)$", page.read_text(), flags=re.MULTILINE)
    described = {id(pydoc.locate(name)) for name in listed}
    assert not [name for name, value in NAMES.items() if id(value) not in described]


def undescribed(left: float, right: float) -> float:
    """add two numbers"""
    return left + right


def test_a_poor_docstring_is_noticed() -> None:
    codes = {fault[:4] for fault in faults(f"{__name__}.undescribed", set())}
    assert {"SS02", "SS03", "PR01", "RT01"} <= codes
