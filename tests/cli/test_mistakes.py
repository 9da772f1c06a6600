"""Mistakes on the command line: each ends with a code and a message, and nothing is charged."""

from __future__ import annotations

import gzip
import os
import re
import shlex
from pathlib import Path

import pytest

from sfumato import Ledger
from tests.cli.running import confirmed, done, patients, run

FIT = "fit patients.csv --epsilon 1 --bounds bounds.toml -o new.sfumato"
MISTAKES = [
    # the table
    "describe nothing.csv",
    "describe empty.csv",
    "describe header.csv",
    "describe letter.docx",
    "describe wide.csv",
    "describe ragged.csv",
    "describe returns.csv",
    "describe utf16.csv",
    "describe packed.csv",
    "describe workbook.csv",
    "describe parquet.csv",
    "describe quote.csv",
    "describe folder",
    "describe nameless.csv --target ill",
    "describe unlabelled.csv --target ill",
    "describe cut.csv.gz",
    "describe noise.parquet",
    "describe patients.csv --target illness",
    "describe one.csv --target ill",
    "describe patients.csv -o bounds.txt",
    "describe patients.csv -o nowhere/bounds.toml",
    "describe patients.csv -o bounds.toml",
    "describe patients.csv --read delimiter=;;",
    "describe patients.csv --read encoding=utf-16",
    "describe patients.csv --read line_breaks=perhaps",
    "describe patients.csv --read colour=red",
    # the bounds
    "confirm nothing.toml",
    "confirm bounds.toml",
    "confirm proposed.toml",
    "fit patients.csv --epsilon 1 -o new.sfumato",
    "fit patients.csv --epsilon 1 --bounds nothing.toml -o new.sfumato",
    "fit patients.csv --epsilon 1 --bounds proposed.toml -o new.sfumato",
    "fit patients.csv --epsilon 1 --bounds patients.csv -o new.sfumato",
    "fit patients.csv --epsilon 1 --bounds upside-down.toml -o new.sfumato",
    "fit patients.csv --epsilon 1 --bounds endless.toml -o new.sfumato",
    "fit patients.csv --epsilon 1 --bounds unknown-key.toml -o new.sfumato",
    "fit patients.csv --epsilon 1 --bounds no-categories.toml -o new.sfumato",
    "fit patients.csv --epsilon 1 --bounds future.toml -o new.sfumato",
    "fit latin.csv --epsilon 1 --bounds bounds.toml -o new.sfumato",
    "fit short.csv --epsilon 1 --bounds bounds.toml -o new.sfumato",
    "fit returns.csv --epsilon 1 --bounds bounds.toml -o new.sfumato",
    "fit long-name.csv --epsilon 1 --bounds bounds.toml -o new.sfumato",
    # the promise
    f"{FIT} --target nobody",
    f"{FIT} --model forest",
    f"{FIT} --model regressor",
    f"{FIT} --set depth=3",
    f"{FIT} --set depth",
    f"{FIT} --unit person",
    f"{FIT} --unit village",
    f"{FIT} --delta 2",
    "fit patients.csv --epsilon 0 --bounds bounds.toml -o new.sfumato",
    "fit patients.csv --bounds bounds.toml -o new.sfumato",
    "fit patients.csv --epsilon 1 --bounds bounds.toml -o new.pkl",
    "fit patients.csv --epsilon 1 --bounds bounds.toml -o model.sfumato",
    # the budget
    f"{FIT} --ledger nothing.db",
    f"{FIT} --ledger budget.db --dataset wards",
    f"{FIT} --purpose research",
    "fit patients.csv --epsilon 9 --bounds bounds.toml -o new.sfumato --ledger budget.db",
    f"{FIT} --ledger patients.csv",
    "budget create budget.db ward --epsilon 9",
    "budget show budget.db wards",
    "budget verify budget.db --head ward=abc",
    # files that were made
    "predict nothing.sfumato patients.csv -o out.csv",
    "predict patients.csv patients.csv -o out.csv",
    "predict damaged.sfumato patients.csv -o out.csv",
    "predict model.sfumato short.csv -o out.csv",
    "predict model.sfumato patients.csv -o out.docx",
    "predict model.sfumato patients.csv -o out.csv --keep colour",
    "fabricate patients.csv --epsilon 1 --bounds bounds.toml -o out.csv.gz",
    "fabricate patients.csv --epsilon 1 --bounds bounds.toml -o out.csv --rows 0",
    "fabricate patients.csv --epsilon 1 --bounds bounds.toml -o patients.csv --force",
    "predict model.sfumato patients.csv -o folder/../patients.csv --force",
    "predict model.sfumato semicolons.csv -o out.csv",
    "guarantee patients.csv",
    "report model.sfumato -o out.pdf",
    "verify model.sfumato",
    "datasets fetch iris -o out.csv",
    "fitt patients.csv",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table, bounds, a budget, a model, and what can be wrong with each."""
    place, before = tmp_path_factory.mktemp("mistakes"), Path.cwd()
    os.chdir(place)
    try:
        patients(place)
        done("describe", "patients.csv", "--target", "ill", "-o", "proposed.toml")
        confirmed(Path("patients.csv")).rename("bounds.toml")
        done("budget", "create", "budget.db", "ward", "--epsilon", "3", "--delta", "1e-5")
        defaults = ("--model", "gaussian", "--epsilon", "1", "--bounds", "bounds.toml")
        done("fit", "patients.csv", *defaults, "-o", "model.sfumato", "--ledger", "budget.db")
        write_what_is_wrong()
    finally:
        os.chdir(before)
    return place


def write_what_is_wrong() -> None:
    texts = {
        "empty.csv": b"",
        "header.csv": b"a,b\n",
        "letter.docx": b"Dear Sir",
        "wide.csv": b",".join(b"c%d" % i for i in range(6000)) + b"\n",
        "ragged.csv": b"a,b\n1,2\n3\n",
        "returns.csv": b"a,b\r1,2\r3,4\r",
        "long-name.csv": b"a" * 200_000 + b",b\n1,2\n",
        "utf16.csv": "a,b\n1,2\n".encode("utf-16"),
        "packed.csv": gzip.compress(b"a,b\n1,2\n"),
        "workbook.csv": b"PK\x03\x04" + b"Zebedee\n,," * 9,
        "parquet.csv": b"PAR1\r\x15\x04\r" * 9,
        "quote.csv": b'a,b\n1,"2\n3,"4"\n5,6\n',
        "nameless.csv": b"50,no\n60,yes\n",
        "unlabelled.csv": b"age,ill\n50,\n60,\n",
        "cut.csv.gz": gzip.compress(b"a,b\n" + bytes(range(97, 107)) * 999)[:-9],
        "noise.parquet": b"Zebedee" * 99,
        "latin.csv": "größe,ill\n1,no\n".encode("cp1252"),
        "semicolons.csv": b"age;pressure;ward\n50;80;east\n",
        "short.csv": b"age,ill\n50,no\n",
        "one.csv": b"age,ill\n50,no\n60,no\n",
    }
    Path("folder").mkdir()
    for name, content in texts.items():
        Path(name).write_bytes(content)
    bounds = Path("bounds.toml").read_text()
    age = re.search(r'\[columns\."age"\].*?upper = \d+\n', bounds, flags=re.DOTALL)
    assert age is not None
    wrong = {
        "upside-down": age[0].replace("upper = ", "upper = -"),
        "endless": re.sub(r"upper = \d+", "upper = inf", age[0]),
        "unknown-key": age[0] + 'colour = "red"\n',
    }
    for name, text in wrong.items():
        Path(f"{name}.toml").write_text(bounds.replace(age[0], text))
    Path("no-categories.toml").write_text(bounds.replace('categories = ["east", "west"]\n', ""))
    Path("future.toml").write_text(bounds.replace("version = 2", "version = 99"))
    model = Path("model.sfumato").read_bytes()
    Path("damaged.sfumato").write_bytes(
        model[: len(model) // 2] + b"x" + model[len(model) // 2 + 1 :]
    )


def told(command: str) -> tuple[int, str]:
    """Run a mistake; return its code, and standard error without progress and frames."""
    result = run(*shlex.split(command))
    assert "Traceback" not in result.stderr, command
    assert isinstance(result.exception, SystemExit), (command, result.exception)
    assert result.stdout == "", command
    lines = [re.sub(r"[│╭╮╰╯─]", " ", line) for line in result.stderr.splitlines()]
    kept = [
        line for line in lines if not re.match(r"(Usage|Try|\w+ing .* \.\.\.|\s+Error\s*$)", line)
    ]
    said = " ".join(" ".join(kept).split()).replace(f"{Path.cwd()}/", "")
    return result.exit_code, said.partition(" Did you mean")[0]  # by some versions of Click


def test_every_mistake_is_answered_and_costs_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "200")
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    spent = Ledger("budget.db").dataset("ward").spent()
    for command in MISTAKES:
        code, message = told(command)
        assert code in (2, 3), (command, message)
        assert message, command
        assert "Zebedee" not in message
    assert Ledger("budget.db").dataset("ward").spent() == spent
    after = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    made = {name for name in after if not name.startswith("budget.db")} - set(before)
    assert not made
    assert all(after[name] == before[name] for name in before if not name.startswith("budget.db"))
    assert len(set(MISTAKES)) == len(MISTAKES) >= 60
