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
import inspect
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
from functools import cached_property
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
    "one federated round": (
        """
from sfumato import Bounds, PrivateGaussianClassifier
from sfumato.federated import Federation, make_parties
bounds = Bounds(norm=2.0, labels=[0, 1])
model = PrivateGaussianClassifier(epsilon=8.0, delta=1e-5, bounds=bounds)
parties = make_parties(X, y, "parties", n_parties=3, random_state=0)
""",
        "model.fit(Federation(parties, bounds=bounds))",
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
    "events and guarantees with accounting": {"events": "accounting", "guarantee": "accounting"},
    "array libraries, memory and threads with sums": dict.fromkeys(
        ("kernels", "memory", "parallel"), "sums"
    ),
}
# Tries in code, and how the commits begin with which they can be walked.
COMMITS = (
    (
        "two wrappers of fit, in two rooms",
        "Threads of the web process share their memory",
    ),
    (
        "one wrapper",
        "One wrapper of fit: it refuses weights and keeps a charge",
    ),
    (
        "questions asked in the order of the rooms",
        "A fit asks its questions in the order of the rooms",
    ),
    (
        "searches warned where fit begins",
        "Searches are warned where fit begins",
    ),
    (
        "sums of gradients and maps of rows in sums, the longest slope found once",
        "Settings of a descent described",
    ),
    (
        "bounds and cells in tables",
        "Bounds and cells live in tables: what is declared about",
    ),
    (
        "grid and tape with the mechanisms, tables elsewhere known by their kind",
        "Grid and tape stand with what all mechanisms share; whether",
    ),
    (
        "labels checked where cells are read",
        "Labels are checked where cells are read; how far a reader",
    ),
    (
        "tensors checked in one place, by no override",
        "Rows of other array libraries are checked in one place; no",
    ),
    (
        "the unit cube a map like the others",
        "The unit cube is a map of rows like the others",
    ),
    (
        "checks of parameters on common ground",
        "Checks of parameters that rooms share stand on common ground",
    ),
)
LONGEST_FILE = 600
# What was asked for after the number of lines was, as files and folders.
LATER = {
    "additive models, regression, files of all kinds": (
        "additive/ linear/regressor.py linear/target_moments.py mechanisms/quantiles.py "
        "report/explanations.py sums/counts.py tables/checksums.py tables/dates.py "
        "tables/stores.py tables/text.py"
    ),
    "persons": "accounting/group.py sums/identities.py sums/persons.py",
    "fabricated tables with right margins, densities with peaks": (
        "fabrication/constraints.py fabrication/label_tree.py fabrication/linked.py "
        "fabrication/table_cells.py fabrication/tree_masses.py fabrication/tree_plan.py "
        "fabrication/tree_rows.py functions/density_answers.py functions/grid_density.py "
        "functions/process_density.py jobs/quality.py mechanisms/column_pairs.py"
    ),
    "tables on many machines": (
        "engines/ jobs/partitioned.py sums/batches.py sums/elsewhere.py sums/messages.py "
        "sums/noisy_rows.py sums/partitions.py"
    ),
    "sums of parties, secure sums": (
        "federated/carrying.py federated/records.py federated/safety.py federated/secure/ "
        "federated/sums.py federated/sums_task.py federated/totals.py federated/wire.py "
        "mechanisms/shares.py report/federation.py"
    ),
    "search, plans, certificates, the officer's report": (
        "accounting/attacker.py accounting/selection.py certificates/ mechanisms/selection.py "
        "planning/ report/officer.py search/"
    ),
    "budgets that people share": (
        "accounting/filters.py accounting/renyi.py accounting/shared_budget.py jobs/dummies.py"
    ),
    "colour images, speed": (
        "image_features/patches.py image_features/random_process.py jobs/images.py "
        "kernels/leading.py linear/images.py sums/singles.py"
    ),
}
BEFORE = "e0682c2"  # the code when the number was asked for
OUTSIDE = ("papers", "interfaces", "reproduction")  # of the core


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
        "changes if properties were fields": changes(
            [room for room, each in zip(rooms, seen, strict=True) if not is_property(*each)]
        ),
    }


