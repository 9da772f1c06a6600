"""What the pages show runs: blocks of Python and of commands, in the order of the page."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.cli.running import confirmed, done, patients, typed

DOCS = Path(__file__).parents[1] / "docs"
# Each block that runs: Python, or commands ("sh" bare, "console" behind a prompt). What must not
# be run, or is printed by a program, is marked "text" on the page.
BLOCK = re.compile(r"^```(python|sh|console)\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)
ELSEWHERE = {
    "howto/command-line.md",  # tests/cli/test_readme_path.py, with the file it shows
    "howto/reproduce.md",  # tests of the reproductions
}
PAGES = sorted(
    str(page.relative_to(DOCS))
    for folder in ("tutorials", "howto", "explanation", "reproductions")
    for page in (DOCS / folder).glob("*.md")
    if BLOCK.search(page.read_text())
)
# What a page must have said by its end.
SAID = {
    "tutorials/rows-to-guarantee.md": (
        "Proved: replacing any one record",
        "NO PRIVACY",
        "The budget of 'people' refuses",
        "Nothing contradicts the guarantee",
    ),
    "howto/audit.md": ("REFUTED: epsilon 1 was promised",),
    "howto/test-your-own-estimator.md": ("1.4142 of its sensitivity",),
    "explanation/five-papers.md": ("pixel 0.1: image 78, or 14.9 at 1e-5",),
}


def blocks(page: Path) -> list[tuple[str, str]]:
    """Return kind and text of every block that runs."""
    return BLOCK.findall(page.read_text())


def run_commands(text: str, kind: str) -> None:
    """Run the commands of a block; a prompt marks those of a console, the rest is output."""
    for line in text.splitlines():
        if kind == "console":
            if not line.startswith("$ "):
                continue
            line = line.removeprefix("$ ")
        words = shlex.split(line, comments=True)
        output = None
        if ">" in words:
            output, words = words[words.index(">") + 1], words[: words.index(">")]
        if words[:2] == ["sfumato", "confirm"]:
            assert typed(*words[1:]).exit_code == 0
        elif words and words[0] == "sfumato":
            said = done(*words[1:])
            if output is not None:
                Path(output).write_text(said)
        elif words:
            subprocess.run(words, check=True)


def prepare(page: str) -> None:
    """Put files in place that the page takes for granted."""
    if page == "howto/audit.md":
        train = patients(Path(), "train.csv")
        patients(Path(), "test.csv", n=200)
        words = ("--epsilon", 1, "--bounds", confirmed(train), "-o", "model.sfumato")
        done("fit", train, "--model", "gaussian", *words)  # audited 150 times below


@pytest.mark.parametrize("page", [page for page in PAGES if page not in ELSEWHERE])
@pytest.mark.filterwarnings("ignore:(The (printed|target) |delta=0.1 )")  # of the papers
def test_the_blocks_of_a_page_run(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    prepare(page)
    module = ModuleType("page")  # what a page defines stands in a module, as anybody's script does
    monkeypatch.setitem(sys.modules, "page", module)
    for number, (kind, text) in enumerate(blocks(DOCS / page)):
        if kind == "python":
            exec(compile(text, f"{page}, block {number}", "exec"), vars(module))
        else:
            run_commands(text, kind)
    printed = capsys.readouterr().out
    for sentence in SAID.get(page, ()):
        assert sentence in printed


def test_the_home_page_says_what_its_block_prints(capsys: pytest.CaptureFixture[str]) -> None:
    ((kind, text),) = blocks(DOCS / "index.md")
    assert kind == "python"
    exec(compile(text, "index.md", "exec"), {})
    shown = (DOCS / "index.md").read_text().split("```text\n")[2].partition("```")[0]
    assert capsys.readouterr().out.split() == shown.split()


def test_every_page_with_blocks_is_run_somewhere() -> None:
    assert {"tutorials/rows-to-guarantee.md", "tutorials/command-line.md"} < set(PAGES)
    assert len(PAGES) > 12
    others = {"reference", "guarantees"}
    for folder in others:
        assert not [page for page in (DOCS / folder).glob("*.md") if BLOCK.search(page.read_text())]


def test_a_command_that_fails_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AssertionError):
        run_commands("$ sfumato guarantee nothing.sfumato\n", "console")
