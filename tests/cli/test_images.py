"""Images in folders and arrays: every file is one record, whatever is in it."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sfumato import PrivateImageClassifier, load
from sfumato.cli.jobs.images import fit_images, predict_images, read_images
from sfumato.cli.jobs.pipeline import PrivacyRequest
from sfumato.exceptions import InvalidInputError
from tests.cli.running import done, refused

SIZE = (8, 8, 1)
PROMISE = PrivacyRequest(epsilon=20.0, delta=1e-3)


def striped(generator: np.random.Generator, upright: bool) -> np.ndarray:
    """Return an image of 8 x 8 pixels whose stripes stand or lie."""
    stripes = np.tile(np.arange(8) % 4 < 2, (8, 1)) * 200
    noisy = (stripes if upright else stripes.T) + generator.integers(0, 55, (8, 8))
    return noisy.astype(np.uint8)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    generator = np.random.default_rng(0)
    for label in ("lies", "stands"):
        (tmp_path / "images" / label).mkdir(parents=True)
        for i in range(40):
            image = Image.fromarray(striped(generator, label == "stands"))
            image.save(tmp_path / "images" / label / f"{i:02}.png")
    (tmp_path / "images" / ".hidden").write_text("not a label")
    return tmp_path / "images"


ODD = {
    "no image at all": b"just a text",
    "empty": b"",
    "cut off": None,
    "huge": b"P5\n100000 100000\n255\n",
    "text among names": "\u0000".encode(),
}


@pytest.mark.parametrize("kind", ODD)
def test_an_odd_file_is_one_blank_image_and_silent(folder, kind):
    before = read_images(folder, SIZE)
    victim = folder / "lies" / "05.png"
    content = ODD[kind]
    victim.write_bytes(victim.read_bytes()[:60] if content is None else content)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        after = read_images(folder, SIZE)
    assert not after.rows[5].any()
    np.testing.assert_array_equal(np.delete(after.rows, 5, 0), np.delete(before.rows, 5, 0))
    assert (after.names, after.labels, after.shape) == (before.names, before.labels, before.shape)


def test_a_model_of_a_folder_predicts_folders_and_arrays(folder, tmp_path):
    model = fit_images(read_images(folder, SIZE), PROMISE, image_features="hog")
    assert model.guarantee_.epsilon == 20.0
    found = predict_images(model, folder, probabilities=True)
    assert found.column_names[:2] == ["image", "prediction"]
    labels = [name.split("/")[0] for name in found["image"].to_pylist()]
    assert np.mean(np.array(labels) == found["prediction"].to_numpy()) > 0.9
    rows = read_images(folder, SIZE).rows
    for X in (rows.reshape(-1, 8, 8), rows.reshape(-1, 8, 8) / np.float64(255)):
        np.savez(tmp_path / "arrays.npz", X=X)
        again = predict_images(model, tmp_path / "arrays.npz")
        assert again["prediction"].to_pylist() == found["prediction"].to_pylist()


def test_what_is_public_must_be_given(folder, tmp_path):
    with pytest.raises(InvalidInputError, match="public size"):
        read_images(folder)
    np.savez(tmp_path / "a.npz", X=np.zeros((4, 8, 8), np.uint8), y=np.arange(4) % 2)
    images = read_images(tmp_path / "a.npz")
    with pytest.raises(InvalidInputError, match="label set must be given"):
        fit_images(images, PROMISE, image_features="hog")
    (tmp_path / "b.npz").write_bytes(b"no archive")
    with pytest.raises(InvalidInputError, match="cannot be read"):
        read_images(tmp_path / "b.npz")
    np.savez(tmp_path / "c.npz", X=np.array([object()], dtype=object))
    with pytest.raises(InvalidInputError, match="cannot be read"):
        read_images(tmp_path / "c.npz")
    np.savez(tmp_path / "d.npz", X=np.zeros((4, 64), np.uint8), y=np.arange(3))
    with pytest.raises(InvalidInputError, match="one per image"):
        read_images(tmp_path / "d.npz", (8, 8))


def test_the_command_line_fits_and_predicts_images(folder, tmp_path):
    model, out = tmp_path / "m.sfumato", tmp_path / "out.csv"
    fit = ("fit", folder, "--model", "linear", "--epsilon", "20", "--delta", "1e-3")
    fit = (*fit, "--image-features", "hog", "-o", model)
    assert "--image-size" in refused(*fit, "--image-size", "8by8")
    report = json.loads(done(*fit, "--image-size", "8x8", "--json"))
    assert report["class"] == "PrivateImageClassifier"
    assert isinstance(load(model), PrivateImageClassifier)
    done("predict", model, folder, "-o", out)
    assert len(out.read_text().splitlines()) == 81
