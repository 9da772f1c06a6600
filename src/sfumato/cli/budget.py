"""``sfumato budget``: set, read and check the privacy budgets of a ledger."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sfumato.cli.console import print_table
from sfumato.exceptions import InvalidInputError
from sfumato.ledger.dataset_budget import PastCharge, Statement
from sfumato.ledger.ledger import Ledger
from sfumato.privacy.guarantee import Relation, Unit

budget_app = typer.Typer(
    help="Set, read and check privacy budgets. Exit codes: 2 user error, 3 refused or tampered.",
    no_args_is_help=True,
    add_completion=False,
)

LedgerArgument = Annotated[
    str, typer.Argument(metavar="LEDGER", help="A file, or a postgresql:// URL.")
]


@budget_app.command()
def create(
    ledger: LedgerArgument,
    name: Annotated[str, typer.Argument(help="The dataset.")],
    epsilon: Annotated[float, typer.Option(help="What all releases together may cost.")],
    delta: Annotated[float, typer.Option(help="At this delta; 0 admits pure releases only.")] = 0.0,
    unit: Annotated[Unit, typer.Option(help="What is protected.")] = Unit.RECORD,
    relation: Annotated[Relation, typer.Option(help="The neighbours.")] = Relation.REPLACE_ONE,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Set the budget of a data set, once and for all.

    Example: sfumato budget create budget.db patients --epsilon 4 --delta 1e-5
    """
    budget = Ledger(ledger).create(name, epsilon=epsilon, delta=delta, unit=unit, relation=relation)
    if as_json:
        typer.echo(json.dumps(budget.statement().to_dict(), indent=2))
        return
    typer.echo(
        f"Budget of '{name}': epsilon {epsilon:g} at delta {delta:g}, unit {unit}, "
        f"relation {relation}."
    )


@budget_app.command()
def show(
    ledger: LedgerArgument,
    name: Annotated[str | None, typer.Argument(help="Only this dataset.")] = None,
    history: Annotated[
        bool, typer.Option("--history", help="List each charge: when, why, by whom, how much.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Print the budget of each data set: total, spent, left, and number of charges.

    Example: sfumato budget show budget.db
    """
    opened = Ledger(ledger)
    names = opened.datasets() if name is None else [name]
    statements = [opened.dataset(each).statement() for each in names]
    past = {each: opened.dataset(each).history() for each in names} if history else {}
    if as_json and history:
        typer.echo(
            json.dumps({each: [c.to_dict() for c in past[each]] for each in names}, indent=2)
        )
    elif as_json:
        typer.echo(json.dumps([statement.to_dict() for statement in statements], indent=2))
    else:
        Console().print(_table(statements))
        for each, charges in past.items():
            print_table(("time", "epsilon", "by", f"purpose ({each})"), _listed(charges))


@budget_app.command()
def verify(
    ledger: LedgerArgument,
    head: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=HASH", help="A head recorded earlier; may be repeated."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check the chain of every data set and print the heads, which you should record elsewhere.

    Example: sfumato budget verify budget.db --head patients=6f1c
    """
    result = Ledger(ledger).verify(_noted(head or []))
    if as_json:
        typer.echo(json.dumps({"charges": result.charges, "heads": dict(result.heads)}, indent=2))
        return
    typer.echo(str(result))
    for name, last in result.heads.items():
        typer.echo(f"{name}={last}")


def _table(statements: list[Statement]) -> Table:
    table = Table(box=SIMPLE_HEAD)
    table.add_column("dataset", overflow="fold")
    for title in ("protects", "budget", "spent", "left", "charges", "head"):
        table.add_column(title, no_wrap=True)
    for statement in statements:
        budget = statement.budget
        table.add_row(
            escape(budget.name),
            f"{budget.unit}\n{budget.relation}",
            f"epsilon {budget.epsilon:g}\ndelta {budget.delta:g}",
            f"{statement.spent:.5g}",
            f"{statement.left:.5g}",
            str(statement.charges),
            statement.head[:8],
        )
    return table


def _listed(charges: list[PastCharge]) -> list[list[str]]:
    return [
        [
            each.time[:19],
            f"{each.epsilon:.4g}",
            each.by or "not stated",
            each.purpose or "not stated",
        ]
        for each in charges
    ]


def _noted(heads: list[str]) -> dict[str, str]:
    pairs = [head.rpartition("=") for head in heads]
    if not all(name and last for name, _, last in pairs):
        raise InvalidInputError("'--head' must have the form NAME=HASH.")
    return {name: last for name, _, last in pairs}
