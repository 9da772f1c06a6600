"""Plant bugs in the source, one at a time, and count those that a test notices.

python tools/mutate.py --packages src/sfumato/mechanisms src/sfumato/sums --count 150 --seed 1

A seeded sample of mutants, stratified by file, is tried on tests that run the changed line. Which
tests do so is measured once per test file and kept, as are results, so that a run can be stopped
and started again. A parent that has imported the slow libraries forks a child for each mutant.
Equivalent mutants stand in `mutants_explained.toml`, each with its reason.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import difflib
import functools
import hashlib
import importlib.machinery
import json
import os
import random
import resource
import signal
import subprocess
import sys
import threading
import time
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
EXPLAINED = Path(__file__).with_name("mutants_explained.toml")
QUIET = ["-q", "--tb=no", "-p", "no:cacheprovider", "-p", "no:xdist"]
QUIET += ["-m", "not servers and not browser and not spark and not torch"]
QUIET += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
MAX_CALLS = 30  # of one function in one test that are traced
SWAPS: dict[type[ast.AST], list[type[ast.AST]]] = {
    ast.Add: [ast.Sub], ast.Sub: [ast.Add], ast.Mult: [ast.Div], ast.Div: [ast.Mult],
    ast.FloorDiv: [ast.Mult], ast.Mod: [ast.Mult], ast.Pow: [ast.Mult], ast.MatMult: [ast.Add],
    ast.BitAnd: [ast.BitOr], ast.BitOr: [ast.BitAnd], ast.BitXor: [ast.BitOr],
    ast.LShift: [ast.RShift], ast.RShift: [ast.LShift], ast.And: [ast.Or], ast.Or: [ast.And],
    ast.Lt: [ast.LtE, ast.Gt], ast.LtE: [ast.Lt, ast.Gt], ast.Gt: [ast.GtE, ast.Lt],
    ast.GtE: [ast.Gt, ast.Lt], ast.Eq: [ast.NotEq], ast.NotEq: [ast.Eq], ast.Is: [ast.IsNot],
    ast.IsNot: [ast.Is], ast.In: [ast.NotIn], ast.NotIn: [ast.In],
}  # fmt: skip
SILENT = ast.Import | ast.ImportFrom | ast.JoinedStr
NAMES = {"min": "max", "minimum": "maximum", "ceil": "floor", "any": "all", "argmin": "argmax"}
NAMES |= {new: old for old, new in NAMES.items()}
VERDICTS = {0: "survived", 5: "survived", -signal.SIGXCPU: "timeout"}  # 5: no test was run
DROPPED_CALLS = {"sqrt", "abs", "sorted", "rint", "expm1", "log1p"}


@dataclass(frozen=True)
class Mutant:
    """One change of one file."""

    file: str
    line: int
    operator: str
    start: int
    end: int
    text: str

    @property
    def key(self) -> str:
        return f"{self.file}:{self.start}:{self.end}:{self.operator}:{self.text}"

    def source(self) -> str:
        data = (ROOT / self.file).read_bytes()
        return (data[: self.start] + self.text.encode() + data[self.end :]).decode()

    def diff(self) -> list[str]:
        lines = (ROOT / self.file).read_text().splitlines(), self.source().splitlines()
        changed = list(difflib.unified_diff(*lines, n=0, lineterm=""))[3:]
        return [line for line in changed if not line.startswith("@@")]


# Which changes there are -------------------------------------------------------------------------


def mutants_of(path: Path, words: list[str]) -> list[Mutant]:
    """List all mutants of a file, or of its functions that have one of the words in their names."""
    text = path.read_text()
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line.encode()))
    found = []
    for node, operator, new in _changes(ast.parse(text), is_chosen=not words, words=words):
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[node.end_lineno - 1] + node.end_col_offset
        whole = isinstance(new, ast.stmt)
        written = ast.unparse(new) if whole else f"({ast.unparse(new)})"
        place = path.relative_to(ROOT).as_posix()
        mutant = Mutant(place, node.lineno, operator, start, end, written)
        with contextlib.suppress(SyntaxError):
            compile(mutant.source(), place, "exec")
            found.append(mutant)
    return found


def _changes(node: Any, *, is_chosen: bool, words: list[str]) -> Iterator[tuple[Any, str, Any]]:
    """Walk the tree without texts, annotations, decorators, imports and messages of errors."""
    if isinstance(node, ast.FunctionDef):
        is_chosen = is_chosen or any(word in node.name for word in words)
    if is_chosen and hasattr(node, "lineno"):
        for name, new in _changed(node):
            yield node.test if name == "condition negated" else node, name, new
    for field, value in ast.iter_fields(node):
        if field in {"annotation", "returns", "decorator_list", "type_params"}:
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or isinstance(child, SILENT):
                continue
            if isinstance(node, ast.Raise) or _is_text(child) or _is_listing(child):
                continue
            yield from _changes(child, is_chosen=is_chosen, words=words)


def _is_def(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef)


def _is_text(node: ast.AST) -> bool:
    value = node.value if isinstance(node, ast.Expr) else node
    return isinstance(value, ast.Constant) and isinstance(value.value, str | bytes)


def _is_listing(node: ast.AST) -> bool:
    names = [getattr(target, "id", "") for target in getattr(node, "targets", [])]
    is_test = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
    return "__all__" in names or is_test


def _changed(node: Any) -> Iterator[tuple[str, Any]]:
    def with_field(field: str, value: Any) -> Any:
        new = copy.deepcopy(node)
        setattr(new, field, value)
        return new

    match node:
        case ast.BinOp(op=op) | ast.AugAssign(op=op) | ast.BoolOp(op=op):
            for other in SWAPS[type(op)]:
                yield f"{type(op).__name__} to {other.__name__}", with_field("op", other())
        case ast.Compare(ops=[op, *rest]):
            for other in SWAPS[type(op)]:
                name = f"{type(op).__name__} to {other.__name__}"
                yield name, with_field("ops", [other(), *rest])
            if rest:
                swapped = [op, *rest[:-1], SWAPS[type(rest[-1])][0]()]
                yield "last comparison", with_field("ops", swapped)
        case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.Invert(), operand=operand):
            yield f"{type(node.op).__name__} removed", operand
        case ast.Constant(value=bool(value)):
            yield "constant", ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield "constant + 1", ast.Constant(value + 1)
            if value > 1:
                yield "constant - 1", ast.Constant(value - 1)
        case ast.Constant(value=float(value)):
            yield "constant * 1.05", ast.Constant(value * 1.05 if value else 1.0)
            yield "constant / 2", ast.Constant(value / 2 if value else -1.0)
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[first, *_]):
            if name in NAMES:
                field = "id" if isinstance(node.func, ast.Name) else "attr"
                function = copy.deepcopy(node.func)
                setattr(function, field, NAMES[name])
                yield f"{name} to {NAMES[name]}", with_field("func", function)
            elif name in DROPPED_CALLS:
                yield f"{name} removed", first
            elif name == "range" and len(node.args) == 1:
                fewer = ast.BinOp(first, ast.Sub(), ast.Constant(1))
                yield "range - 1", with_field("args", [fewer])
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
            if not isinstance(test, ast.Compare | ast.BoolOp):
                yield "condition negated", ast.UnaryOp(ast.Not(), test)
        case ast.Expr(value=ast.Call()) | ast.Raise() | ast.Assert() | ast.Delete():
            yield f"{type(node).__name__} dropped", ast.Pass()
        case ast.Return(value=value) if value is not None:
            yield "returns None", with_field("value", ast.Constant(None))
        case ast.Break() | ast.Continue():
            yield f"{type(node).__name__} dropped", ast.Pass()


def sampled(arguments: argparse.Namespace) -> tuple[list[Mutant], set[str]]:
    """Draw mutants, from each file in proportion to the mutants it has, and name the files."""
    packages = [(ROOT / package).resolve() for package in arguments.packages]
    strata = {}
    for path in sorted((ROOT / arguments.source).rglob("*.py")):
        inside = any(path == package or package in path.parents for package in packages)
        strata[path] = mutants_of(path, [] if inside else arguments.functions)
    strata = {path: found for path, found in strata.items() if found}
    total = sum(map(len, strata.values()))
    queues = []
    for path, found in strata.items():
        order = random.Random(f"{arguments.seed} {path.name}")
        order.shuffle(found)
        queues += [((n + order.random()) / len(found), m) for n, m in enumerate(found)]
    print(f"{total} mutants in {len(strata)} files", flush=True)
    ordered = [mutant for _, mutant in sorted(queues, key=lambda each: each[0])]
    return ordered[: arguments.count], {path.relative_to(ROOT).as_posix() for path in strata}


# Which tests run a line --------------------------------------------------------------------------


class Recorder:
    """A pytest plugin that notes the lines of some files which each test runs."""

    def __init__(self, files: set[str]) -> None:
        self.files, self.tests, self.lines, self.calls = files, {}, None, {}

    def pytest_runtest_protocol(self, item: Any, nextitem: Any) -> None:
        self.lines, self.calls, self.began = set(), {}, time.process_time()
        threading.settrace(self.trace)
        sys.settrace(self.trace)

    def pytest_runtest_logreport(self, report: Any) -> None:
        test = self.tests.setdefault(report.nodeid, {"passed": True})
        test["passed"] &= report.passed
        if report.when == "teardown":
            sys.settrace(None)
            threading.settrace(None)  # type: ignore[arg-type]
            found = defaultdict(list)
            for file, line in self.lines:
                found[file].append(line)
            test |= {"seconds": time.process_time() - self.began, "lines": found}

    def trace(self, frame: Any, event: str, argument: Any) -> Any:
        code = frame.f_code
        if code.co_filename not in self.files:
            return None
        self.calls[code] = self.calls.get(code, 0) + 1
        if self.calls[code] > MAX_CALLS:
            return None
        file = os.path.relpath(code.co_filename, ROOT)
        lines = self.lines

        def line(frame: Any, event: str, argument: Any) -> Any:
            lines.add((file, frame.f_lineno))
            return line

        return line


def measured(arguments: argparse.Namespace, files: set[str]) -> dict[str, Any]:
    """Return for each test its seconds and lines; what has not changed is taken from the store."""
    store = arguments.cache / "lines"
    store.mkdir(parents=True, exist_ok=True)
    hashes = {file: _hash(ROOT / file) for file in files}
    tests: dict[str, Any] = {}
    paths = [Path(ROOT / each) for each in arguments.tests]
    paths = [f for p in paths for f in (sorted(p.rglob("test_*.py")) if p.is_dir() else [p])]
    waiting = []
    for path in paths:
        kept = store / f"{path.relative_to(ROOT).as_posix().replace('/', '.')}.json"
        known = json.loads(kept.read_text()) if kept.exists() else {"hash": ""}
        changed = [f for f, h in known.get("files", {}).items() if hashes.get(f, h) != h]
        if known["hash"] == _hash(path) and not changed:
            tests |= known["tests"]
        else:
            waiting.append((path, kept))
    jobs = [(kept, functools.partial(_measure, path, kept, hashes)) for path, kept in waiting]
    for kept, status in forked(jobs, arguments.jobs, arguments.max_file):
        print(f"measured {kept.stem}: {status}", flush=True)
        if kept.exists():
            tests |= json.loads(kept.read_text())["tests"]
    return {name: test for name, test in tests.items() if test["passed"] and "lines" in test}


def _measure(path: Path, kept: Path, hashes: dict[str, str]) -> int:
    import pytest

    recorder = Recorder({str(ROOT / file) for file in hashes})
    status = int(pytest.main([str(path), *QUIET], plugins=[recorder]))
    touched = {file for test in recorder.tests.values() for file in test.get("lines", ())}
    known = {"hash": _hash(path), "files": {f: hashes[f] for f in touched}}
    aside = kept.with_suffix(".tmp")
    aside.write_text(json.dumps(known | {"tests": recorder.tests}))
    aside.replace(kept)
    return status


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path.exists() else ""


def chosen_tests(mutant: Mutant, tests: dict[str, Any], seconds: float) -> list[str]:
    """Choose tests that run the line, or its function or file, quick ones first."""
    tree = ast.parse((ROOT / mutant.file).read_text())
    functions = [range(n.body[0].lineno, n.end_lineno + 1) for n in ast.walk(tree) if _is_def(n)]
    around = [lines for lines in functions if mutant.line in lines]
    for wanted in ({mutant.line}, set(min(around, key=len)) if around else None):
        covering = defaultdict(list)
        for name, test in tests.items():
            lines = test["lines"].get(mutant.file, ())
            if lines and (not around or wanted & set(lines)):
                covering[name.partition("::")[0]].append((test["seconds"], name))
        if covering:
            break
    # Tests named like the file, or its package, are about it; each file of tests costs an import.
    stem, package = f"test_{Path(mutant.file).stem}.py", Path(mutant.file).parent.name
    files = sorted(
        covering,
        key=lambda file: (
            not file.endswith(stem),
            f"/{package}/" not in file,
            -len(covering[file]),
        ),
    )
    ranked = []
    for file in files[: 2 + int(seconds / 4)]:
        ranked += [(rank, *pair) for rank, pair in enumerate(sorted(covering[file]))]
    chosen, spent = [], 0.0
    for _, cost, name in sorted(ranked):
        if not chosen or spent + cost <= seconds:
            chosen.append(name)
            spent += cost
    return sorted(chosen, key=lambda name: files.index(name.partition("::")[0]))


# One mutant in one child -------------------------------------------------------------------------


def forked(jobs: Iterable[Any], width: int, seconds: float) -> Iterator[tuple[Any, int]]:
    """Run functions in forked children, `width` at a time, of some CPU seconds each.

    A busy machine is waited for, thirty times as long. Gives exit codes, -SIGXCPU for a timeout.
    """
    running: dict[int, tuple[Any, float]] = {}
    waiting, is_open = iter(jobs), True
    while is_open or running:
        while is_open and len(running) < width:
            name, job = next(waiting, (None, None))
            if job is None:
                is_open = False
                break
            sys.stdout.flush()
            pid = os.fork()
            if pid == 0:
                os.setsid()
                resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1,) * 2)
                nowhere = os.open(os.devnull, os.O_RDWR)
                for stream in (0, 1, 2):
                    os.dup2(nowhere, stream)
                try:
                    os._exit(job())
                finally:
                    os._exit(99)
            running[pid] = name, time.monotonic() + 30 * seconds
        time.sleep(0.02)
        for pid, (name, deadline) in list(running.items()):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if not ended and time.monotonic() > deadline:
                os.killpg(pid, signal.SIGKILL)
                ended, status = os.waitpid(pid, 0)
            if ended:
                del running[pid]
                code = os.waitstatus_to_exitcode(status)
                yield name, -signal.SIGXCPU if code == -signal.SIGKILL else code


def tried(mutant: Mutant, names: list[str]) -> int:
    """Run tests with the mutant in the place of its module; gives pytest's exit code."""
    import pytest

    changed, usual = str(ROOT / mutant.file), importlib.machinery.SourceFileLoader.get_code

    def get_code(self: Any, fullname: str) -> Any:
        if self.path == changed:
            return compile(mutant.source(), changed, "exec", dont_inherit=True)
        return usual(self, fullname)

    importlib.machinery.SourceFileLoader.get_code = get_code  # type: ignore[method-assign]
    place = {name: number for number, name in enumerate(names)}

    class Chooser:
        def pytest_collection_modifyitems(self, items: list[Any]) -> None:
            items[:] = sorted(
                (i for i in items if i.nodeid in place), key=lambda i: place[i.nodeid]
            )

    if not names:
        return 5
    files = list(dict.fromkeys(name.partition("::")[0] for name in names))
    return int(pytest.main([*files, "-x", *QUIET], plugins=[Chooser()]))


