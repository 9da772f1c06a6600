"""The client of a service: data sets of others, asked with the estimators of this library.

Only the documented API is used. Nothing but released numbers comes back.
"""

from __future__ import annotations

import io
import secrets
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sfumato.exceptions import InvalidInputError, SfumatoError
from sfumato.models.saving import load

OWN_WORDS = {"epsilon", "delta", "unit", "relation", "bounds", "ledger", "n_jobs", "verbose"}
KINDS = {"Fabricator": "fabricate", "PrivateDensity": "density", "PrivateMeanCurve": "curve"}
KINDS |= {"PrivateMoments": "moments", "PrivatePCA": "moments"}
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
        Theirs, as ``sfumato serve token`` has printed it.
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

    def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        raw: bool = False,
        **headers: str,
    ) -> Any:
        """Call one route of the API, such as ``call("GET", "/datasets/patients")``.

        Parameters
        ----------
        method, path : str
            As ``/api/openapi.json`` describes them.
        body : mapping, optional
            Sent as JSON.
        raw : bool, default=False
            Whether to return bytes instead of the values of JSON.
        **headers
            Further headers; an underscore stands for a hyphen.

        Returns
        -------
        object
            What the service answers.
        """
        import httpx

        more = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            answer = self._http.request(method, path, json=body, headers=more)
        except httpx.HTTPError as error:
            kind = type(error).__name__
            raise SfumatoError(f"The service at {self.url} did not answer: {kind}.") from None
        if answer.is_success:
            return answer.content if raw else answer.json()
        try:
            message = str(answer.json()["message"])
        except (ValueError, KeyError, TypeError):
            message = "The service answered without a reason."
        if answer.status_code in (404, 413, 422):
            raise InvalidInputError(message)
        raise SfumatoError(f"{message} ({answer.status_code})")

    def plan(self, dataset: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a request would cost by its mechanism, and leave; no row is read.

        Parameters
        ----------
        dataset : str
            Of which data set.
        request : mapping
            As for `submit`.

        Returns
        -------
        dict
            ``fits``, ``needs_approval``, the ``largest`` epsilon that fits, and what is ``after``.
        """
        found: dict[str, Any] = self.call("POST", f"/datasets/{dataset}/plan", request)
        return found

    def submit(self, dataset: str, request: Mapping[str, Any], *, key: str | None = None) -> Job:
        """Ask for a release.

        Parameters
        ----------
        dataset : str
            Of which data set.
        request : mapping
            ``kind``, ``epsilon``, ``purpose`` and, where they are chosen, ``estimator``,
            ``parameters``, ``columns``, ``rows``, ``grid`` and ``delta``.
        key : str, optional
            A text that makes a retry harmless; by default a new one.

        Returns
        -------
        Job
            To wait for.
        """
        words: Any = {"Idempotency_Key": key or secrets.token_hex(16)}
        return Job(self, self.call("POST", f"/datasets/{dataset}/jobs", request, **words)["id"])

    def fit(self, dataset: str, estimator: Any, *, purpose: str) -> Any:
        """Fit an estimator where the rows are, wait, and return it fitted.

        Parameters
        ----------
        dataset : str
            On which data set.
        estimator : estimator
            One of Sfumato's. Its epsilon, delta and settings are sent; bounds, unit and relation
            are those of the data set.
        purpose : str
            What the model is for.

        Returns
        -------
        estimator
            The fitted model.
        """
        if not hasattr(estimator, "get_params") or not hasattr(estimator, "epsilon"):
            raise InvalidInputError("A service fits private estimators of Sfumato only.")
        name, usual = type(estimator).__name__, type(estimator)().get_params(deep=False)
        chosen = {
            setting: value
            for setting, value in estimator.get_params(deep=False).items()
            if setting not in OWN_WORDS and value != usual[setting]
        }
        request = {
            "kind": KINDS.get(name, "fit"),
            "estimator": name,
            "parameters": chosen,
            "epsilon": estimator.epsilon,
            "delta": estimator.delta,
            "purpose": purpose,
        }
        try:
            job = self.submit(dataset, request)
        except TypeError:
            raise InvalidInputError(
                "The settings of an estimator go to a service as JSON: numbers, texts and lists."
            ) from None
        return job.model()


class Job:
    """A request at a service.

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
            The release: its ``guarantee``, ``files`` and ``charts``.

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

    def file(self, name: str, timeout: float | None = None) -> bytes:
        """Wait, and return one file of the release.

        Parameters
        ----------
        name : str
            As the release lists it.
        timeout : float, optional
            The most seconds to wait.

        Returns
        -------
        bytes
            Its content.
        """
        self.wait(timeout)
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
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.sfumato"
            path.write_bytes(self.file("model.sfumato", timeout))
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

        name = next((one for one in self.wait(timeout)["files"] if one.endswith(".parquet")), None)
        if name is None:
            raise InvalidInputError("The release has no table.")
        return parquet.read_table(io.BytesIO(self.file(name)))
