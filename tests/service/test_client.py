"""The Python client, on a service in this process."""

from __future__ import annotations

import threading

import httpx
import numpy as np
import pytest

from sfumato import PrivateDensity, PrivateGaussianClassifier, PrivatePCA
from sfumato.exceptions import InvalidInputError, SfumatoError
from sfumato.service.client import Client, JobError
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
    assert ada.call("GET", "/me")["role"] == "analyst"
    asked = PrivateGaussianClassifier(epsilon=2.0, delta=1e-5, gaussians_per_class=1)
    model = ada.fit("patients", asked, purpose="triage")
    assert isinstance(model, PrivateGaussianClassifier)
    assert (model.guarantee_.epsilon, model.gaussians_per_class) == (2.0, 1)
    assert ada.call("GET", "/releases")["releases"][0]["purpose"] == "triage"


def test_tables_and_functions(ada: Client) -> None:
    job = ada.submit("patients", {"kind": "fabricate", "epsilon": 2.0, "purpose": "a table"})
    assert {"age", "bmi", "town", "ill"} == set(job.table().column_names)
    asked = {"kind": "density", "columns": ["age"], "epsilon": 1.0, "purpose": "ages"}
    model = ada.submit("patients", asked).model()
    assert isinstance(model, PrivateDensity)
    assert np.isfinite(model.density([[30.0], [60.0]])).all()


def test_errors_are_ours(ada: Client, house: House) -> None:
    with pytest.raises(JobError, match="by its mechanism") as refused:
        ada.fit("patients", PrivateGaussianClassifier(epsilon=99.0), purpose="greedy")
    assert refused.value.state == "refused"
    with pytest.raises(InvalidInputError, match="no data set"):
        ada.fit("nobody", PrivateGaussianClassifier(epsilon=1.0), purpose="lost")
    with pytest.raises(InvalidInputError, match="private estimators"):
        ada.fit("patients", np.zeros(3), purpose="a test")
    with pytest.raises(InvalidInputError, match="as JSON"):
        ada.fit("patients", PrivatePCA(n_components=threading.Lock()), purpose="a test")
    with pytest.raises(JobError, match="gaussians_per_class") as caught:
        ada.fit("patients", PrivateGaussianClassifier(gaussians_per_class=-2), purpose="wrong")
    assert caught.value.state == "failed"
    wrong = client_of(house, "ada")
    wrong._http.headers["Authorization"] = "Bearer sfm_x_y"
    with pytest.raises(SfumatoError, match="valid token"):
        wrong.call("GET", "/me")
    with pytest.raises(SfumatoError, match="did not answer"):
        Client("http://127.0.0.1:9", "sfm_x_y").call("GET", "/me")
