"""The client of a service: data sets of others, asked with the estimators of this library.

Only the documented API is used. Nothing but released numbers comes back.
"""

from __future__ import annotations

import io
import json
import secrets
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sklearn.base import clone

from sfumato.exceptions import (
    BudgetExceededError,
    InvalidInputError,
    SfumatoError,
)
from sfumato.models.saving import load
from sfumato.privacy.guarantee import Guarantee

OWN_WORDS = {"epsilon", "delta", "unit", "relation", "bounds", "ledger", "n_jobs", "verbose"}
FIRST_PAUSE, MAX_PAUSE = 0.1, 2.0


class JobError(SfumatoError):
    """A job ended without a release; its state says whether it was charged."""

    def __init__(self, message: str, state: str) -> None:
        super().__init__(message)
        self.state = state

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.args[0], self.state))


class Client:
    """A person at a service.

    Parameters
    ----------
    url : str
        Where the service is, such as "https://data.office.example".
    token : str
        Hers, as an officer has given it.
    timeout : float, default=60.0
        Seconds to wait for an answer.
    verify : bool or str, default=True
        Whether certificates are checked, or the file of the authority to check them by.
    """

    def __init__(
        self, url: str, token: str, *, timeout: float = 60.0, verify: bool | str = True
    ) -> None:
        try:
            import httpx
        except ModuleNotFoundError:
            raise InvalidInputError(
                "The client needs the package 'httpx': pip install 'sfumato[service]'."
            ) from None
        self.url = url.rstrip("/")
        self._http = httpx.Client(
            base_url=f"{self.url}/api/v1",
            headers={"Authorization": f"Bearer {token}"},
            timeout=timeout,
            verify=verify,
        )

    def me(self) -> dict[str, Any]:
        """Return name, role and scope of the token.

        Returns
        -------
        dict
            ``name``, ``role``, ``scope``.
        """
        found: dict[str, Any] = self.call("GET", "/me")
        return found

    def datasets(self) -> list[str]:
        """List the data sets that the person may see.

        Returns
        -------
        list of str
            Their names.
        """
        return [one["name"] for one in self.call("GET", "/datasets")]

    def dataset(self, name: str) -> RemoteDataset:
        """Return one data set.

        Parameters
        ----------
        name : str
            Its name.

        Returns
        -------
        RemoteDataset
            To be asked.
        """
        return RemoteDataset(self, self.call("GET", f"/datasets/{name}")["name"])

    def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        raw: bool = False,
        **query: Any,
    ) -> Any:
        """Call one route of the API.

        Parameters
        ----------
        method, path : str
            As on the page of the API.
        body : mapping, optional
            Sent as JSON.
        headers : mapping, optional
            Further headers.
        raw : bool, default=False
            Whether to give bytes instead of the values of JSON.
        **query
            The query.

        Returns
        -------
        object
            What the service answers.
        """
        import httpx

        asked = {key: value for key, value in query.items() if value is not None}
        try:
            answer = self._http.request(
                method, path, json=body, params=asked, headers=dict(headers or {})
            )
        except httpx.HTTPError as error:
            raise SfumatoError(
                f"The service at {self.url} did not answer: {type(error).__name__}."
            ) from None
        if answer.is_success:
            if raw:
                return answer.content
            return answer.json() if answer.content else None
        raise _error(answer)


