"""Public data sets: shapes, labels, parts and checksums."""

from __future__ import annotations

import gzip
import runpy
from pathlib import Path

import numpy as np
import pytest

from sfumato.datasets import ADULT_NUMBERS, CATALOGUE, EMBEDDED, available, load
from sfumato.exceptions import InvalidInputError

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("name", EMBEDDED)
def test_embedded_sets_need_nothing(name: str) -> None:
    found = load(name)
    n_rows, n_features, _ = CATALOGUE[name]
    assert found.X.shape == (n_rows, n_features)
    assert len(found.y) == n_rows
    assert list(found.table()) == [*found.columns, found.target]
    train, held_out = found.parts()
    np.testing.assert_array_equal(np.sort(np.r_[train, held_out]), np.arange(n_rows))
    assert len(held_out) == pytest.approx(0.3 * n_rows, abs=2)
    shares = [np.unique(found.y[part], return_counts=True)[1] / len(part) for part in found.parts()]
    np.testing.assert_allclose(shares[0], shares[1], atol=0.02)
    assert [part.tolist() for part in load(name).parts()] == [train.tolist(), held_out.tolist()]


def test_the_hospital_is_made_by_its_script() -> None:
    """Nobody in it exists: the script alone makes it, to the byte of its text."""
    made = runpy.run_path(str(ROOT / "tools" / "hospital_table.py"))
    assert gzip.decompress(made["PLACE"].read_bytes()) == gzip.decompress(made["content"]())
    found = load("hospital")
    assert set(found.y) == {"no", "yes"}
    assert np.isnan(found.columns["creatinine"]).mean() == pytest.approx(0.12, abs=0.02)


@pytest.mark.parametrize(
    ("name", "n_train", "labels"),
    [
        ("mnist", 60000, [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]),
        ("usps", 7291, [359, 264, 198, 166, 200, 160, 170, 147, 166, 177]),
        ("adult", 32561, [12435, 3846]),
    ],
)
def test_sets_of_a_folder(data_folder: Path, name: str, n_train: int, labels: list[int]) -> None:
    if available(data_folder)[name] != "folder":
        pytest.skip(f"the folder has no {name}")
    found = load(name, data_folder)
    assert (len(found.y), len(found.columns)) == CATALOGUE[name][:2]
    train, test = found.parts()
    assert len(train) == n_train
    assert np.unique(found.y[test], return_counts=True)[1].tolist() == labels
    if name == "adult":
        kinds = {column: values.dtype.kind for column, values in found.columns.items()}
        assert {column for column, kind in kinds.items() if kind == "i"} == ADULT_NUMBERS
        assert found.columns["workclass"][0] == "State-gov"


def test_a_changed_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "usps").mkdir()
    (tmp_path / "usps" / "usps.npz").write_bytes(b"something else")
    assert available(tmp_path)["usps"] == "folder"
    with pytest.raises(InvalidInputError, match="SHA-256"):
        load("usps", tmp_path)