def main() -> None:
    """Draw, try, and write what was found."""
    arguments = _arguments()
    os.chdir(ROOT)
    os.nice(10)
    mutants, files = sampled(arguments)
    for library in arguments.warm:
        with contextlib.suppress(ImportError):
            __import__(library)
    tests = measured(arguments, files)
    print(f"{len(tests)} tests run these files", flush=True)
    log = arguments.cache / f"results-{arguments.seed}.jsonl"
    lines = log.read_text().splitlines() if log.exists() else []
    results = {each["key"]: each for each in map(json.loads, lines)}
    again = set(arguments.again)
    done = {key for key, each in results.items() if "diff" in each and explanation(each)}
    done |= {key for key, each in results.items() if each["status"] not in again}
    wanted = [m for m in mutants if m.key not in done and (m.key in results or "new" in again)]
    for result in results_of(wanted, tests, arguments):
        results[result["key"]] = result
        with log.open("a") as stream:
            stream.write(json.dumps(result) + "\n")
        if len(results) % 20 == 0:
            write(arguments, mutants, results)
    write(arguments, mutants, results)


def results_of(
    mutants: list[Mutant], tests: dict[str, Any], arguments: argparse.Namespace
) -> Iterator[dict[str, Any]]:
    """Try mutants on a few quick tests, which kill most; what lives on meets more of them."""
    for seconds in arguments.seconds:
        chosen = ((mutant, chosen_tests(mutant, tests, seconds)) for mutant in mutants)
        jobs = (((m, len(names)), functools.partial(tried, m, names)) for m, names in chosen)
        living = []
        for (mutant, n_tests), code in forked(jobs, arguments.jobs, 8 + 1.5 * seconds):
            status = VERDICTS.get(code, "killed")
            if status == "survived" and seconds != arguments.seconds[-1]:
                living.append(mutant)
                continue
            found = asdict(mutant) | {"key": mutant.key, "status": status, "tests": n_tests}
            yield found | ({"diff": mutant.diff()} if status == "survived" else {})
        mutants = living


