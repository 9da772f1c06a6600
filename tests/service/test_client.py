"""The Python client, on a service in this process."""

from __future__ import annotations

import threading
from typing import Any

import httpx
import numpy as np
import pytest

from sfumato import (
    Fabricator,
    PrivateDensity,
    PrivateGaussianClassifier,
    PrivateLinearClassifier,
    PrivatePCA,
    PrivateSearchCV,
)
from sfumato.exceptions import BudgetExceededError, InvalidInputError, SfumatoError
from sfumato.service.client import Client, JobError, RemoteDataset
from tests.service.house import House


class InProcess(httpx.BaseTransport):
    """Hands requests to the app, and lets the workers work before the next look."""

    def __init__(self, house: House) -> None:
        self.house = house

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if request.method == "GET" and "/jobs/" in request.url.path:
            self.house.work()
        answer = self.house.request(
            request.method,
            str(request.url.raw_path, "ascii"),
            headers=dict(request.headers),
            content=request.read(),
        )
        headers = [(k, v) for k, v in answer.headers.items() if k != "content-encoding"]
        return httpx.Response(answer.status_code, headers=headers, content=answer.content)


def client_of(house: House, name: str) -> Client:
    client = Client("http://test", house.tokens[name])
    client._http = httpx.Client(
        base_url="http://test/api/v1",
        headers=client._http.headers,
        transport=InProcess(house),
    )
    return client


@pytest.fixture(scope="module")
def ada(house: House) -> Client:
    return client_of(house, "ada")


def test_a_fit_comes_back_fitted(ada: Client) -> None:
    assert ada.me()["role"] == "analyst"
    assert ada.datasets() == ["patients"]
    patients = ada.dataset("patients")
    model = patients.fit(
        PrivateGaussianClassifier(epsilon=2.0, delta=1e-5, gaussians_per_class=1), purpose="triage"
    )
    assert isinstance(model, PrivateGaussianClassifier)
    assert (model.guarantee_.epsilon, model.gaussians_per_class) == (2.0, 1)
    dummy = patients.dummy_rows(50)
    assert len(model.predict(dummy)) == 50
    assert patients.releases()[0]["purpose"] == "triage"


def test_tables_and_functions(ada: Client) -> None:
    patients = ada.dataset("patients")
    job = patients.fit(Fabricator(epsilon=2.0), purpose="a table", wait=False)
    assert {"age", "bmi", "town", "ill"} == set(job.table().column_names)
    assert 1.9 < job.guarantee().epsilon <= 2.0
    asked = {"kind": "density", "columns": ["age"], "epsilon": 1.0, "purpose": "ages"}
    job = patients.submit(asked)
    assert isinstance(job.model(), PrivateDensity)
    assert np.isfinite(job.ask([[30.0], [60.0]])).all()


def test_errors_are_ours(ada: Client, house: House) -> None:
    patients = ada.dataset("patients")
    assert not patients.plan(99.0)["fits"]
    with pytest.raises(BudgetExceededError, match="does not allow"):
        patients.fit(PrivateGaussianClassifier(epsilon=99.0), purpose="greedy")
    with pytest.raises(InvalidInputError, match="no data set"):
        ada.dataset("nobody")
    with pytest.raises(InvalidInputError, match="private estimators"):
        patients.fit(np.zeros(3), purpose="a test")
    with pytest.raises(InvalidInputError, match="as JSON"):
        patients.fit(PrivatePCA(n_components=threading.Lock()), purpose="a test")
    with pytest.raises(JobError, match="gaussians_per_class") as caught:
        patients.fit(PrivateGaussianClassifier(gaussians_per_class=-2), purpose="wrong")
    assert caught.value.state == "failed"
    wrong = client_of(house, "ada")
    wrong._http.headers["Authorization"] = "Bearer sfm_x_y"
    with pytest.raises(SfumatoError, match="valid token"):
        wrong.me()


def test_a_search_is_sent_as_what_is_tried(ada: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Any] = []
    monkeypatch.setattr(RemoteDataset, "submit", lambda _, asked: sent.append(asked))
    model = PrivateLinearClassifier(whiten=False)
    search = PrivateSearchCV(model, {"n_steps": (2, 4)}, epsilon=0.5, delta=1e-7)
    ada.dataset("patients").fit(search, purpose="triage", wait=False)
    assert sent == [
        {
            "kind": "search",
            "estimator": "PrivateLinearClassifier",
            "purpose": "triage",
            "parameters": {"whiten": False},
            "grid": {"n_steps": [2, 4]},
            "epsilon": 0.5,
            "delta": 1e-7,
        }
    ]
    for other in (search.set_params(mean_runs=9), PrivateSearchCV(model, [{"n_steps": [2]}])):
        with pytest.raises(InvalidInputError, match="default number of runs"):
            ada.dataset("patients").fit(other, purpose="triage")


def test_a_service_that_is_not_there() -> None:
    with pytest.raises(SfumatoError, match="did not answer"):
        Client("http://127.0.0.1:9", "sfm_x_y").me()
