"""What the command line says beside results depends on public facts alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.running import confirmed, patients, run


def test_few_records_are_called_so_only_where_their_number_is_public(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    patients(tmp_path, "few.csv", n=20)
    fit = ("fit", "few.csv", "--model", "gaussian", "--epsilon", 1, "-o", "m.sfumato", "--force")
    fit = (*fit, "--bounds", confirmed(Path("few.csv")), "--relation")
    public = run(*fit, "replace_one")
    assert "With only 20 records (their number is public here)" in " ".join(public.stderr.split())
    secret = run(*fit, "add_or_remove_one")
    assert secret.exit_code == 0
    assert "20 records" not in secret.stderr
