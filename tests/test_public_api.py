"""The public surface changes only on purpose."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import sfumato
from sfumato.models.base import PrivateEstimator
from tests.every import for_each

PUBLIC = sorted(sfumato._MODULE_OF)
ROOT = Path(__file__).parents[1]


def test_public_names() -> None:
    assert all(getattr(sfumato, name) is not None for name in PUBLIC)


PRIVATE = [
    name
    for name in PUBLIC
    if inspect.isclass(value := getattr(sfumato, name, None))
    and issubclass(value, PrivateEstimator)
]
FIVE_LINES = (
    "Unit and relation :",
    "Released :",
    "Sensitivity :",
    "Guarantee :",
    "Assumptions and numerics :",
)


@for_each(PRIVATE)
def test_private_estimators_state_their_privacy_in_five_lines(name: str) -> None:
    text = inspect.getdoc(getattr(sfumato, name)) or ""
    privacy = text.partition("Privacy\n-------\n")[2]
    positions = [privacy.find(line) for line in FIVE_LINES]
    assert -1 not in positions
    assert positions == sorted(positions)
    sheet = re.search(r"docs/guarantees/([\w-]+)\.md", privacy)
    assert sheet is not None, "the proof sheet is not named"
    assert (ROOT / sheet.group(0)).is_file()


WITHOUT_POSIX = """
import os, sys
for name in ("fcntl", "resource", "termios"):
    sys.modules[name] = None
for name in ("fork", "register_at_fork", "killpg"):
    delattr(os, name)
{}
"""


@pytest.mark.parametrize("start", ["import sfumato", "import runpy; runpy.run_module('sfumato')"])
def test_a_system_without_file_locks_is_refused_in_one_sentence(start: str) -> None:
    """Windows, as seen by an interpreter that lacks what Windows lacks."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_POSIX.format(start)], capture_output=True, text=True
    )
    assert done.returncode == 1
    assert (
        done.stderr.strip()
        .rpartition("\n")[2]
        .startswith("ImportError: Sfumato needs Linux or macOS")
    )
