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
    last = done.stdout.strip().splitlines()[-1]
    shown = " ".join(line.removeprefix("# ") for line in code[1].splitlines() if line[:2] == "# ")
    assert last == shown
    assert (tmp_path / "budget.db").is_file()
