"""How far a reader walks, and how long an import takes.

python -m benchmarks.bench_house

A flow is run with all modules imported, in a fresh process. Counted are the functions of Sfumato
that it calls, their files and rooms (folders or modules below the package), and how often the room
changes from one function to the next, in the order of their first calls. What mergers of rooms or
files would give can be counted exactly, since the calls stay the same; what other code gives is
counted at its revisions. Imports are in CPU seconds, medians of five fresh processes.
"""

from __future__ import annotations

import ast
import importlib
import json
import os
import pkgutil
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import warnings
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.recording import write

RUNS = 5
PREPARE = """
import numpy as np
from pathlib import Path
rng = np.random.default_rng(0)
X = rng.uniform(size=(300, 4)); y = (X[:, 0] > 0.5).astype(int)
"""
FLOWS = {
    "fit a CSV": (
        """
import pyarrow as pa
from sfumato.tables.files import write_table
from sfumato.tables.schema import TableBounds
write_table(pa.table({"a": X[:, 0], "b": X[:, 1], "ill": np.array(["no", "yes"])[y]}),
            Path("rows.csv"))
known = {"a": (0, 1), "b": (0, 1), "ill": ["no", "yes"]}
TableBounds.from_dict(known, target="ill").write("b.toml")
""",
        """
from sfumato.interfaces.cli.main import app
app(["fit", "rows.csv", "--target", "ill", "--epsilon", "1", "--bounds", "b.toml",
     "--model", "linear", "-o", "m.sfumato"], standalone_mode=False)
""",
    ),
    "fit a linear classifier": (
        "from sfumato import Bounds, PrivateLinearClassifier",
        """
bounds = Bounds(norm=2.0, labels=[0, 1])
PrivateLinearClassifier(epsilon=1.0, delta=1e-5, n_steps=5, bounds=bounds).fit(X, y).predict(X)
""",
    ),
    "fit and sample a Fabricator": (
        "from sfumato import Bounds, Fabricator",
        """
bounds = Bounds(lower=0.0, upper=1.0, labels=[0, 1])
Fabricator(epsilon=1.0, delta=1e-5, bounds=bounds).fit(X, y).sample(20)
""",
    ),
    "answer a stored function": (
        """
from sfumato import Bounds
from sfumato.functions import OnlineFunction, TaylorFeatures, release_function
from sfumato.kernels import GaussianKernel, KernelExpansion
from sfumato.mechanisms import GaussianProcessMechanism
kernel, box = GaussianKernel(0.5), Bounds(lower=[0.0], upper=[1.0])
noise = GaussianProcessMechanism.calibrate(sensitivity=0.1, epsilon=1.0, delta=1e-5)
release_function(
    KernelExpansion(kernel, X[:2, :1], np.array([1.0, -0.5])), form="online", kernel=kernel,
    mechanism=noise, n_features=1, domain=box, features=TaylorFeatures(kernel, box, 1),
    store="answers.db", name="f",
)
""",
        'OnlineFunction.resume(None, store="answers.db", name="f")([[0.3]])',
    ),
    "one federated round": (
        """
from sfumato import Bounds, PrivateLinearClassifier
from sfumato.federated import LinearTask, make_parties, simulate
bounds = Bounds(norm=2.0, labels=[0, 1])
model = PrivateLinearClassifier(
    n_components=2, n_steps=3, epsilon=8.0, delta=1e-5, bounds=bounds)
parties = make_parties(X, y, "parties", n_parties=3, random_state=0)
""",
        'simulate(parties, LinearTask("t", model))',
    ),
}


GROUND = dict.fromkeys(
    ("bounds", "cells", "events", "guarantee", "memory", "parallel", "kernels", "__init__"),
    "ground",
)
ESTIMATORS = dict.fromkeys(
    ("private", "scores", "linear", "moments", "objectives", "fabrication", "federated"),
    "estimators",
)
RELEASES = dict.fromkeys(("sums", "mechanisms", "accounting"), "releases")
TABLES = dict.fromkeys(("tables", "engines", "jobs", "storage"), "tables")
# Rooms that were thrown together on paper, to see whether walls are what makes a flow long.
TRIES = {
    "what lies on the ground": GROUND,
    "estimators and what they share": GROUND | ESTIMATORS,
    "sums, mechanisms and accounting too": GROUND | ESTIMATORS | RELEASES,
    "tables, engines, jobs and storage too": GROUND | ESTIMATORS | RELEASES | TABLES,
}
# Tries in code, and the revisions at which they can be walked.
REVISIONS = {
    "two wrappers of fit, in two rooms": "16c609c",
    "one wrapper": "febca53",
    "questions asked in the order of the rooms": "1aa43c5",
    "searches warned where fit begins": "e9deede",
}
LONGEST_FILE = 600
LATER_ROOMS = ("additive", "certificates", "compat", "datasets", "engines", "planning", "search")


