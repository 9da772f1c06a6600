"""``sfumato budget``: set, read and check the privacy budgets of a ledger."""

from __future__ import annotations

from typing import Annotated

import typer

from sfumato.cli.console import print_json, print_lines, print_table, remark
from sfumato.cli.options import Json, NeighbourRelation
from sfumato.exceptions import InvalidInputError
from sfumato.ledger.ledger import Ledger
from sfumato.privacy.guarantee import Relation, Unit, rounded_up

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
    name: Annotated[str, typer.Argument(help="The data set.")],
    epsilon: Annotated[float, typer.Option(help="Total epsilon of all releases.")],
    delta: Annotated[float, typer.Option(help="Total delta; 0 allows only pure releases.")] = 1e-6,
    unit: Annotated[Unit, typer.Option(help="Person, if the bounds name one.")] = Unit.RECORD,
    relation: NeighbourRelation = Relation.REPLACE_ONE,
) -> None:
    """Set the budget of a data set, once and for all.

    Example: sfumato budget create budget.db patients --epsilon 4
    """
    Ledger(ledger).create(name, epsilon=epsilon, delta=delta, unit=unit, relation=relation)
    advice = " If bounds name a person, use --unit person." if unit == Unit.RECORD else ""
    typer.echo(
        f"Budget of '{name}': epsilon {epsilon:g} at delta {delta:g}, unit {unit}, "
        f"relation {relation}.{advice}"
    )


@budget_app.command()
def show(
    ledger: LedgerArgument,
    name: Annotated[str | None, typer.Argument(help="Only this data set.")] = None,
    history: Annotated[
        bool, typer.Option("--history", help="List each charge: when, why, by whom, how much.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Print the budget of each data set: total, spent, left, and the lines of its chain.

    Example: sfumato budget show budget.db
    """
    opened = Ledger(ledger)
    names = opened.datasets() if name is None else [name]
    statements = [opened.dataset(each).statement() for each in names]
    past = {each: opened.dataset(each).history() for each in names} if history else {}
    if as_json and history:
        print_json({each: [c.to_dict() for c in past[each]] for each in names})
    elif as_json:
        print_json([statement.to_dict() for statement in statements])
    else:
        rows = []
        for each in statements:
            budget, figures = each.budget, (rounded_up(each.spent, 5), f"{each.left:.5g}")
            protects = f"{budget.unit}, {budget.relation}"
            total = f"epsilon {budget.epsilon:g}, delta {budget.delta:g}"
            rows.append([protects, total, *figures, str(each.charges), each.head[:8], budget.name])
        titles = ("protects", "budget", "spent", "left", "lines", "head", "dataset")
        print_table(titles, rows)
        for name, charges in past.items():
            rows = [
                [
                    c.time[:19],
                    rounded_up(c.epsilon, 4),
                    c.by or "not stated",
                    c.purpose or "not stated",
                ]
                for c in charges
            ]
            print_table(("time", "epsilon", "by", f"purpose ({name})"), rows)


@budget_app.command()
def verify(
    ledger: LedgerArgument,
    head: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=HASH", help="A head recorded earlier; may be repeated."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Check the chain of every data set and print the heads, which you should record elsewhere.

    Without a head that was recorded earlier, an older copy of the ledger looks intact too: the
    exit code 0 says that the chains are consistent, and the data sets without --head are named.

    Example: sfumato budget verify budget.db --head patients=6f1c
    """
    noted = [each.rpartition("=") for each in head or []]
    if not all(name and last for name, _, last in noted):
        raise InvalidInputError("'--head' must have the form NAME=HASH.")
    result = Ledger(ledger).verify({name: last for name, _, last in noted})
    if as_json:
        print_json({"charges": result.charges, "heads": dict(result.heads)})
    else:
        print_lines(str(result), *(f"{name}={last}" for name, last in result.heads.items()))
    unchecked = sorted(set(result.heads) - {name for name, _, _ in noted})
    if unchecked:
        remark(
            f"NOT checked: whether the newest charges of {', '.join(unchecked)} are still there. "
            "Give --head."
        )