class RemoteDataset:
    """A data set of a service.

    Parameters
    ----------
    client : Client
        Who asks.
    name : str
        The data set.
    """

    def __init__(self, client: Client, name: str) -> None:
        self.client = client
        self.name = name

    def about(self) -> dict[str, Any]:
        """Return schema, public facts, budget and quota.

        Returns
        -------
        dict
            As the API says.
        """
        found: dict[str, Any] = self.client.call("GET", f"/datasets/{self.name}")
        return found

    def plan(self, epsilon: float, delta: float | None = None, kind: str = "fit") -> dict[str, Any]:
        """Return what a request would cost and leave; nothing is read or charged.

        Parameters
        ----------
        epsilon, delta : float
            What would be asked.
        kind : str, default="fit"
            For what; a "search" costs more than one release.

        Returns
        -------
        dict
            ``fits``, ``needs_approval``, and what is left ``after`` it.
        """
        found: dict[str, Any] = self.client.call(
            "GET", f"/datasets/{self.name}/plan", epsilon=epsilon, delta=delta, kind=kind
        )
        return found

    def dummy_rows(self, n_rows: int = 200) -> Any:
        """Return rows made from the bounds alone, to try code out.

        Parameters
        ----------
        n_rows : int, default=200
            How many.

        Returns
        -------
        pyarrow.Table
            Rows of nobody.
        """
        from pyarrow import csv

        path = f"/datasets/{self.name}/dummy"
        return csv.read_csv(io.BytesIO(self.client.call("GET", path, raw=True, rows=n_rows)))

    def submit(self, asked: Mapping[str, Any], *, key: str | None = None) -> RemoteJob:
        """Ask for a release.

        Parameters
        ----------
        asked : mapping
            The body of the request, as the API says.
        key : str, optional
            A text that makes a retry harmless; by default a new one.

        Returns
        -------
        RemoteJob
            To wait for.
        """
        headers = {"Idempotency-Key": key or secrets.token_hex(16)}
        path = f"/datasets/{self.name}/jobs"
        job = self.client.call("POST", path, asked, headers=headers)
        return RemoteJob(self.client, job["id"])

    def fit(self, estimator: Any, *, purpose: str, wait: bool = True) -> Any:
        """Fit an estimator where the rows are, and return it fitted.

        Parameters
        ----------
        estimator : estimator
            One of Sfumato's, or a `PrivateSearchCV` of one. Its epsilon, delta and settings are
            sent; bounds, unit and relation are those of the data set.
        purpose : str
            What the model is for.
        wait : bool, default=True
            Whether to wait for the model, or to give the job.

        Returns
        -------
        estimator or RemoteJob
            The fitted model, or its job.
        """
        job = self.submit(_asked(estimator, purpose))
        return job.model() if wait else job

    def releases(self) -> list[dict[str, Any]]:
        """List what was released of this data set.

        Returns
        -------
        list of dict
            The releases.
        """
        found: list[dict[str, Any]] = self.client.call("GET", "/releases", dataset=self.name)
        return found


class RemoteJob:
    """A job of a service.

    Parameters
    ----------
    client : Client
        Who asks.
    identity : str
        The job.
    """

    def __init__(self, client: Client, identity: str) -> None:
        self.client = client
        self.id = identity

    def status(self) -> dict[str, Any]:
        """Return the job as it is now.

        Returns
        -------
        dict
            Its ``state`` and, where it has ended, the ``reason``.
        """
        found: dict[str, Any] = self.client.call("GET", f"/jobs/{self.id}")
        return found

    def cancel(self) -> None:
        """End the job; what was charged stays charged."""
        self.client.call("POST", f"/jobs/{self.id}/cancel")

    def wait(self, timeout: float | None = None) -> dict[str, Any]:
        """Wait for the release.

        Parameters
        ----------
        timeout : float, optional
            The most seconds to wait.

        Returns
        -------
        dict
            The release.

        Raises
        ------
        JobError
            The job ended without one.
        """
        start, pause = time.monotonic(), FIRST_PAUSE
        while (job := self.status())["state"] in ("waiting", "queued", "running"):
            if timeout is not None and time.monotonic() - start > timeout:
                raise JobError(f"The job {self.id} is still {job['state']}.", job["state"])
            time.sleep(pause)
            pause = min(1.5 * pause, MAX_PAUSE)
        if job["state"] != "released":
            reason = job.get("reason") or "no reason was given"
            raise JobError(f"The job {self.id} is {job['state']}: {reason}", job["state"])
        found: dict[str, Any] = self.client.call("GET", f"/releases/{self.id}")
        return found

    def file(self, name: str) -> bytes:
        """Return one file of the release.

        Parameters
        ----------
        name : str
            As the release lists it.

        Returns
        -------
        bytes
            Its content.
        """
        found: bytes = self.client.call("GET", f"/releases/{self.id}/files/{name}", raw=True)
        return found

    def model(self, timeout: float | None = None) -> Any:
        """Wait, and return the fitted model.

        Parameters
        ----------
        timeout : float, optional
            The most seconds to wait.

        Returns
        -------
        estimator
            As `sfumato.load` gives it.
        """
        self.wait(timeout)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.sfumato"
            path.write_bytes(self.file("model.sfumato"))
            return load(path)

    def table(self, timeout: float | None = None) -> Any:
        """Wait, and return the fabricated rows, or a function on its grid.

        Parameters
        ----------
        timeout : float, optional
            The most seconds to wait.

        Returns
        -------
        pyarrow.Table
            The table of the release.
        """
        from pyarrow import parquet

        files = self.wait(timeout)["files"]
        name = next((one for one in files if one.endswith(".parquet")), None)
        if name is None:
            raise InvalidInputError("The release has no table.")
        return parquet.read_table(io.BytesIO(self.file(name)))

    def ask(self, points: Sequence[Sequence[float]]) -> list[float]:
        """Ask a released density or curve at points; costs nothing.

        Parameters
        ----------
        points : sequence of sequence of float
            A number per axis.

        Returns
        -------
        list of float
            The values.
        """
        told = self.client.call("POST", f"/releases/{self.id}/ask", {"points": points})
        values: list[float] = told["values"]
        return values

    def guarantee(self) -> Guarantee:
        """Return the guarantee of the release.

        Returns
        -------
        Guarantee
            What is promised.
        """
        return Guarantee.from_dict(json.loads(self.file("guarantee.json")))


