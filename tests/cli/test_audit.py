"""``sfumato audit``: tables in, verdict, report and exit code out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from sfumato import AffineHullClassifier, Bounds, PrivateGaussianClassifier, save
from sfumato.cli.main import app

pytest.importorskip("pyarrow")
Files = dict[str, Path]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    folder = tmp_path_factory.mktemp("audit")
    rng = np.random.default_rng(0)
    y = np.arange(240) % 2
    X = np.clip(0.3 * rng.normal(size=(240, 3)) + 0.4 * y[:, None], -1, 1)
    bounds = Bounds(lower=-1.0, upper=1.0, labels=[0, 1])
    model = PrivateGaussianClassifier(2, epsilon=2.0, delta=1e-5, bounds=bounds)
    save(model.fit(X[:120], y[:120]), folder / "model.sfumato")
    hulls = AffineHullClassifier(2, n_layers=1).fit(X[:120], y[:120])
    save(hulls, folder / "hulls.sfumato")
    for name, part in (("a", slice(0, 120)), ("b", slice(120, 240))):
        table = np.column_stack([X[part], y[part]])
        header = "u,v,w,label"
        np.savetxt(folder / f"{name}.csv", table, delimiter=",", header=header, comments="")
    return {path.name: path for path in folder.iterdir()}


def run(*words: Any) -> Any:
    return CliRunner().invoke(app, ["audit", *map(str, words)])


def test_a_model_and_two_tables(files: Files, tmp_path: Path) -> None:
    page = tmp_path / "audit.html"
    words = ["--members", files["a.csv"], "--non-members", files["b.csv"], "--target", "label"]
    result = run(files["model.sfumato"], *words, "--runs", 30, "-o", page)
    assert result.exit_code == 0, result.output
    assert "Nothing contradicts the guarantee" in result.stdout
    assert "AUC of the threshold attack" in result.stdout
    assert "<svg" in page.read_text()


def test_a_refuted_promise_ends_with_3(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sfumato.audit.report.AuditReport.consistent", False)
    assert run(files["model.sfumato"], "--runs", 4).exit_code == 3
