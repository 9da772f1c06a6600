"""Searches and plans."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.tables.page import Sections, rows_of


def _search(numbers: list[dict[str, Any]]) -> str:
    head = (
        "Total epsilon 1 at delta 1e-5, add or remove one, five runs; test accuracy of the "
        "defaults with all of the budget, and of the winner of a search with the same "
        "total. Adult: its first 8,000 training rows. A gain below two deviations means "
        "nothing.\n\n"
    )
    titles = ["table", "model", "mean runs", "epsilon each", "defaults", "search", "gain", "± sd"]
    rows = [
        [
            each["table"],
            each["model"],
            f"{each['mean_runs']:g}",
            f"{each['epsilon_each']:.2f}",
            f"{np.mean(each['defaults']):.3f}",
            f"{np.mean(each['search']):.3f}",
            f"{each['gain']:+.3f}",
            f"{each['gain_deviation']:.3f}",
        ]
        for each in numbers
    ]
    return head + rows_of(titles, rows)


def _search_audit(numbers: list[dict[str, Any]]) -> str:
    (found,) = numbers
    return (
        f"Winners of {found['searches_on_each_neighbour']} whole searches on each of two "
        f"neighbours: an epsilon of at least {found['audited']} is certain at confidence "
        f"1 - 1e-6. The search guarantees {found['promised']:g}, which stands. The "
        f"epsilon of the winner's own run, {found['of_the_winner_alone']}, would be a "
        "false report, and is caught."
    )


def _planning(numbers: list[dict[str, Any]]) -> str:
    head = (
        "Planned from rows, columns, classes and the largest share alone (scenario typical), and "
        "with a pilot of a tenth of the budget; measured on held-out rows with the rest. "
        "None of these data sets was used for the plan's curves. For a number the score "
        "is 1 - (error / range)². The second table has the first of two pilots each.\n\n"
    )
    groups = dict.fromkeys(each["group"] for each in numbers)
    counted = [_counted(group, [n for n in numbers if n["group"] == group]) for group in groups]
    heads = ["of", "pilots", "inside plan", "inside pilot", "within .02", "median error of pilot"]
    head += rows_of(heads, counted) + "\n\n"
    numbers = [each for each in numbers if each["group"] == "six sets"][::2]
    titles = ["set", "model", "epsilon", "planned", "interval", "pilot", "its interval", "measured"]
    rows = [
        [
            each["set"],
            each["model"],
            f"{each['epsilon']:g}",
            f"{each['planned']:.2f}",
            "{:.2f} to {:.2f}".format(*each["planned_interval"]),
            f"{each['pilot']:.2f}",
            "{:.2f} to {:.2f}".format(*each["pilot_interval"]),
            f"{each['measured']:.2f}",
        ]
        for each in numbers
    ]
    return head + rows_of(titles, rows)


def _counted(group: str, rows: list[dict[str, Any]]) -> list[Any]:
    return [
        group,
        len(rows),
        f"{np.mean([each['within_plan'] for each in rows]):.0%}",
        f"{np.mean([each['within_pilot'] for each in rows]):.0%}",
        f"{np.mean([each['pilot_error'] <= 0.02 for each in rows]):.0%}",
        f"{np.median([each['pilot_error'] for each in rows]):.3f}",
    ]


def _planning_designs(numbers: list[dict[str, Any]]) -> str:
    text = (
        "Ways to forecast from the same pilots (six sets, three budgets, two models), and on the "
        "sets that made the curves, left out in turn. The target was within .02; none "
        "reaches it."
    )
    titles = ["design", "left out: median", "within .02", "six sets: median", "within .02"]
    rows = [
        [
            each["design"],
            f"{each['left_out_median_error']:.3f}",
            f"{each['left_out_within_0.02']:.0%}",
            f"{each['six_sets_median_error']:.3f}",
            each["six_sets_within_0.02"],
        ]
        for each in numbers
    ]
    return f"{text}\n\n{rows_of(titles, rows)}"


def _opacus(numbers: list[dict[str, Any]]) -> str:
    text = (
        "Runs of Opacus on a processor, charged before they start and certified: epsilon of the "
        "ledger compared with those of Opacus' own accountants, records added or "
        "removed, delta 1e-5."
    )
    titles = ["noise multiplier", "steps", "charged", "Opacus, PRV", "Opacus, RDP", "accuracy"]
    rows = [
        [
            f"{each['noise_multiplier']:g}",
            f"{each['steps']:,}",
            f"{each['epsilon']:.3f}",
            f"{each['epsilon_opacus_prv']:.3f}",
            f"{each['epsilon_opacus_rdp']:.3f}",
            f"{each['accuracy']:.3f}",
        ]
        for each in numbers
    ]
    return f"{text}\n\n{rows_of(titles, rows)}"


SECTIONS: Sections = {
    "search": ("Private search for settings", _search),
    "search_audit": ("Private search: an audit of the winner", _search_audit),
    "planning": ("Planned and measured accuracy", _planning),
    "planning_designs": ("Designs of a pilot's forecast", _planning_designs),
    "opacus": ("Runs of Opacus, charged", _opacus),
}
