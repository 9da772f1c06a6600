"""Files of the project that nothing imports: they follow pyproject.toml and their schemas."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NAME = re.compile(r"[A-Za-z0-9._-]+")


def names(requirements: list[str]) -> set[str]:
    """Return the names of packages as indices write them."""
    found = (NAME.match(line) for line in requirements)
    return {re.sub(r"[-_.]+", "-", match[0]).lower() for match in found if match}


def test_the_lock_file_holds_all_that_development_needs() -> None:
    extras = PROJECT["optional-dependencies"]
    wanted = [*PROJECT["dependencies"], *extras["test"], *extras["lint"], *extras["docs"]]
    lines = (ROOT / "requirements-dev.txt").read_text().splitlines()
    locked = [line for line in lines if not line.startswith("#")]
    assert all("==" in line for line in locked)
    assert names(wanted) <= names(locked)


def test_the_conda_recipe_needs_what_the_package_needs() -> None:
    recipe = (ROOT / "conda" / "meta.yaml").read_text()
    run = re.search(r"\n  run:\n((?:    - .*\n)+)", recipe)
    assert run is not None
    listed = [line.removeprefix("    - ").replace(" ", "") for line in run[1].splitlines()]
    assert set(listed) - {"python>=3.11"} == set(PROJECT["dependencies"])


@pytest.mark.parametrize("page", ["llms.txt", "README.md"])
def test_pages_that_are_named_are_there(page: str) -> None:
    links = re.findall(r"\]\(((?!https?:)[^)#]+)", (ROOT / page).read_text())
    assert links
    assert not [link for link in links if not (ROOT / link).exists()]


def test_workflows_keep_their_schema() -> None:
    pytest.importorskip("check_jsonschema")
    paths = map(str, (ROOT / ".github" / "workflows").glob("*.yml"))
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema"]
    done = subprocess.run(
        [*command, "vendor.github-workflows", *paths], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