@functools.cache
def _reasons() -> dict[tuple[str, ...], str]:
    listed = tomllib.loads(EXPLAINED.read_text())["explained"] if EXPLAINED.exists() else []
    return {(each["file"], each["before"], each["after"]): each["reason"] for each in listed}


def explanation(result: dict[str, Any]) -> str | None:
    """Return why no test need notice a mutant; it is known by the file's name and its lines."""
    lines = [
        " ".join(line[1:].strip() for line in result["diff"] if line[0] == sign) for sign in "-+"
    ]
    return _reasons().get((Path(result["file"]).name, *lines))


def write(arguments: argparse.Namespace, mutants: list[Mutant], results: dict[str, Any]) -> None:
    """Write the score, the counts of each file and all survivors."""
    files: dict[str, dict[str, int]] = {}
    survivors = []
    done = [results[m.key] for m in mutants if m.key in results]
    for each in done:
        status = each["status"]
        if status == "survived":
            reason = explanation(each)
            status = "explained" if reason else "survived"
            place = {"place": f"{each['file']}:{each['line']}", "operator": each["operator"]}
            survivors.append(place | {"diff": each["diff"], "tests": each["tests"]})
            survivors[-1] |= {"reason": reason} if reason else {}
        counts = files.setdefault(each["file"], {"mutants": 0})
        counts["mutants"] += 1
        counts[status] = counts.get(status, 0) + 1
    totals = {
        kind: sum(counts.get(kind, 0) for counts in files.values())
        for kind in ("mutants", "killed", "timeout", "explained", "survived")
    }
    git = ["git", "log", "-1", "--format=%H", "--", arguments.source]
    report = {
        "seed": arguments.seed,
        "commit": subprocess.check_output(git, cwd=ROOT, text=True).strip(),
        "packages": arguments.packages,
        **totals,
        "score": round(1 - totals["survived"] / max(totals["mutants"], 1), 4),
        "files": dict(sorted(files.items())),
        "survivors": sorted(survivors, key=lambda each: ("reason" in each, each["place"])),
    }
    aside = arguments.out.with_suffix(".tmp")
    aside.write_text(json.dumps({"numbers": report}, indent=1, ensure_ascii=False) + "\n")
    aside.replace(arguments.out)
    print(f"{totals} score {report['score']}", flush=True)


