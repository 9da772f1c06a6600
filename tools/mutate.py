"""Plant bugs in the source, one at a time, and count those that a test notices.

python tools/mutate.py --count 1000 --workers 16 --out build/mutation/found.jsonl --seconds 1500

A seeded sample of mutants, stratified by file, is tried on tests that run the changed line. Which
tests do so is measured once per test file and kept, as is each result as soon as it is found, so
that a run can be cut off and started again. A parent that has collected the tests forks a child for
each mutant. A change inside a function is put into the functions that the child has; what changes a
module or a class (constants, defaults) is imported afresh, from a copy of the tree.
Equivalent mutants stand in `mutants_explained.toml`, each with its reason.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import difflib
import functools
import gc
import hashlib
import inspect
import json
import math
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import threading
import time
import tomllib
import types
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
EXPLAINED = Path(__file__).with_name("mutants_explained.toml")
QUIET = ["-q", "--tb=no", "-p", "no:cacheprovider", "-p", "no:xdist"]
QUIET += ["-m", "not servers and not browser and not spark and not torch"]
QUIET += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
WARM = ("numpy", "scipy.stats", "scipy.optimize", "scipy.sparse.linalg", "sklearn.datasets")
WARM += ("sklearn.linear_model", "pandas", "pyarrow", "hypothesis", "mpmath", "pytest")
SWAPS: dict[type[ast.AST], list[type[ast.AST]]] = {
    ast.Add: [ast.Sub], ast.Sub: [ast.Add], ast.Mult: [ast.Div], ast.Div: [ast.Mult],
    ast.FloorDiv: [ast.Mult], ast.Mod: [ast.Mult], ast.Pow: [ast.Mult], ast.MatMult: [ast.Add],
    ast.BitAnd: [ast.BitOr], ast.BitOr: [ast.BitAnd], ast.BitXor: [ast.BitOr],
    ast.LShift: [ast.RShift], ast.RShift: [ast.LShift], ast.And: [ast.Or], ast.Or: [ast.And],
    ast.Lt: [ast.LtE, ast.Gt], ast.LtE: [ast.Lt, ast.Gt], ast.Gt: [ast.GtE, ast.Lt],
    ast.GtE: [ast.Gt, ast.Lt], ast.Eq: [ast.NotEq], ast.NotEq: [ast.Eq], ast.Is: [ast.IsNot],
    ast.IsNot: [ast.Is], ast.In: [ast.NotIn], ast.NotIn: [ast.In],
}  # fmt: skip
SKIPPED = {"annotation", "returns", "decorator_list", "type_params"}
NAMES = {"min": "max", "minimum": "maximum", "ceil": "floor", "any": "all", "argmin": "argmax"}
NAMES |= {new: old for old, new in NAMES.items()}
MAX_CALLS = 30  # of one function in one test that are traced
DROPPED_CALLS = {"sqrt", "abs", "sorted", "rint", "expm1", "log1p"}
VERDICTS = {0: "survived", 5: "survived", -signal.SIGXCPU: "timeout"}  # 5: no test was run
NOT_COPIED = (".git", ".venv*", "build", "dist", "_build", ".mypy_cache", ".ruff_cache")
STAGES = (1.0, 5.0)  # seconds of tests: a few quick ones kill most, what lives on meets more
CAP = 15.0  # CPU seconds of one mutant
MAX_MEMORY = 2**34
OURS = {"sfumato", "tests", "benchmarks", "conftest"}
Mutant = dict[str, Any]  # file, line, operator, start, end, text


# Which changes there are -------------------------------------------------------------------------


def mutants_of(path: Path, words: list[str]) -> list[Mutant]:
    """List all mutants of a file, or of its functions that have one of the words in their names."""
    text, place, starts = path.read_text(), path.relative_to(ROOT).as_posix(), [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line.encode()))
    found = []
    for node, operator, new in _walk(ast.parse(text), not words, words):
        written = ast.unparse(new) if isinstance(new, ast.stmt) else f"({ast.unparse(new)})"
        mutant = {"file": place, "line": node.lineno, "operator": operator, "text": written}
        mutant["start"] = starts[node.lineno - 1] + node.col_offset
        mutant["end"] = starts[node.end_lineno - 1] + node.end_col_offset
        found.append(mutant)
    return found


def source_of(mutant: Mutant) -> str:
    data = (ROOT / mutant["file"]).read_bytes()
    return (data[: mutant["start"]] + mutant["text"].encode() + data[mutant["end"] :]).decode()


def key_of(mutant: Mutant) -> str:
    return ":".join(str(mutant[name]) for name in ("file", "start", "end", "operator", "text"))


def _walk(node: Any, is_chosen: bool, words: list[str]) -> Iterator[tuple[Any, str, Any]]:
    """Walk the tree without texts, annotations, decorators, imports and messages of errors."""
    if isinstance(node, ast.FunctionDef):
        is_chosen = is_chosen or any(word in node.name for word in words)
    if is_chosen and hasattr(node, "lineno"):
        for name, new in _changed(node):
            yield node.test if name == "condition negated" else node, name, new
    for field, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if field in SKIPPED or isinstance(node, ast.Raise) or not isinstance(child, ast.AST):
                continue
            inner = child.value if isinstance(child, ast.Expr) else child
            is_text = isinstance(inner, ast.Constant) and isinstance(inner.value, str | bytes)
            is_typing = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test)
            silent = isinstance(child, ast.Import | ast.ImportFrom | ast.JoinedStr)
            if not (is_text or is_typing or silent):
                yield from _walk(child, is_chosen, words)


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
                function = copy.deepcopy(node.func)
                setattr(function, "id" if isinstance(function, ast.Name) else "attr", NAMES[name])
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


def sample(options: argparse.Namespace) -> tuple[list[Mutant], set[str]]:
    """Draw mutants, from each file in proportion to the mutants it has, and name the files."""
    packages, queues, files = [(ROOT / each).resolve() for each in options.packages], [], set()
    for path in sorted((ROOT / "src").rglob("*.py")):
        inside = any(path == package or package in path.parents for package in packages)
        if found := mutants_of(path, [] if inside else options.functions):
            order = random.Random(f"{options.seed} {path.name}")
            order.shuffle(found)
            queues += [((n + order.random()) / len(found), m) for n, m in enumerate(found)]
            files.add(found[0]["file"])
    print(f"{len(queues)} mutants in {len(files)} files", flush=True)
    chosen: list[Mutant] = []
    for _, mutant in sorted(queues, key=lambda each: each[0]):
        with contextlib.suppress(SyntaxError):
            if len(chosen) < options.count:
                compile(source_of(mutant), mutant["file"], "exec")
                chosen.append(mutant)
    return chosen, files


# Which tests run a line --------------------------------------------------------------------------


def measure(options: argparse.Namespace, files: set[str]) -> dict[str, Any]:
    """Return for each test its seconds and lines; what has not changed is taken from the store."""
    store = options.cache / "lines"
    store.mkdir(parents=True, exist_ok=True)
    hashes = {file: _hash(ROOT / file) for file in files}
    tests: dict[str, Any] = {}
    given = [ROOT / each for each in options.tests]
    paths = [f for p in given for f in (sorted(p.rglob("test_*.py")) if p.is_dir() else [p])]
    waiting = []
    for path in sorted(paths, key=lambda path: -path.stat().st_size):
        kept = store / f"{path.relative_to(ROOT).as_posix().replace('/', '.')}.json"
        known = json.loads(kept.read_text()) if kept.exists() else {"hash": ""}
        changed = [f for f, h in known.get("files", {}).items() if hashes.get(f, h) != h]
        if known["hash"] == _hash(path) and not changed:
            tests |= known["tests"]
        else:
            waiting.append((kept, functools.partial(_measure, path, kept, hashes)))
    for kept, status in fork(waiting, options, options.longest_file):
        print(f"measured {kept.stem}: {status}", flush=True)
        tests |= json.loads(kept.read_text())["tests"] if kept.exists() else {}
    return {name: test for name, test in tests.items() if test["passed"] and "lines" in test}


def _measure(path: Path, kept: Path, hashes: dict[str, str]) -> int:
    """Trace the tests of a file; what was traced is kept now and then, should time run out."""
    import pytest

    files = {str(Path.cwd() / file): file for file in hashes}
    tests: dict[str, Any] = {}
    calls: Counter[Any] = Counter()
    lines: dict[str, set[int]] = {}
    next_write = [0.0]

    def trace(frame: Any, event: str, argument: Any) -> Any:
        code = frame.f_code
        if code.co_filename not in files or calls[code] >= MAX_CALLS:
            return None
        calls[code] += 1
        seen = lines.setdefault(files[code.co_filename], set())

        def line(frame: Any, event: str, argument: Any) -> Any:
            seen.add(frame.f_lineno)
            return line

        return line

    def keep() -> None:
        touched = {file for test in tests.values() for file in test.get("lines", ())}
        known = {"hash": _hash(path), "files": {f: hashes[f] for f in touched}, "tests": tests}
        _write_aside(kept, json.dumps(known))
        next_write[0] = time.process_time() + 10

    class Recorder:
        def pytest_runtest_protocol(self, item: Any) -> None:
            tests[item.nodeid] = {"passed": True, "seconds": -time.process_time()}
            calls.clear()
            lines.clear()
            threading.settrace(trace)
            sys.settrace(trace)

        def pytest_runtest_logreport(self, report: Any) -> None:
            test = tests[report.nodeid]
            test["passed"] &= report.passed
            if report.when == "teardown":
                sys.settrace(None)
                threading.settrace(None)  # type: ignore[arg-type]
                test["seconds"] += time.process_time()
                test["lines"] = {file: sorted(found) for file, found in lines.items()}
                if time.process_time() > next_write[0]:
                    keep()

    status = int(pytest.main([str(path.relative_to(ROOT)), *QUIET], plugins=[Recorder()]))
    keep()
    return status


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path.exists() else ""


def _write_aside(path: Path, text: str) -> None:
    aside = path.with_suffix(".tmp")
    aside.write_text(text)
    aside.replace(path)


def choose_tests(mutant: Mutant, tests: dict[str, Any], seconds: float) -> list[str]:
    """Choose tests that run the line, or its function or file, quick ones first."""
    around = [lines for lines in _bodies(mutant["file"]) if mutant["line"] in lines]
    covering: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for wanted in ({mutant["line"]}, set(around[0]) if around else set()):
        for name, test in tests.items():
            lines = test["lines"].get(mutant["file"], ())
            if lines and (not around or not wanted.isdisjoint(lines)):
                covering[name.partition("::")[0]].append((test["seconds"], name))
        if covering:
            break
    # Tests named like the file, or its package, are about it; each file of tests costs an import.
    stem, package = f"test_{Path(mutant['file']).stem}.py", Path(mutant["file"]).parent.name
    files = sorted(
        covering,
        key=lambda f: (not f.endswith(stem), f"/{package}/" not in f, -len(covering[f])),
    )[: 2 + int(seconds / 4)]
    ranked = [(rank, *pair) for f in files for rank, pair in enumerate(sorted(covering[f]))]
    chosen, spent = [], 0.0
    for _, cost, name in sorted(ranked):
        if not chosen or spent + cost <= seconds:
            chosen.append(name)
            spent += cost
    return sorted(chosen, key=lambda name: files.index(name.partition("::")[0]))


@functools.cache
def _bodies(file: str) -> list[range]:
    """Return the lines of all functions of a file, the shortest first."""
    nodes = ast.walk(ast.parse((ROOT / file).read_text()))
    functions = [n for n in nodes if isinstance(n, ast.FunctionDef)]
    return sorted((range(n.body[0].lineno, n.end_lineno + 1) for n in functions), key=len)


# One mutant in one child -------------------------------------------------------------------------


def fork(jobs: Iterable[Any], options: Any, seconds: float) -> Iterator[tuple[Any, int]]:
    """Run functions in forked children, one per copy of the tree, of some CPU seconds each.

    A busy machine is waited for, twelve times as long. Gives exit codes, -SIGXCPU for a timeout;
    at the end of all seconds the children are ended and give nothing.
    """
    running: dict[int, tuple[Any, float, Path]] = {}
    waiting, free = iter(jobs), list(options.copies)
    while True:
        is_late = time.monotonic() > options.end
        while not is_late and free and (job := next(waiting, None)) is not None:
            folder = free.pop()
            sys.stdout.flush()
            pid = os.fork()
            if pid == 0:
                _start_child(folder, seconds)
                try:
                    os._exit(job[1]())
                finally:
                    os._exit(99)
            running[pid] = job[0], time.monotonic() + 12 * seconds, folder
        if not running:
            return
        time.sleep(0.02)
        for pid, (name, deadline, folder) in list(running.items()):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if not ended and (is_late or time.monotonic() > deadline):
                os.killpg(pid, signal.SIGKILL)
                ended, status = os.waitpid(pid, 0)
            if ended:
                with contextlib.suppress(ProcessLookupError):  # what its tests have left running
                    os.killpg(pid, signal.SIGKILL)
                del running[pid]
                free.append(folder)
                code = os.waitstatus_to_exitcode(status)
                if not (is_late and code < 0):
                    yield name, -signal.SIGXCPU if code == -signal.SIGKILL else code


def _start_child(folder: Path, seconds: float) -> None:
    """Enter a copy of the tree, with its source first, in silence and within limits."""
    os.setsid()
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1,) * 2)
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    os.chdir(folder)
    os.environ["PYTHONPATH"] = str(folder / "src")
    sys.path[:0] = [str(folder), str(folder / "src")]


def changed_function(mutant: Mutant) -> tuple[types.CodeType, types.CodeType] | None:
    """Return a function before and after the change, None where a module or class is changed."""
    path = ROOT / mutant["file"]
    before, after = (
        compile(text, str(path), "exec") for text in (path.read_text(), source_of(mutant))
    )
    while True:
        parts = [_parts(code) for code in (before, after)]
        names = [[code.co_qualname for code in inner] for _, inner in parts]
        if parts[0][0] != parts[1][0] or names[0] != names[1]:
            return None
        pairs = zip(parts[0][1], parts[1][1], strict=True)
        before, after = next(pair for pair in pairs if _all_of(pair[0]) != _all_of(pair[1]))
        if before.co_flags & inspect.CO_OPTIMIZED:
            return before, after


def _parts(code: types.CodeType) -> tuple[Any, list[types.CodeType]]:
    """Return what a code object does itself, and those inside."""
    inner = [each for each in code.co_consts if isinstance(each, types.CodeType)]
    others = [repr(each) for each in code.co_consts if not isinstance(each, types.CodeType)]
    return (code.co_code, code.co_names, code.co_varnames, others), inner


def _all_of(code: types.CodeType) -> Any:
    own, inner = _parts(code)
    return own, [_all_of(each) for each in inner]


class Planter:
    """Tries mutants in the place of the tests that pytest has collected."""

    def __init__(self, mutants: list[Mutant], tests: Any, options: Any) -> None:
        self.mutants, self.tests, self.options = mutants, tests, options
        self.failed = False
        self.functions: dict[Any, list[Any]] = defaultdict(list)
        self.caches: list[Any] = []

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.failed |= report.failed

    def pytest_runtestloop(self, session: Any) -> bool:
        self.items = {item.nodeid: item for item in session.items}
        gc.unfreeze()
        for each in gc.get_objects():
            if isinstance(each, types.FunctionType) and "/sfumato/" in each.__code__.co_filename:
                code = each.__code__
                place = code.co_filename, code.co_qualname, code.co_firstlineno
                self.functions[place].append(each)
            elif isinstance(each, functools._lru_cache_wrapper):
                self.caches += [each] if str(each.__module__).startswith("sfumato") else []
        gc.freeze()
        self.options.keep(results_of(self))
        return True

    def try_mutant(self, mutant: Mutant, stages: list[list[str]], number: int) -> int:
        """Run tests with the mutant in place; gives pytest's exit code."""
        found = changed_function(mutant)
        before, after = found or (None, None)
        place = before and (before.co_filename, before.co_qualname, before.co_firstlineno)
        if not self.functions[place] or before.co_freevars != after.co_freevars:
            return try_afresh(mutant, stages, number)
        for each in self.functions[place]:
            each.__code__ = after
        for cache in self.caches:
            cache.cache_clear()
        items = [self.items[name] for names in stages for name in names if name in self.items]
        for item, following in zip(items, [*items[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self.failed:
                return 1
        return 0 if items else 5


def try_afresh(mutant: Mutant, stages: list[list[str]], number: int) -> int:
    """Import everything again with the mutant in the place of its file, in a copy of the tree.

    The time of the changed file is one that no other has: compiled files are known by it.
    """
    import pytest

    for name in [n for n in sys.modules if n.split(".")[0] in OURS]:
        del sys.modules[name]
    kept, changed = ROOT / mutant["file"], Path(mutant["file"])
    changed.write_text(source_of(mutant))
    os.utime(changed, (2**30 + number,) * 2)
    try:
        place = {name: n for n, name in enumerate(name for names in stages for name in names)}

        class Chooser:
            def pytest_collection_modifyitems(self, items: list[Any]) -> None:
                found = (item for item in items if item.nodeid in place)
                items[:] = sorted(found, key=lambda item: place[item.nodeid])

        files = list(dict.fromkeys(name.partition("::")[0] for name in place))
        return int(pytest.main([*files, "-x", *QUIET], plugins=[Chooser()])) if files else 5
    finally:
        shutil.copy2(kept, changed)


def results_of(planter: Planter) -> Iterator[dict[str, Any]]:
    """Try mutants on a few quick tests, which kill most, then on more of them."""

    def jobs() -> Iterator[Any]:
        for number, mutant in enumerate(planter.mutants):
            quick, more = (choose_tests(mutant, planter.tests, seconds) for seconds in STAGES)
            stages = [quick, [name for name in more if name not in quick]]
            named = mutant, len(quick) + len(stages[1])
            yield named, functools.partial(planter.try_mutant, mutant, stages, number)

    for (mutant, n_tests), code in fork(jobs(), planter.options, CAP):
        status = VERDICTS.get(code, "killed")
        found = mutant | {"key": key_of(mutant), "status": status, "tests": n_tests}
        yield found | ({"diff": diff_of(mutant)} if status == "survived" else {})


def diff_of(mutant: Mutant) -> list[str]:
    texts = (ROOT / mutant["file"]).read_text(), source_of(mutant)
    lines = difflib.unified_diff(*(t.splitlines() for t in texts), n=0, lineterm="")
    return [line for line in list(lines)[3:] if not line.startswith("@@")]


@functools.cache
def _reasons() -> dict[tuple[str, ...], str]:
    listed = tomllib.loads(EXPLAINED.read_text())["explained"] if EXPLAINED.exists() else []
    return {(each["file"], each["before"], each["after"]): each["reason"] for each in listed}


def explain(result: dict[str, Any]) -> str | None:
    """Return why no test need notice a mutant; it is known by the file's name and its lines."""
    parts = ([line[1:].strip() for line in result["diff"] if line[0] == sign] for sign in "-+")
    return _reasons().get((Path(result["file"]).name, *map(" ".join, parts)))


def write(options: Any, mutants: list[Mutant], results: dict[str, Any]) -> None:
    """Write the score, the counts of each file and all survivors."""
    files: dict[str, dict[str, int]] = {}
    survivors = []
    for each in [results[key_of(m)] for m in mutants if key_of(m) in results]:
        status = each["status"]
        if status == "survived":
            reason = explain(each)
            status = "explained" if reason else "survived"
            place = {"place": f"{each['file']}:{each['line']}", "operator": each["operator"]}
            place |= {"diff": each["diff"], "tests": each["tests"]}
            survivors.append(place | ({"reason": reason} if reason else {}))
        counts = files.setdefault(each["file"], {"mutants": 0})
        counts["mutants"] += 1
        counts[status] = counts.get(status, 0) + 1
    kinds = ("mutants", "killed", "timeout", "explained", "survived")
    totals = {kind: sum(counts.get(kind, 0) for counts in files.values()) for kind in kinds}
    sources = "".join(_hash(path) for path in sorted((ROOT / "src").rglob("*.py")))
    report = {
        "seed": options.seed,
        "sources": hashlib.sha256(sources.encode()).hexdigest()[:16],
        "packages": options.packages,
        **totals,
        "score": round(1 - totals["survived"] / max(totals["mutants"], 1), 4),
        "files": dict(sorted(files.items())),
        "survivors": sorted(survivors, key=lambda each: ("reason" in each, each["place"])),
    }
    text = json.dumps({"numbers": report}, indent=1, ensure_ascii=False)
    _write_aside(options.out.with_suffix(".json"), text + "\n")
    print(f"{totals} score {report['score']}", flush=True)


def main() -> None:
    """Draw, try, and write what was found."""
    import pytest

    packages = [f"src/sfumato/{name}" for name in ("mechanisms", "privacy", "ledger", "sums")]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1000, help="mutants; 0 only measures tests")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--packages", nargs="+", default=packages, help="folders or files")
    parser.add_argument("--functions", nargs="*", default=["sensitivity"], help="words in names")
    parser.add_argument("--tests", nargs="+", default=["tests"], help="folders or files of tests")
    parser.add_argument("--seconds", type=float, default=math.inf, help="of the whole run")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--again", nargs="*", default=["new"], help="or survived, to try again")
    parser.add_argument("--longest-file", type=float, default=240, help="seconds of a test file")
    parser.add_argument("--cache", type=Path, default=ROOT / "build" / "mutation")
    parser.add_argument("--out", type=Path, help="each result is a line; the score goes beside it")
    options = parser.parse_args()
    options.end = time.monotonic() + options.seconds
    options.cache = options.cache.absolute()
    log = (options.out or options.cache / f"results-{options.seed}").absolute()
    options.out = log = log.with_suffix(".jsonl")
    log.parent.mkdir(parents=True, exist_ok=True)
    os.chdir(ROOT)
    os.nice(10)
    os.environ.setdefault("SFUMATO_DATA", str(ROOT.parent / "shared" / "data"))
    os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"))
    mutants, files = sample(options)
    for library in WARM:
        with contextlib.suppress(ImportError):
            __import__(library)
    with tempfile.TemporaryDirectory(prefix="mutants-", ignore_cleanup_errors=True) as folder:
        options.copies = [Path(folder) / str(n) for n in range(options.workers)]
        for place in options.copies:
            shutil.copytree(ROOT, place, ignore=shutil.ignore_patterns(*NOT_COPIED))
        tests = measure(options, files)
        print(f"{len(tests)} tests run these files", flush=True)
        lines = log.read_text().splitlines() if log.exists() else []
        results = {each["key"]: each for each in map(json.loads, lines)}
        for mutant in mutants:  # what is explained is not tried
            named = mutant | {"key": key_of(mutant), "diff": diff_of(mutant), "tests": 0}
            if named["key"] not in results and explain(named):
                results[named["key"]] = named | {"status": "survived"}
        done = {key for key, each in results.items() if "diff" in each and explain(each)}
        done |= {key for key, each in results.items() if each["status"] not in options.again}
        keys = {key_of(m): m for m in mutants if key_of(m) not in done}
        wanted = [m for key, m in keys.items() if key in results or "new" in options.again]

        def keep(found: Iterator[dict[str, Any]]) -> None:
            for result in found:
                results[result["key"]] = result
                with log.open("a") as stream:
                    stream.write(json.dumps(result) + "\n")
                if len(results) % 50 == 0:
                    write(options, mutants, results)

        options.keep = keep
        files_of_tests = sorted({name.partition("::")[0] for name in tests})
        sys.path[:0] = [str(ROOT), str(ROOT / "src")]
        pytest.main([*files_of_tests, *QUIET], plugins=[Planter(wanted, tests, options)])
    write(options, mutants, results)


if __name__ == "__main__":
    main()
