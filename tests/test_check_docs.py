"""The check of the pages sees what it is there for."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

TOOL = runpy.run_path(str(Path(__file__).parents[1] / "tools" / "check_docs.py"))
CODE = '''
SCALE = 2.0
OTHER = 5


def used():
    return SCALE


class Model:
    share = 1

    def fit(self, X: "Unrelated"):
        """Documented."""
        return self._step(used())  # [P1] a step

    def _step(self, value):
        return value * self.share

    def predict(self):
        return OTHER
'''


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ('"""Documented."""', '"""Better."""', True),
        ("# [P1] a step", "# [P1] the step", True),
        ("OTHER = 5", "OTHER = 6", True),
        ("self._step(used())", "self._step(0)", False),
        ("SCALE = 2.0", "SCALE = 1.0", False),
        ("value * self.share", "value", False),
        ("share = 1", "share = 2", False),
    ],
)
def test_a_fingerprint_sees_what_a_function_uses(
    old: str, new: str, same: bool, tmp_path: Path
) -> None:
    found = []
    for text in (CODE, CODE.replace(old, new)):
        (tmp_path / "code.py").write_text(text)
        module = TOOL["Module"](tmp_path / "code.py")
        found.append(module.fingerprint("Model.fit"))
        assert module.tags_of("Model.fit") == {"P1"}
    assert (found[0] == found[1]) is same
