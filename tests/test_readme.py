"""What the README shows runs, and prints what it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def test_the_quickstart_runs_and_ends_with_the_guarantee(tmp_path: Path) -> None:
    code = re.search(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    assert code is not None
    done = subprocess.run(
        [sys.executable, "-c", code[1]], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    right, promise = done.stdout.strip().splitlines()
    shown = re.search(r"```text\n(right: .*?)```", README.read_text(), flags=re.DOTALL)
    assert shown is not None
    said, _, told = shown[1].partition("\n")
    assert promise.startswith(" ".join(told.split()).removesuffix("..."))
    # Fits differ by a point or so; by 6 points, a standard deviation of which is below one, never.
    assert abs(int(right[7:-1]) - int(said[7:-1])) <= 6
