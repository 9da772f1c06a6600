"""Asking another package: a script under a Python that has it, rows in, JSON out.

SFUMATO_PEERS_PYTHON names one Python or several, parted by the colon of PATH; this one comes last.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

SCRIPTS = Path(__file__).parent / "scripts"
# Where the name of a package is not that of its module.
IMPORTED = {
    "adversarial-robustness-toolbox": "art",
    "jax-privacy": "jax_privacy",
    "smartnoise-synth": "snsynth",
}


@cache
def python_with(package: str) -> str | None:
    """Return the first Python that can import a package; say so on stderr where there is none."""
    named = os.environ.get("SFUMATO_PEERS_PYTHON", "").split(os.pathsep)
    for python in [*filter(None, named), sys.executable]:
        module = IMPORTED.get(package, package)
        question = f"import importlib.util as u; raise SystemExit(u.find_spec({module!r}) is None)"
        if subprocess.run([python, "-c", question], check=False).returncode == 0:
            return python
    print(f"{package}: passed over, no Python of SFUMATO_PEERS_PYTHON has it", file=sys.stderr)
    return None


def ask(
    package: str,
    task: str,
    *,
    epsilon: float,
    delta: float = 0.0,
    runs: int = 1,
    seconds: float = 60.0,
    limit: float | None = None,
    **data: Any,
) -> dict[str, Any] | None:
    """Return ``{"version", "releases", "cpu_s"}``, or ``{"version", "failed"}``, or None: not here.

    `runs` releases, as many as `seconds` allow, one at least; `limit` CPU seconds end it by force.
    """
    python = python_with(package)
    if python is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.npz"
        np.savez(path, **data)
        budget = ["--epsilon", str(epsilon), "--delta", str(delta)]
        often = ["--runs", str(runs), "--seconds", str(seconds)]
        script = SCRIPTS / f"from_{package.split('-')[0]}.py"
        command = [python, str(script), task, str(path), *budget, *often]
        cpu = resource.RLIM_INFINITY if limit is None else int(limit)
        stop = partial(resource.setrlimit, resource.RLIMIT_CPU, (cpu, resource.RLIM_INFINITY))
        done = subprocess.run(command, capture_output=True, text=True, preexec_fn=stop, check=False)
    if done.returncode == -signal.SIGXCPU:
        return {"version": _version(python, package), "failed": f"no answer in {cpu} CPU s"}
    if done.returncode:
        words = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "no message"
        return {"version": _version(python, package), "failed": words[:80]}
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def _version(python: str, package: str) -> str:
    question = f"from importlib.metadata import version; print(version({package!r}))"
    return subprocess.run([python, "-c", question], capture_output=True, text=True).stdout.strip()
