"""``sfumato reproduce``: tables and figures of the papers, run again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from sfumato.cli.console import expect, print_json, print_lines, print_table, remark
from sfumato.cli.options import Json, completing
from sfumato.exceptions import InvalidInputError
from sfumato.papers import (
    PAPERS,
    Comparison,
    Entry,
    Reproduction,
    Setting,
    entries_of,
    entry_of,
    keep,
    reproduce as run_entry,
    unrun_of,
)
from sfumato.papers.catalogue import ALL
from sfumato.papers.pictures import can_draw
from sfumato.papers.running import NO_PICTURE, result_file


def reproduce(
    paper: Annotated[
        str | None,
        typer.Argument(
            help=f"{', '.join(PAPERS)} or {ALL}.", autocompletion=completing([*PAPERS, ALL])
        ),
    ] = None,
    table: Annotated[str | None, typer.Option(help="Only this table.")] = None,
    figure: Annotated[str | None, typer.Option(help="Only this figure.")] = None,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Small embedded data; takes seconds and gives no verdict."),
    ] = False,
    runs: Annotated[
        int | None, typer.Option(help="Repetitions to average; by default 3, and 1 if quick.")
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="A PyTorch device, such as cuda, for entries that use one.")
    ] = None,
    jobs: Annotated[int | None, typer.Option(help="Independent fits at a time.")] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The folder for JSON and pictures.")
    ] = Path("reproductions"),
    listed: Annotated[bool, typer.Option("--list", help="Say what there is.")] = False,
    as_json: Json = False,
) -> None:
    """Re-run a table or figure of a paper: printed figures, ours as printed and proved, a verdict.

    Example: sfumato reproduce kahm --table 5 --quick
    """
    if paper is None or listed:
        _list(paper or ALL, as_json=as_json)
        return
    entries = _chosen(paper, table, figure)
    for entry in entries:
        _refuse_to_replace(result_file(entry, output))
    setting = Setting(quick, _repetitions(runs, quick), device=device, n_jobs=jobs)
    found = []
    for entry in entries:
        with _progress(entry) as tell:
            done = run_entry(entry, replace(setting, tell=tell))
            files = keep(done, output)
        found.append(done)
        if not as_json:
            _show(done, files)
    if as_json:
        print_json([_shown(each) for each in found])
    if not can_draw():
        remark(NO_PICTURE)


def _refuse_to_replace(file: Path) -> None:
    """Keep what may have taken hours, the figures of a full run; those of a quick one may go."""
    if file.is_file() and '"quick": true' not in file.read_text():
        expect(file)


def _repetitions(runs: int | None, quick: bool) -> int:
    return (1 if quick else 3) if runs is None else runs


def _chosen(paper: str, table: str | None, figure: str | None) -> list[Entry]:
    if table is not None and figure is not None:
        raise InvalidInputError("Give '--table' or '--figure', not both.")
    if table is None and figure is None:
        return entries_of(paper)
    name = f"figure-{figure}" if table is None else f"table-{table}"
    return [entry_of(paper, name)]


def _list(paper: str, *, as_json: bool) -> None:
    entries, lacking = entries_of(paper), unrun_of(paper)
    if as_json:
        there = [
            {k: getattr(e, k) for k in ("paper", "name", "title", "data", "minutes", "broken")}
            for e in entries
        ]
        print_json({"entries": there, "cannot be run": [vars(each) for each in lacking]})
        return
    rows = [[e.paper, e.name, f"{e.title}. Data: {e.data}. Minutes: {e.minutes}."] for e in entries]
    print_table(["paper", "entry", "what"], rows)
    if lacking:
        rows = [[each.paper, each.name, f"{each.why}; {each.nearest}"] for each in lacking]
        print_table(["paper", "cannot be run", "why, and the nearest public data"], rows)


@contextmanager
def _progress(entry: Entry) -> Iterator[Callable[[str], None]]:
    """Show what is being done: one changing line on a terminal, lines elsewhere."""
    name, console = f"{entry.paper} {entry.name}", Console(stderr=True)
    if not console.is_terminal:
        remark(f"{name} ...")
        yield lambda line: remark(f"{name}: {line}")
        return
    with console.status(name) as status:
        yield lambda line: status.update(f"{name}: {line}")


def _shown(found: Reproduction) -> dict[str, Any]:
    whole = found.to_dict()
    del whole["series"]  # long, and in the file
    return whole


def _show(found: Reproduction, files: list[Path]) -> None:
    entry, outcome = found.entry, found.outcome
    print_lines(f"{entry.paper}, {entry.name}: {entry.title}")
    rows = outcome.comparisons
    if rows and Console().is_terminal:
        print_table(
            ["", "printed", "paper mode", "strict mode", "unit"],
            [[r.what, *(_number(v) for v in (r.printed, r.paper, r.strict)), r.unit] for r in rows],
        )
    else:
        print_lines(*(_line(row) for row in rows))
    print_lines(
        *(f"  {'holds' if holds else 'fails'}: {claim}" for claim, holds in outcome.claims.items())
    )
    print_lines(*(f"  note: {line}" for line in outcome.remarks))
    if entry.broken is not None:
        print_lines(f"  guarantee: {entry.broken}")
    print_lines(f"  verdict: {found.verdict} ({found.seconds:.1f} s)")
    print_lines(f"  files: {', '.join(str(file) for file in files)}", "")


def _line(row: Comparison) -> str:
    printed, paper, strict = (_number(v) for v in (row.printed, row.paper, row.strict))
    return f"  {row.what}: printed {printed}, paper {paper}, strict {strict} ({row.unit})"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
