"""What the scripts share; they run under other Pythons and import nothing of Sfumato.

``python from_opendp.py TASK data.npz --epsilon 1 [--delta 1e-5] [--runs 3] [--seconds 60]`` prints
one line of JSON: version, what was released, and CPU seconds of each release. A release that can be
called is a model: its answers are not timed.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import numpy as np

Task = Callable[..., Callable[[], Any]]


def answer(package: str, tasks: dict[str, Task]) -> None:
    """Prepare a task, then release as often as is asked for."""
    warnings.simplefilter("ignore")
    options = _options(tasks)
    with np.load(options.data, allow_pickle=False) as file:
        data = {name: file[name] for name in file.files}
    release = tasks[options.task](epsilon=options.epsilon, delta=options.delta, **data)
    releases, seconds = [], []
    start = time.monotonic()
    while not releases or (
        len(releases) < options.runs and time.monotonic() - start < options.seconds
    ):
        begin = time.process_time()
        found = release()
        seconds.append(time.process_time() - begin)
        releases.append(np.asarray(found() if callable(found) else found).tolist())
    print()  # some packages leave a line unfinished
    print(json.dumps({"version": version(package), "releases": releases, "cpu_s": seconds}))


def _options(tasks: dict[str, Task]) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("task", choices=tasks)
    parser.add_argument("data")
    parser.add_argument("--epsilon", type=float, required=True)
    parser.add_argument("--delta", type=float, default=0.0)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=60.0)
    return parser.parse_args()