def is_property(file: str, name: str) -> bool:
    """Tell whether a function is a property of a class."""
    found: Any = importlib.import_module("sfumato." + file.removesuffix(".py").replace(os.sep, "."))
    for part in name.split("."):
        found = inspect.getattr_static(found, part, None)
    return isinstance(found, property | cached_property)


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
    """Count lines by room, kind and what asked for them; papers and interfaces are no core."""
    import sfumato

    root = Path(sfumato.__file__).parent
    found = {
        str(file.relative_to(root)): kinds_of_lines(file.read_text()) for file in root.rglob("*.py")
    }
    core = {file: kinds for file, kinds in found.items() if room_of(file) not in OUTSIDE}
    rooms = {room: added(found, f"{room}/ {room}.py") for room in sorted(map(room_of, found))}
    later = {what: added(core, files) for what, files in LATER.items()}
    return {
        "core": added(core, "*"),
        "core when the number was asked for": before(),
        "asked for later": later,
        "asked for later in all": sum(kinds["lines"] for kinds in later.values()),
        "rooms": rooms,
    }


def room_of(file: str) -> str:
    """Name the room of a file."""
    return Path(file).parts[0].removesuffix(".py")


def added(found: dict[str, dict[str, int]], files: str) -> dict[str, int]:
    """Add up the lines of files and folders, or of all of them."""
    named = tuple(files.split())
    chosen = [
        kinds
        for file, kinds in found.items()
        if files == "*" or any(file.startswith(n) if n.endswith("/") else file == n for n in named)
    ]
    kinds = ("lines", "code", "docstrings", "comments", "empty")
    return {kind: sum(each[kind] for each in chosen) for kind in kinds}


def kinds_of_lines(text: str) -> dict[str, int]:
    """Count lines of code, of docstrings, of comments, and empty ones."""
    documented = [
        node.body[0]
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and ast.get_docstring(node) is not None
    ]
    told = {n for each in documented for n in range(each.lineno, each.end_lineno + 1)}
    all_lines = text.splitlines()
    rest = [line.strip() for number, line in enumerate(all_lines, 1) if number not in told]
    comments, empty = sum(line.startswith("#") for line in rest), rest.count("")
    return {
        "lines": len(all_lines),
        "code": len(rest) - comments - empty,
        "docstrings": len(told),
        "comments": comments,
        "empty": empty,
    }


def before() -> dict[str, int] | None:
    """Count the core when the number was asked for; None where there is no history."""
    with tempfile.TemporaryDirectory() as folder:
        archive = f"git archive {BEFORE} src | tar -x -C '{folder}'"
        if subprocess.run(["sh", "-c", archive], capture_output=True).returncode:
            return None
        root = Path(folder) / "src" / "sfumato"
        files = {str(f.relative_to(root)): f.read_text() for f in root.rglob("*.py")}
    core = {f: kinds_of_lines(text) for f, text in files.items() if room_of(f) not in OUTSIDE}
    return added(core, "*")


def at_revisions() -> list[dict[str, Any]]:
    """Walk the flows with the code of other revisions; none where there is no history."""
    found = []
    for what, begins in COMMITS:
        with tempfile.TemporaryDirectory() as folder:
            find = ["git", "log", "-1", "--format=%h", "--fixed-strings", f"--grep={begins}"]
            revision = subprocess.run(find, capture_output=True, text=True).stdout.strip()
            archive = f"git archive {revision} src | tar -x -C '{folder}'"
            done = subprocess.run(["sh", "-c", archive], capture_output=True)
            if not revision or done.returncode:
                return []
            flows = [walked(name, f"{folder}/src") for name in FLOWS]
        found.append(
            {
                "what": what,
                "commit": begins,
                "changes of room": {flow["what"]: flow["changes of room"] for flow in flows},
                "files": {flow["what"]: flow["files"] for flow in flows},
            }
        )
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
