"""``sfumato reproduce``: tables and figures of the papers, run again."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli.console import expect, print_lines, print_table, remark
from sfumato.cli.options import pairs_from
from sfumato.exceptions import InvalidInputError
from sfumato.papers import (
    PAPERS,
    Reproduction,
    Setting,
    entries_of,
    entry_of,
    keep,
    reproduce as run_entry,
)
from sfumato.papers.catalogue import ALL
from sfumato.papers.pictures import can_draw
from sfumato.papers.running import NO_PICTURE, result_file


def reproduce(
    paper: Annotated[
        str | None,
        typer.Argument(help=f"{', '.join(PAPERS)} or {ALL}."),
    ] = None,
    table: Annotated[str | None, typer.Option(help="Only this table, or these: 3,4.")] = None,
    figure: Annotated[str | None, typer.Option(help="Only this figure, or these.")] = None,
    cell: Annotated[str | None, typer.Option(help="Only this cell, such as eps=1,n=20.")] = None,
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
    listed: Annotated[bool, typer.Option("--list", help="List what can be run.")] = False,
) -> None:
    """Re-run a table or figure of a paper: printed figures, ours as printed and proved, a verdict.

    Papers: kahm (KAHM), functions, large-margin (Gaussians), cdmma (CDMMA), feddpdr (FedDPDR-DPML
    and DPDR-DPML), or all. --list shows their tables, figures and cells.

    Example: sfumato reproduce kahm --table 5 --cell eps=1,n=20
    """
    if paper is None or listed:
        entries = entries_of(paper or ALL)
        what = [f"{e.title}. Data: {e.data}. Minutes: {e.minutes}." for e in entries]
        rows = [
            [e.paper, e.name, each, ", ".join(e.cells)]
            for e, each in zip(entries, what, strict=True)
        ]
        print_table(["paper", "entry", "what", "cells"], rows)
        return
    entries = entries_of(paper)
    if not entries:
        raise InvalidInputError(
            f"The paper of '{paper}' has no table or figure to run again: see "
            f"docs/reproductions/{paper}.md, which runs the method."
        )
    asked = (("table", table), ("figure", figure))
    named = [f"{kind}-{n.strip()}" for kind, given in asked if given for n in given.split(",")]
    entries = [entry_of(paper, name) for name in named] or entries
    chosen = pairs_from("--cell", re.split(r",(?=\w+=)", cell) if cell else None)
    entries = [entry for entry in entries if chosen.keys() <= set(entry.cells)] or entries
    for entry in entries:  # a full run may have taken hours; the figures of a quick one may go
        file = result_file(entry, output, chosen)
        if file.is_file() and '"quick": true' not in file.read_text():
            expect(file)
    repetitions = (1 if quick else 3) if runs is None else runs
    memory: dict[str, Any] = {}  # fits that several entries show are made once
    pictures = False
    for entry in entries:
        name = f"{entry.paper} {entry.name}"
        remark(f"{name} ...")

        def tell(line: str, name: str = name) -> None:
            remark(f"{name}: {line}")

        how: dict[str, Any] = {"device": device, "n_jobs": jobs, "cell": chosen, "memory": memory}
        found = run_entry(entry, Setting(quick, repetitions, tell, **how))
        _show(found, keep(found, output))
        pictures |= bool(found.outcome.series)
    if pictures and not can_draw():
        remark(NO_PICTURE)


def _show(found: Reproduction, files: list[Path]) -> None:
    entry, outcome = found.entry, found.outcome
    print_lines(f"{entry.paper}, {entry.name}: {entry.title}")
    for row in outcome.comparisons:
        values = (row.printed, None), (row.paper, row.paper_sd), (row.strict, row.strict_sd)
        printed, ours, strict = (
            "-" if v is None else f"{v:.4g}" + ("" if sd is None else f" ± {sd:.2g}")
            for v, sd in values
        )
        told = f"printed {printed}, as printed {ours}, mended {strict} ({row.unit})"
        print_lines(f"  {row.what}: {told}")
    for claim, holds in outcome.claims.items():
        print_lines(f"  {'holds' if holds else 'fails'}: {claim}")
    print_lines(*(f"  note: {line}" for line in outcome.remarks))
    if entry.broken is not None:
        print_lines(f"  guarantee: {entry.broken}")
    print_lines(f"  verdict: {found.verdict} ({found.seconds:.1f} s)")
    print_lines(f"  files: {', '.join(str(file) for file in files)}", "")
