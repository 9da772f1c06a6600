"""From a table to a model, predictions and private rows on the command line."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import sfumato
from sfumato import Ledger, TableBounds, release_score
from sfumato.exceptions import UnlistedCategoryWarning
from sfumato.tables.files import TableFile
from tests.cli.running import confirmed, done, patients, refused

ENOUGH = ("--epsilon", "20", "--delta", "1e-5")


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return patients(tmp_path).relative_to(tmp_path)


def test_a_model_learns_predicts_and_states_itself(table: Path) -> None:
    bounds = confirmed(table)
    words = ("fit", table, "--target", "ill", *ENOUGH, "--bounds", bounds, "-o", "m.sfumato")
    fitted = json.loads(done(*words, "--json"))
    assert fitted["class"] == "PrivateAdditiveClassifier"  # by the public rule
    assert 19.9 < fitted["guarantee"]["epsilon"] <= 20.0
    print_lines = json.loads(
        done("predict", "m.sfumato", table, "-o", "out.parquet", "--keep", "ill", "--json")
    )
    told = {"output": "out.parquet", "rows": 400, "columns": ["ill", "prediction"]}
    assert print_lines == {**told, "new_categories": {}}
    found = TableFile("out.parquet").read()
    # Who is ill is a matter of two columns together, which an additive model sees in part.
    assert np.mean(np.asarray(found["ill"]) == np.asarray(found["prediction"])) > 0.65
    stated = json.loads(done("guarantee", "m.sfumato", "--json"))
    assert stated["guarantee"] == fitted["guarantee"]
    assert stated["proof"] == "docs/guarantees/additive.md"
    assert {"age", "pressure", "ward", "smoker"} <= set(
        stated["bounds"]["table"]["dict"]["columns"]["dict"]
    )
    model = sfumato.load("m.sfumato")
    assert model.guarantee_.to_dict() == fitted["guarantee"]
    rows = pd.read_csv(table).replace({"ward": {"east": "E.R."}})
    rows.loc[:9, "ward"] = None  # missing, which is no category
    rows.to_csv("odd.csv", index=False)
    n_unlisted = {"ward": int((rows["ward"] == "E.R.").sum())}
    told = json.loads(done("predict", "m.sfumato", "odd.csv", "-o", "odd.parquet", "--json"))
    assert told["new_categories"] == n_unlisted
    with warnings.catch_warnings(action="error"):  # neither a fit nor a private score tells
        clone(model).fit(rows)
        release_score(model, rows, epsilon=1.0)
    for ask in (model.predict, model.predict_proba):
        with pytest.warns(UnlistedCategoryWarning, match=f"ward {n_unlisted['ward']}[.]"):
            ask(rows)
    assert "released: gaussian" in done("guarantee", "m.sfumato")
    assert "breast-cancer" in done("datasets", "list")


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_fabricated_tables_carry_their_guarantee(table: Path, suffix: str) -> None:
    output = f"private{suffix}"
    words = ("fabricate", table, *ENOUGH, "--bounds", confirmed(table), "-o", output)
    done(*words, "--rows", "60", "--model", "maker.sfumato")
    made = TableFile(output)
    assert made.n_rows == 60
    assert list(made.columns) == ["age", "pressure", "ward", "smoker", "ill"]
    print_lines = json.loads(done("guarantee", output, "--json"))
    assert print_lines["class"] == "Fabricator"
    assert print_lines["guarantee"] == sfumato.load("maker.sfumato").guarantee_.to_dict()
    assert "no guarantee" in refused("guarantee", table)
    done("certificate", output, "--key", "k.pem", "--new-key", "-o", "c.json")
    stated = json.loads(Path("c.json").read_text())["bounds"]
    assert stated == json.loads(json.dumps(TableBounds.read(words[-3]).to_record()))
    done("report", output, "-o", "report.json")
    assert (
        "0 to 100" in json.loads(Path("report.json").read_text())["results"][0]["declared"]["age"]
    )


def test_the_ledger_pays_and_refuses(table: Path) -> None:
    bounds = confirmed(table)
    done("budget", "create", "budget.db", "ward", "--epsilon", "1.5", "--delta", "1e-5")
    words = ("fit", table, "--epsilon", "1", "--bounds", bounds, "--ledger", "budget.db")
    assert "Ledger 'ward': spent" in done(*words, "-o", "one.sfumato")
    spent = Ledger("budget.db").dataset("ward").spent()
    line = refused(*words, "--epsilon", "5", "-o", "two.sfumato", code=3)
    assert "refuses this charge" in line
    assert Ledger("budget.db").dataset("ward").spent() == spent
    assert not Path("two.sfumato").exists()
    done("budget", "create", "budget.db", "staff", "--epsilon", "9", "--delta", "1e-5")
    assert "--dataset" in refused(*words, "-o", "two.sfumato")
    done(*words, "-o", "two.sfumato", "--dataset", "staff")
