"""Searches and plans."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.tables.page import Sections, rows_of


def _search(numbers: list[dict[str, Any]]) -> str:
    head = (
        "Total epsilon 1 at delta 1e-5, add or remove one, five runs; test accuracy of the "
        "defaults with all of the budget, and of the winner of a search with the same total. "
        "Adult: its first 8,000 training rows. A gain below two deviations is none.\n\n"
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


def _planning(numbers: list[dict[str, Any]]) -> str:
    inside = np.mean([each["within_plan"] for each in numbers])
    piloted = np.mean([each["within_pilot"] for each in numbers])
    error = np.median([each["pilot_error"] for each in numbers])
    head = (
        "Planned from rows, columns, classes and the largest share alone (scenario typical, "
        "interval hard to easy), and with a pilot of a tenth of the budget; measured on held-out "
        f"rows. Inside the interval: plan {inside:.0%}, pilot {piloted:.0%}; median error of the "
        f"pilot {error:.3f}.\n\n"
    )
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


def _opacus(numbers: list[dict[str, Any]]) -> str:
    text = (
        "Runs of Opacus on a processor, charged before they start and certified: epsilon of the "
        "ledger beside those of Opacus' own accountants, records added or removed, delta 1e-5."
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
    "planning": ("Planned and measured accuracy", _planning),
    "opacus": ("Runs of Opacus, charged", _opacus),
}