def _arguments() -> argparse.Namespace:
    rooms = [f"src/sfumato/{room}" for room in ("mechanisms", "privacy", "ledger", "sums")]
    warm = ["numpy", "scipy.stats", "scipy.optimize", "scipy.sparse.linalg", "sklearn.datasets"]
    warm += ["sklearn.linear_model", "pandas", "pyarrow", "hypothesis", "mpmath", "pytest"]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=150, help="mutants; 0 only measures tests")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--packages", nargs="+", default=rooms, help="folders or files")
    parser.add_argument("--source", default="src", help="where functions are looked for by name")
    parser.add_argument("--functions", nargs="*", default=["sensitivity"], help="words in names")
    parser.add_argument("--tests", nargs="+", default=["tests"], help="folders or files of tests")
    parser.add_argument("--seconds", nargs="+", type=float, default=[2, 20], help="of tests, twice")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--again", nargs="*", default=["new"], help="or survived, to try again")
    parser.add_argument("--longest-file", type=float, default=600, help="seconds of a test file")
    parser.add_argument("--cache", type=Path, default=ROOT / "build" / "mutation")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks/results/mutation.json")
    parser.add_argument("--warm", nargs="*", default=warm, help="libraries of the parent")
    return parser.parse_args()


if __name__ == "__main__":
    main()