def walk(preparation: str, flow: str) -> dict[str, Any]:
    """Run a flow and count where it leads."""
    import sfumato

    root = str(Path(sfumato.__file__).parent) + os.sep
    for module in pkgutil.walk_packages(sfumato.__path__, "sfumato."):
        if "flower" not in module.name and not module.name.endswith("__main__"):
            with suppress(ImportError):  # of an extra
                importlib.import_module(module.name)
    seen: dict[tuple[str, str], None] = {}

    def note(frame: Any, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(root) and code.co_name != "<module>":
            seen.setdefault((code.co_filename[len(root) :], code.co_qualname))

    names: dict[str, Any] = {}
    exec(PREPARE + preparation, names)
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        exec(flow, names)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    rooms = [Path(file).parts[0].removesuffix(".py") for file, _ in seen]
    public = [room for room, (_, name) in zip(rooms, seen, strict=True) if is_public(name)]
    return {
        "functions": len(seen),
        "files": len({file for file, _ in seen}),
        "files if joined up to the cap": fewest_files(Path(root), {file for file, _ in seen}),
        "rooms": len(set(rooms)),
        "changes of room": changes(rooms),
        "changes if some rooms were one": {
            what: changes([merged.get(room, room) for room in rooms])
            for what, merged in TRIES.items()
        },
        "changes between public functions": changes(public),
    }


def changes(rooms: list[str]) -> int:
    """Count how often the next function is in another room."""
    return sum(a != b for a, b in pairwise(rooms))


def fewest_files(root: Path, files: set[str]) -> int:
    """Join the files of each room as long as none becomes too long."""
    joined: dict[str, list[int]] = {}
    for size, file in sorted(((count(root / file), file) for file in files), reverse=True):
        lengths = joined.setdefault(Path(file).parts[0], [])
        place = next((i for i, each in enumerate(lengths) if each + size <= LONGEST_FILE), None)
        if place is None:
            lengths.append(size)
        else:
            lengths[place] += size
    return sum(map(len, joined.values()))


def count(file: Path) -> int:
    """Count lines."""
    return len(file.read_text().splitlines())


def lines() -> dict[str, Any]:
    """Lines of each room, docstrings included; the core is all but papers and interfaces."""
    import sfumato

    root = Path(sfumato.__file__).parent
    found: dict[str, int] = {}
    for file in root.rglob("*.py"):
        room = file.relative_to(root).parts[0].removesuffix(".py")
        found[room] = found.get(room, 0) + count(file)
    core = {room: n for room, n in found.items() if room not in ("papers", "interfaces")}
    later = sum(n for room, n in core.items() if room in LATER_ROOMS)
    code = sum(
        count_code(file)
        for file in root.rglob("*.py")
        if file.relative_to(root).parts[0] not in ("papers", "interfaces")
    )
    return {
        "core": sum(core.values()),
        "of it without docstrings, comments and empty lines": code,
        "of rooms that came later": later,
        "rooms": dict(sorted(found.items())),
    }


def count_code(file: Path) -> int:
    """Count lines that are neither empty nor comments nor of a docstring."""
    text = file.read_text()
    documented = [
        node.body[0]
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and ast.get_docstring(node) is not None
    ]
    left_out = {n for each in documented for n in range(each.lineno, each.end_lineno + 1)}
    return sum(
        bool(line.strip()) and not line.strip().startswith("#") and number not in left_out
        for number, line in enumerate(text.splitlines(), start=1)
    )


def at_revisions() -> list[dict[str, Any]]:
    """Walk the flows with the code of other revisions; none where there is no history."""
    found = []
    for what, revision in REVISIONS.items():
        with tempfile.TemporaryDirectory() as folder:
            archive = f"git archive {revision} src | tar -x -C '{folder}'"
            if subprocess.run(["sh", "-c", archive], capture_output=True).returncode:
                return []
            flows = [walked(name, f"{folder}/src") for name in FLOWS]
        numbers = {flow["what"]: flow["changes of room"] for flow in flows}
        found.append({"what": what, "revision": revision, "changes of room": numbers})
    return found


def is_public(name: str) -> bool:
    """Tell whether a reader would look a function up by its name."""
    return "<" not in name and not any(part.startswith("_") for part in name.split("."))


def walked(name: str, source: str = "") -> dict[str, Any]:
    """Do it in a fresh process and an empty folder."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "benchmarks.bench_house", name]
        places = [*([source] if source else []), *map(os.path.abspath, sys.path)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(places)}
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=True
        )
    return {"what": name, **json.loads(done.stdout.splitlines()[-1])}


def version_seconds() -> float:
    """CPU of ``sfumato --version`` in a fresh process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "sfumato", "--version"], capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def import_seconds(statement: str) -> float:
    """CPU of an import where scikit-learn is imported already."""
    text = (
        "import time, sklearn.base, sklearn.linear_model\n"
        f"start = time.process_time()\n{statement}\nprint(time.process_time() - start)"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    return float(done.stdout)


def imports() -> list[dict[str, Any]]:
    """CPU of imports beyond scikit-learn's own, and of the version of the command line."""
    measured = {
        f"`{statement}`, beyond scikit-learn": [import_seconds(statement) for _ in range(RUNS)]
        for statement in ("import sfumato", "from sfumato import PrivateLinearClassifier")
    }
    measured["`sfumato --version`"] = [version_seconds() for _ in range(RUNS)]
    return [
        {"what": what, "cpu_s": round(statistics.median(found), 3)}
        for what, found in measured.items()
    ]


if __name__ == "__main__":
    if len(sys.argv) > 1:
        warnings.simplefilter("ignore")
        print(json.dumps(walk(*FLOWS[sys.argv[1]])))
    else:
        flows = [walked(name) for name in FLOWS]
        numbers = {"flows": flows, "imports": imports(), "lines": lines(), "tries": at_revisions()}
        write("house", numbers, seed=None)
