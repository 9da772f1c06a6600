"""How the suite runs: skips are counted, required groups must run, seeds reach every test."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfumato.mechanisms import entropy

ROOT = Path(__file__).parents[1]
SKIPPING = """
import pytest

@pytest.mark.torch
def test_a():
    pytest.importorskip("no_such_library", reason="no such library")

@pytest.mark.browser
def test_b():
    pass

def test_c():
    pytest.skip("no such thing")
"""


def run(folder: Path, *arguments: str, **environment: str) -> tuple[int, str]:
    """Run the suite of a folder under the conftest of this one."""
    (folder / "conftest.py").write_text((ROOT / "conftest.py").read_text())
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n torch\n browser\n servers\n slow\n")
    clean = {name: value for name, value in os.environ.items() if not name.startswith("SFUMATO")}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    done = subprocess.run(
        command, cwd=folder, env=clean | environment, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout


@pytest.mark.parametrize(
    ("required", "code", "said"),
    [
        ("browser", 0, [""]),
        (
            "torch,browser servers touch",
            1,
            [
                "1 tests of the group 'torch' were skipped.",
                "No test of the group 'servers' ran.",
                "'touch' is no group of tests.",
            ],
        ),
    ],
)
def test_skips_are_counted_and_required_groups_must_run(
    required: str, code: int, said: list[str], tmp_path: Path
) -> None:
    (tmp_path / "test_skipping.py").write_text(SKIPPING)
    found, out = run(tmp_path, "-p", "no:xdist", SFUMATO_REQUIRE=required)
    assert "Skipped 2: 1 × no such library; 1 × no such thing" in out
    assert found == code
    assert [sentence for sentence in said if sentence not in out] == []
    assert ("of the group 'browser'" in out) is False


# Seeds --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shared_word() -> int:
    return int(entropy.random_words(1)[0])


def word_of(name: str) -> int:
    named = f"{os.environ.get('SFUMATO_SEEDS', '')} {name}"
    return int.from_bytes(random.Random(named).randbytes(8), "little")


@pytest.mark.skipif("SFUMATO_FRESH" in os.environ, reason="noise is the operating system's")
def test_noise_is_drawn_by_the_name_of_a_test(shared_word: int, in_child: Any) -> None:
    """And that of a shared fixture by its own; a child has the operating system's."""
    name = "tests/test_running.py"
    fresh = in_child(lambda: entropy.random_words(1)[0] == word_of(name))
    assert int(entropy.random_words(1)[0]) == word_of(
        f"{name}::test_noise_is_drawn_by_the_name_of_a_test"
    )
    assert shared_word == word_of(f"{name} shared_word 0")
    assert fresh == repr(np.False_)
    assert not entropy.is_seeded()
