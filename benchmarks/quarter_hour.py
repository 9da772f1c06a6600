"""Play three people in their first quarter of an hour, each in an empty environment.

``python -m benchmarks.quarter_hour WHEEL PYTHON PYTHON PYTHON``, apart from the other benchmarks
because it builds three environments.

A data scientist runs the quick start of the README and then the command line on a German table, an
officer the tutorial of the command line, a researcher reproductions and the demo. Commands are
taken from the pages where these have them. Kept are, per step, seconds by the clock, the exit code
and the last lines; what is asked at a terminal is answered by a script.
"""

from __future__ import annotations

import argparse
import os
import pty
import random
import re
import shlex
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.recording import write

ROOT = Path(__file__).parents[1]
LAST_LINES = 3
KNOWN = {"age:": "0 to 110", "blood_pressure:": "60 to 260"}  # as the tutorial says
GERMAN = "Klinik Größe.csv"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("pythons", nargs=3, metavar="PYTHON", help="of each person")
    asked = parser.parse_args()
    people = (("data scientist", data_scientist), ("officer", officer), ("researcher", researcher))
    rows = []
    for (name, plays), python in zip(people, asked.pythons, strict=True):
        with tempfile.TemporaryDirectory() as folder:
            person = Person(Path(folder))
            person.run([python, "-m", "venv", "env"])
            person.run(["pip", "install", "--quiet", str(asked.wheel.resolve())])
            person.run(["python", "--version"])
            plays(person)
        version = person.steps.pop(2)["told"][0].removeprefix("Python ")
        total = round(sum(step["wall_s"] for step in person.steps), 1)
        rows.append({"who": name, "python": version, "wall_s": total, "steps": person.steps})
    write("quarter_hour", rows, seed=None)


class Person:
    """Runs commands in a folder of her own and notes what they say."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.steps: list[dict[str, Any]] = []
        path = f"{folder / 'env' / 'bin'}{os.pathsep}{os.environ['PATH']}"
        self.environment = {"PATH": path, "OMP_NUM_THREADS": "1", "COLUMNS": "110"}
        self.environment |= {"HOME": os.environ["HOME"], "LANG": "C.UTF-8"}

    def run(self, words: list[str], *, code: int = 0) -> None:
        """Run a command, note it, and stop where it ends otherwise than expected."""
        begun = time.monotonic()
        if "confirm" in words:
            told, ended = in_terminal(words, self.folder, self.environment)
        else:
            # Found by her PATH, not by ours.
            line = ["/usr/bin/env", *words]
            done = subprocess.run(
                line, cwd=self.folder, env=self.environment, capture_output=True, text=True
            )
            told, ended = done.stderr + done.stdout, done.returncode
        seconds = round(time.monotonic() - begun, 1)
        lines = [line.rstrip() for line in told.splitlines() if line.strip()][-LAST_LINES:]
        shown = shlex.join(Path(word).name if "/" in word else word for word in words)
        self.steps.append({"command": shown, "wall_s": seconds, "code": ended, "told": lines})
        print(f"  {seconds:6.1f} s, code {ended}: {shown}", flush=True)
        if ended != code:
            raise SystemExit(told)


def in_terminal(words: list[str], folder: Path, environment: dict[str, str]) -> tuple[str, int]:
    """Answer the questions of `confirm`: what is known of a column, else yes."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(folder)
        os.execvpe(words[0], words, environment)
    shown, answered = b"", 0
    while True:
        try:
            shown += os.read(terminal, 4096)
        except OSError:  # the command has ended
            break
        while shown.count(b"quit: ") > answered:
            question = shown.split(b"quit: ")[answered].decode()
            answered += 1
            answer = next((known for name, known in KNOWN.items() if name in question), "yes")
            os.write(terminal, f"{answer}\n".encode())
    return shown.decode(), os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def data_scientist(person: Person) -> None:
    quick_start = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert quick_start is not None
    (person.folder / "quick_start.py").write_text(quick_start[1])
    person.run(["python", "quick_start.py"])
    write_german_table(person.folder / GERMAN)
    fit = ["sfumato", "fit", GERMAN, "--epsilon", "1", "--bounds", "bounds.toml"]
    paid = [*fit, "--ledger", "budget.db", "-o", "model.sfumato"]
    person.run(["sfumato", "describe", GERMAN, "--target", "geheilt", "-o", "bounds.toml"])
    person.run([*fit, "-o", "model.sfumato"], code=2)  # nobody has confirmed
    person.run(["sfumato", "confirm", "bounds.toml"])
    person.run(shlex.split("sfumato budget create budget.db klinik --epsilon 3 --delta 1e-5"))
    person.run(paid)
    person.run(paid, code=2)  # the model exists
    person.run(["sfumato", "predict", "model.sfumato", GERMAN, "-o", "predictions.csv"])
    person.run(["sfumato", "explain", "model.sfumato"])
    person.run(["sfumato", "guarantee", "model.sfumato"])


def officer(person: Person) -> None:
    page = (ROOT / "docs" / "tutorials" / "command-line.md").read_text()
    for block in re.findall(r"^```sh\n(.*?)^```", page, re.DOTALL | re.MULTILINE):
        for line in block.splitlines():
            if line.startswith("sfumato certificate"):
                person.run(["pip", "install", "--quiet", "cryptography"])
            if line.startswith("sfumato"):
                person.run(shlex.split(line, comments=True))


def researcher(person: Person) -> None:
    for line in (
        "sfumato reproduce --list",
        "sfumato reproduce kahm --figure 8",
        "sfumato reproduce large-margin --table 1 --quick",
        "sfumato demo -o demo.html",
    ):
        person.run(line.split())
    (person.folder / "study.py").write_text(STUDY)
    person.run(["python", "study.py"])


STUDY = """\
from sklearn.datasets import load_digits
from sfumato import Bounds, Ledger, PrivateLinearClassifier
X, y = load_digits(return_X_y=True)
budget = Ledger("budget.db").create("digits", epsilon=2.0, delta=1e-5)
for epsilon in (0.5, 1.0, 1.0, 1.0):
    model = PrivateLinearClassifier(
        epsilon=epsilon, delta=1e-6, bounds=Bounds(norm=80.0, labels=range(10)), ledger=budget
    ).fit(X, y)
    print(epsilon, round(budget.spent(), 2), round(budget.left(), 2))
"""


def write_german_table(path: Path) -> None:
    """Semicolons, decimal commas, points between thousands, cp1252, `k.A.` for missing cells."""
    chance = random.Random(1)
    lines = ["Nr;Alter;Größe cm;Kosten;Station;aufgenommen am;geheilt"]
    for number in range(1200):
        age = chance.randint(18, 95)
        costs = f"{chance.expovariate(1 / 2500):,.2f}".translate(str.maketrans(",.", ".,"))
        height = f"{chance.gauss(171, 9):.1f}".replace(".", ",")
        day = f"{chance.randint(1, 28):02}.{chance.randint(1, 12):02}.2025"
        healed = "ja" if chance.random() < (0.85 if age < 60 else 0.35) else "nein"
        told = age if chance.random() > 0.03 else "k.A."
        ward = chance.choice(["Süd", "Nord", "Ost"])
        lines.append(f"P{number:05};{told};{height};{costs};{ward};{day};{healed}")
    path.write_bytes("".join(f"{line}\r\n" for line in lines).encode("cp1252"))


if __name__ == "__main__":
    main()
