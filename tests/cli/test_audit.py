"""``sfumato audit``: tables in, verdict, report and exit code out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow.csv import write_csv

from sfumato import PrivateGaussianClassifier, TableBounds, save
from tests.cli.running import run

Files = dict[str, Path]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    folder = tmp_path_factory.mktemp("audit")
    rng = np.random.default_rng(0)
    y = np.arange(240) % 2
    X = np.clip(0.3 * rng.normal(size=(240, 3)) + 0.4 * y[:, None], -1, 1)
    tables = {
        name: pa.table({**dict(zip("uvw", X[part].T, strict=True)), "label": y[part]})
        for name, part in (("a", slice(0, 120)), ("b", slice(120, 240)))
    }
    bounds = TableBounds.from_dict(
        {**dict.fromkeys("uvw", (-1, 1)), "label": [0, 1]}, target="label"
    )
    model = PrivateGaussianClassifier(2, epsilon=2.0, delta=1e-5, bounds=bounds)
    save(model.fit(tables["a"]), folder / "model.sfumato")
    for name, table in tables.items():
        write_csv(table, folder / f"{name}.csv")
    return {path.name: path for path in folder.iterdir()}


def test_a_model_and_two_tables(files: Files, tmp_path: Path) -> None:
    page = tmp_path / "audit.html"
    words = ["--members", files["a.csv"], "--non-members", files["b.csv"]]
    result = run("audit", files["model.sfumato"], *words, "--runs", 30, "-o", page)
    assert result.exit_code == 0, result.output
    assert "Nothing contradicts the guarantee" in result.stdout
    assert "AUC of the threshold attack" in result.stdout
    assert "<svg" in page.read_text()


def test_a_refuted_promise_ends_with_3(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sfumato.audit.report.AuditReport.consistent", False)
    assert run("audit", files["model.sfumato"], "--runs", 4).exit_code == 3
