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
    "opacus": ("Runs of Opacus, charged", _opacus),
}