def _asked(estimator: Any, purpose: str) -> dict[str, Any]:
    """Return the request for an estimator: its class, its budget, and other settings."""
    if not hasattr(estimator, "get_params") or not hasattr(estimator, "epsilon"):
        raise InvalidInputError("A service fits private estimators of Sfumato only.")
    if type(estimator).__name__ == "PrivateSearchCV":
        return _searched(estimator, purpose)
    kind = type(estimator)
    settings = _unusual(estimator, kind())
    kinds = {"Fabricator": "fabricate", "PrivateDensity": "density", "PrivateMeanCurve": "curve"}
    kinds |= {"PrivateMoments": "moments", "PrivatePCA": "moments"}
    asked = {
        "kind": kinds.get(kind.__name__, "fit"),
        "estimator": kind.__name__,
        "parameters": settings,
        "epsilon": estimator.epsilon,
        "delta": estimator.delta,
        "purpose": purpose,
    }
    try:
        json.dumps(asked)
    except TypeError:
        raise InvalidInputError(
            "The settings of an estimator go to a service as JSON: numbers, texts and lists."
        ) from None
    return asked


def _unusual(estimator: Any, usual: Any) -> dict[str, Any]:
    known = usual.get_params(deep=False)
    return {
        name: value
        for name, value in estimator.get_params(deep=False).items()
        if name not in OWN_WORDS and value != known[name]
    }


def _searched(search: Any, purpose: str) -> dict[str, Any]:
    """Return the request for a search: its model, and what is tried; runs are the service's own."""
    chosen = _unusual(search, type(search)(search.estimator, search.param_grid))
    if chosen or not isinstance(search.param_grid, Mapping):
        raise InvalidInputError(
            "A service uses the default number of runs for a search, and one mapping of values. "
            f"Not accepted: {', '.join(chosen) or 'a list of mappings'}."
        )
    inner = clone(search.estimator).set_params(epsilon=search.epsilon, delta=search.delta)
    grid = {name: list(values) for name, values in search.param_grid.items()}
    return {**_asked(inner, purpose), "kind": "search", "grid": grid}


def _error(answer: Any) -> SfumatoError:
    try:
        message = str(answer.json()["message"])
    except (ValueError, KeyError, TypeError):
        message = f"The service answered {answer.status_code}."
    if answer.status_code == 409:
        return BudgetExceededError(message, spent=0.0, asked=0.0, left=0.0)
    if answer.status_code in (404, 413, 422):
        return InvalidInputError(message)
    return SfumatoError(f"{message} ({answer.status_code})")
