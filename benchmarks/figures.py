"""Lines of pages that follow from kept results: ``python -m benchmarks.figures``.

Prints what a page should say and does not, and measured figures on it that no result has.
`tests/test_benchmarks.py` fails on both. A row of a table or a phrase of a sentence is written
here once, with its figures taken from `benchmarks/results`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any

from benchmarks.recording import KEPT

ROOT = KEPT.parents[1]
# What looks like a measured figure: three digits after the point, or two and no digit before it.
FIGURE = re.compile(r"(?<![\w.])(?:\d+\.\d{3,}|\.\d{2,})(?![\w.]*\.\d)")
# Code, and what `benchmarks.reproductions` writes.
CODE = re.compile(r"^(?:```.*?^```|<!-- results.*?^<!-- end)", flags=re.DOTALL | re.MULTILINE)
# What others have published; no result of ours.
PUBLISHED = (
    ".987 at ε = 2.93 on MNIST, .897 at 2.7 on Fashion-MNIST, .693 at 3 on CIFAR-10",
    ".723 at ε = 1 on CIFAR-10",
    ".814 at ε = 8",
)


@cache
def kept(name: str) -> Any:
    """Return the numbers of a result."""
    return json.loads((KEPT / f"{name}.json").read_text())["numbers"]


def one(name: str, **which: Any) -> dict[str, Any]:
    """Return the row of a result that has these values."""
    (row,) = [row for row in kept(name) if which.items() <= row.items()]
    return row


def bare(value: float) -> str:
    """Write a share with three digits and no zero before its point."""
    shown = f"{value:.3f}"
    return shown.replace("0.", ".", 1) if abs(value) < 1 else shown


def beside(name: str, peer: str, **which: Any) -> tuple[float, float]:
    """Return our value and a peer's of one comparison; `name` is ours, "" is any."""
    (found,) = {
        (row["ours"]["value"], row["peer"]["value"])
        for row in kept("peers")
        if which.items() <= row.items()
        and row["ours"]["name"].startswith(name)
        and row["peer"]["name"].startswith(peer)
    }
    return found


def readme() -> Iterator[str]:
    hospital = {row["model"]: row["accuracy"] for row in kept("hospital")}
    yield f'Always answering "no" is right {hospital["always no"]:.0%}'.replace("%", " %")
    yield f"without privacy, {hospital['logistic regression']:.0%}".replace("%", " %")
    cifar = [one("accelerator", part="images", epsilon=each)["accuracy"] for each in (1, 3, 8)]
    least, most = (additive("adult", each) for each in (0.3, 3.0))
    yield "CIFAR-10 0{}, 0{}, 0{} at 1, 3 and 8; ".format(*map(bare, cifar)) + (
        f"UCI Adult AUC {least[0]:.2f} to {most[0]:.2f} at 0.3 to 3, "
        f"DP-EBM {least[1]:.2f} to {most[1]:.2f}."
    )


def additive(table: str, epsilon: float) -> tuple[float, ...]:
    """Return the score of our additive model and of DP-EBM."""
    rows = [
        row
        for row in kept("additive_models")
        if (row["table"], row.get("epsilon")) == (table, epsilon)
    ]
    return tuple(
        next(row["mean"] for row in rows if row["model"].startswith(model))
        for model in ("PrivateAdditive", "DP-EBM")
    )


def home() -> Iterator[str]:
    shown = (
        one("hospital", epsilon=1.0)["accuracy"],
        *(one("hospital", model=each)["accuracy"] for each in ("logistic regression", "always no")),
    )
    words = '| {:.3f} | {:.3f} without privacy; {:.3f} by always answering "no" |'
    yield words.format(*shown)
    adult = beside(
        "PrivateLinear", "diffprivlib", data="Adult", epsilon=1.0, relation="replace_one"
    )
    yield "| UCI Adult, linear model | {:.3f} | {:.3f} by diffprivlib".format(*adult)
    mnist = [
        one(
            "margins_frontier",
            data="mnist",
            features="scattering",
            relation="replace_one",
            epsilon=each,
        )["accuracy"]
        for each in (1.0, 10.0)
    ]
    yield "linear model on scattering features | {:.3f} | {:.3f} at ε = 10 |".format(*mnist)


def peers() -> Iterator[str]:
    for data in ("breast cancer", "Adult", "digits"):
        for place, (name, peer) in enumerate(
            {
                "PrivateLinearClassifier": "LogisticRegression",
                "PrivateGaussianClassifier": "GaussianNB",
                "PrivateKernelClassifier": "RandomForestClassifier",
            }.items()
        ):
            cells = (
                beside(name, f"diffprivlib {peer}", data=data, epsilon=each)
                for each in (0.1, 1.0, 10.0)
            )
            yield pairs("" if place else data, f"`{name}`; {peer}", cells)
        for place, peer in enumerate(("Opacus", "JAX Privacy")):
            cells = (beside("", peer, data=data, epsilon=each) for each in (0.1, 1.0, 10.0))
            yield pairs("" if place else data, peer, cells)
    for table, title in {
        "cancer": "breast cancer, accuracy",
        "adult": "Adult, AUC",
        "bank": "bank marketing, AUC",
        "diamonds": "diamonds, R²",
        "doctor": "doctor contacts, R²",
    }.items():
        cells = ("{:.3f}, {:.3f}".format(*additive(table, each)) for each in (0.3, 1.0, 3.0))
        yield f"| {title} | {' | '.join(cells)} |"
    yield from statistics_and_noise()
    yield from tables()


def pairs(*parts: Any) -> str:
    """Return a row of pairs of shares."""
    *titles, cells = parts
    shown = [", ".join(map(bare, cell)) for cell in cells]
    return "| " + " | ".join([*titles, *shown]) + " |"


def statistics_and_noise() -> Iterator[str]:
    adult = {"data": "Adult, numbers, 2 of 5", "epsilon": 1.0}
    ours, diffprivlib = beside("PrivatePCA", "diffprivlib", **adult)
    yield (
        f"ours lose {ours * 1e5:.0f}·10⁻⁵ of the variance, diffprivlib {diffprivlib:.4f}, "
        f"OpenDP {beside('PrivatePCA', 'OpenDP', **adult)[1]:.4f}"
    )
    for data, words, digits in (
        ("Adult, 5 numbers", "five columns of Adult, ours {}, OpenDP {}, diffprivlib {}", 5),
        ("digits, 64 columns", "64 columns of digits, {}, {}, {}", 2),
    ):
        both = [
            beside("PrivateMoments", peer, data=data, epsilon=1.0)
            for peer in ("OpenDP", "diffprivlib")
        ]
        values = (both[0][0], both[0][1], both[1][1])
        yield words.format(*(f"{value:.{digits}f}" for value in values))
    for data, epsilon, words in (
        ("two normals, 1,000 rows", 1.0, "two normals, 1,000 rows, {} against {} and {}"),
        ("ages of Adult, test rows", 1.0, "one bin per year: {} against {},"),
        ("ages of Adult, test rows", 0.1, "and {} against {} at ε = 0.1"),
    ):
        found = [beside("", peer, data=data, epsilon=epsilon) for peer in ("diffprivlib", "OpenDP")]
        values = (found[0][0], found[0][1], found[1][1])
        yield words.format(*(f"{value:.3f}" for value in values))
    drawn = {
        (law, peer): beside("", peer, data=f"{law} law")
        for law in ("gaussian", "laplace")
        for peer in ("opendp", "diffprivlib")
    }
    gaussian, laplace = (drawn[law, "opendp"] for law in ("gaussian", "laplace"))
    yield (
        f"{gaussian[0]:.0f} and {laplace[0]:.0f} million exact Gaussian and Laplace draws per CPU "
        f"second; OpenDP {gaussian[1]:.3f} and {laplace[1]:.3f} (exact as well), "
        f"diffprivlib {drawn['gaussian', 'diffprivlib'][1]:.2f} and "
        f"{drawn['laplace', 'diffprivlib'][1]:.2f} (floating point)"
    )


def tables() -> Iterator[str]:
    results = [row for row in kept("fabricated_tables") if "failed" not in row]
    for row in results:
        table, method = row["table"], row["method"]
        if table == "Adult, 12 columns" or (method != "Fabricator" and row["epsilon"] != 1.0):
            continue
        peer = "" if method == "Fabricator" else f", {method.partition(' ')[0]}"
        worst = "over 100" if row["worst_mean"] > 100 else f"{row['worst_mean']:.2f}"
        real = bare(row["real_boosting"]) if "real_boosting" in row else ""
        cells = [
            table + peer,
            f"{row['epsilon']:g}",
            bare(row["five_strongest"]),
            bare(row["correlations"]),
            worst,
            bare(row["boosting"]),
            real,
            f"{row['cpu_s']:.1f}",
        ]
        yield f"| {' | '.join(cells)} |"
    margins = {
        (row["table"], row["method"].partition(" ")[0]): [bare(each) for each in row["margins"]]
        for row in results
        if row["epsilon"] == 1.0
    }
    doctor, diamonds, adult = "doctor contacts", "diamonds", "Adult"
    yield (
        f"one-way errors of doctor contacts are {margins[doctor, 'MST'][0]} with MST, "
        f"{margins[doctor, 'Fabricator'][0]} with ours, of diamonds {margins[diamonds, 'MST'][0]} "
        f"(MST), {margins[diamonds, 'AIM'][0]} (AIM) and {margins[diamonds, 'Fabricator'][0]}, "
        f"two-way ones of diamonds {margins[diamonds, 'AIM'][1]} (AIM) and "
        f"{margins[diamonds, 'Fabricator'][1]}. On Adult ours are "
        "{}, {} and {}, AIM's {}, {} and {}.".format(
            *margins[adult, "Fabricator"], *margins[adult, "AIM"]
        )
    )
    ours = next(
        row
        for row in results
        if (row["table"], row["method"], row["epsilon"]) == ("Adult, 12 columns", "Fabricator", 1.0)
    )
    yield "in public bins: {}, {}, {}.".format(*map(bare, ours["margins"]))
    yield f"; ours took {ours['cpu_s']:.1f}."
    for method, words in (
        ("AIM", "AIM {}, {}, {} in {:.0f} CPU seconds"),
        ("PrivBayes", "PrivBayes {}, {}, {} in {:.0f}"),
        ("SmartNoise MST", "SmartNoise's MST {}, {}, {} in {:.0f}"),
    ):
        (row,) = [
            row
            for row in kept("fabricated_tables_peers")
            if row["table"] == "Adult, bins"
            and row["method"].startswith(method)
            and row["epsilon"] == 1.0
        ]
        yield words.format(*map(bare, row["margins"]), row["cpu_s"])


BOTH = ("add_or_remove_one", "replace_one")
FRONTIER = {
    ("margins_frontier", 0.1, 1.0, 3.0, 10.0): (
        ("MNIST, HOG", "mnist", "hog", BOTH),
        ("MNIST, scattering", "mnist", "scattering", BOTH),
        ("Fashion-MNIST, HOG", "fashion-mnist", "hog", BOTH[:1]),
        ("Fashion-MNIST, scattering", "fashion-mnist", "scattering", BOTH),
    ),
    ("margins_frontier_cifar_parts", 1.0, 3.0, 8.0): (
        ("scattering", "cifar10", "mirrored", BOTH[:1]),
        ("random-process net", "cifar10", "random-process", BOTH[:1]),
    ),
    ("margins_frontier_cifar", 1.0, 3.0, 8.0): (
        ("scattering, net and patches (the default)", "cifar10", "best", BOTH),
    ),
}


def frontier() -> Iterator[str]:
    for (name, *epsilons), rows in FRONTIER.items():
        for title, data, features, relations in rows:
            for relation in relations:
                which = {"data": data, "features": features, "relation": relation}
                found = (one(name, **which, epsilon=each)["accuracy"] for each in epsilons)
                first = "| | replace" if relation == BOTH[1] else f"| {title} | add or remove"
                yield f"{first} | {' | '.join(map(bare, found))} |"
    images = [one("accelerator", part="images", epsilon=each) for each in (1.0, 3.0, 8.0)]
    yield "CIFAR-10 has {}, {} and {} at".format(*(bare(each["accuracy"]) for each in images))
    seconds = [each for row in images for each in row["fit_s"]]
    yield f"{min(seconds):.1f} to {max(seconds):.1f} seconds for the 50,000 images"
    mnist = one("accelerator", part="linear")["fit_wall_s"]
    yield f"a fit of MNIST with 3,969 scattering features takes {mnist:.1f} seconds"
    hulls = one("accelerator", part="hulls")["end_to_end_s"]
    yield f"answers its 10,000 queries in {bare(hulls)} seconds"
    rule = "whitened, share 0.3, floor 0.1, 3969 components"
    tried = {
        (row[3], row[4], row[6]): row[-1]
        for row in kept("margins_heldout")
        if row[:3] == ["mnist", "scattering", BOTH[0]] and row[5] == 240 and row[7] in (None, 1.6)
    }
    for title, which in (
        ("| noisy gradient descent, gradients bounded at 1", (1.0, "plain")),
        ("| bounded at 0.1", (0.1, "plain")),
        ("step by the rule", (0.1, rule)),
    ):
        shown = (bare(tried[epsilon, *which]) for epsilon in (0.1, 1.0, 3.0))
        yield f"{title} | {' | '.join(shown)} |"


def hulls() -> Iterator[str]:
    for row in kept("hulls_rivals_mnist"):
        if "pruned" in row["model"]:
            continue
        digits = one("hulls_rivals_digits", model=row["model"])["accuracy"]
        yield (
            f"| `{row['model']}` | {row['accuracy']:.4f} | {row['fit']['wall_s']:.1f} | "
            f"{row['predict']['wall_s']:.1f} | {digits:.4f} |"
        )
    few, many = (one("speed", what="hulls, 10,000 predictions", n_rows=n) for n in (10**4, 10**5))
    yield f"{few['cpu_s']:.1f} and {many['cpu_s']:.1f} CPU seconds at 10⁴ and 10⁵"
    left = {(row["data"], row["way"]): row["left"] for row in kept("hulls_bounds")}
    of = {row["data"]: row["of"] for row in kept("hulls_bounds")}
    ways = ("MNIST", "ball"), ("MNIST", "polynomial 3"), ("MNIST", "leading")
    shown = "of {} branches of other classes {}, {} and {} on MNIST"
    yield shown.format(of["MNIST"], *(left[way] for way in ways))
    normal = "20 normal columns"
    yield f"{left[normal, 'ball']} and {left[normal, 'polynomial 3']} of {of[normal]} on normal"
    yield f"images can leave fewer than {left[normal, 'any set']}"


def mappings() -> Iterator[str]:
    columns = (
        ("MNIST->MNIST", True),
        ("MNIST->MNIST", False),
        ("MNIST->USPS enlarged", True),
        ("MNIST->USPS", False),
    )
    for labels in (1, 2, 3, 5, 10):
        found = (
            one("mappings_labels", pair=pair, labels_a_class=labels, use_source=source)
            for pair, source in columns
        )
        cells = (f"{100 * row['accuracy']:.1f}" for row in found)
        yield f"| {labels} | {' | '.join(cells)} |"


def fabrication() -> Iterator[str]:
    for epsilon in (1, 3, 4, 10):
        found = (
            one("fabrication_record", epsilon=epsilon, features=each)["accuracy"]
            for each in ("pixels", "gradients")
        )
        yield f"| {epsilon} | {' | '.join(f'{each:.4f}' for each in found)} |"
    learned = (
        one("fabrication_learners", epsilon=each, learner="support_vectors") for each in (1, 4, 10)
    )
    yield "`SVC` reaches {:.3f}, {:.3f} and {:.3f} at".format(*(row["accuracy"] for row in learned))
    adult = {
        row["model"]: row["accuracy"]
        for row in kept("fabrication_data")
        if (row["data"], row["level"], row["epsilon"]) == ("adult", "record", 1.0)
    }
    yield f"({adult['diffprivlib LogisticRegression']:.3f} against {adult['hulls']:.3f} at ε = 1)"


def additive_howto() -> Iterator[str]:
    for table, title in {
        "adult": "Adult | AUC",
        "bank": "bank marketing | AUC",
        "diamonds": "diamonds | R²",
        "doctor": "doctor contacts | R²",
        "cancer": "breast cancer, 398 rows | accuracy",
    }.items():
        plain = one("additive_models", table=table, model="gradient boosting, no privacy")["mean"]
        ours = (additive(table, each)[0] for each in (0.3, 1.0, 3.0))
        yield f"| {title} | {' | '.join(f'{each:.3f}' for each in (*ours, plain))} |"


def functions() -> Iterator[str]:
    for data, title in (("breast cancer", "breast cancer, 455"), ("adult", "Adult, 32,561")):
        rows = [one("functions_tables", data=data, epsilon=each) for each in (0.1, 1.0, 10.0)]
        cells = [f"{row['kernel']:.3f} ({row['diffprivlib']:.3f})" for row in rows]
        last = one("functions_tables", data=data, epsilon="inf")["kernel"]
        yield f"| {title} rows | {' | '.join(cells)} | {last:.3f} |"
    kernel, growth = "kernel classifier, 10 columns", []
    for what in (kernel, f"{kernel}, λ = 0.001"):
        times = [one("speed", what=what, n_rows=n)["cpu_s"] for n in (10**4, 10**5, 10**6)]
        growth += [f"{math.log10(times[2] / times[0]) / 2:.2f}"]
        if what == kernel:
            yield "{:.2f}, {:.1f} and {:.0f} CPU seconds at 10⁴, 10⁵ and 10⁶".format(*times)
    yield "as the power {} of the rows, at λ = 0.001 as {}".format(*growth)


def charges() -> Iterator[str]:
    for row in kept("opacus"):
        names = ("epsilon", "epsilon_opacus_prv", "epsilon_opacus_rdp")
        cells = [row["noise_multiplier"], *(f"{row[name]:.3f}" for name in names)]
        yield f"| {' | '.join(map(str, cells))} | {bare(row['accuracy'])} |"


def statistics() -> Iterator[str]:
    def errors(column: str, epsilon: float, digits: int) -> str:
        row = one("statistics", column=column, epsilon=epsilon, statistic="median")
        shown = (f"{row[each]['error']:.{digits}f}"[1:] for each in ("Sfumato", "diffprivlib"))
        return "{} against {}".format(*shown)

    hours = f"{errors('hours', 0.1, 4)} at ε = 0.1 and {errors('hours', 1.0, 5)} at ε = 1"
    yield f"untied hours errs by {hours}"
    median = one("statistics", column="age", epsilon=1.0, statistic="median")
    ages = f"{median['Sfumato']['error']:.4f}"[1:], f"{median['diffprivlib']['error']:.2f}"[1:]
    yield f"whole ages by {errors('age', 0.1, 2)} and " + "{} against {}".format(*ages)
    covered = [
        row["coverage"]
        for row in kept("statistics_coverage")
        if row["statistic"] in ("sum", "mean")
    ]
    shown = (f"{each:.2f}"[1:] for each in (min(covered), max(covered)))
    yield "{} to {} for sums and means".format(*shown)


def federate() -> Iterator[str]:
    figure = json.loads((KEPT / "reproduce_feddpdr_figure-3-data-MNIST.json").read_text())
    words = "MNIST, 0.1, FedDPDR-DPML"
    (parity,) = [row["strict"] for row in figure["comparisons"] if row["what"] == words]
    yield f"reach {bare(parity)} at ε = 0.1"
    found = {
        (row["model"], row["trust"]): bare(row["accuracy"])
        for row in kept("parties_accuracy")
        if row["parties"] < 100
    }
    for model, sentence in (
        ("gaussian", "reach {} on one table; ten parties {} with noisy sums and {} with secure"),
        ("hulls", "Hulls reach {}; {} with noisy sums, {} with secure ones, and "),
    ):
        yield sentence.format(*(found[model, each] for each in ("central", "noisy", "secure")))
    yield f"{bare(one('federated_record', parties=10)['accuracy'])} as ten merged models"


def reproduced(name: str) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the comparisons of a reproduction by their words and units."""
    rows = json.loads((KEPT / f"reproduce_{name}.json").read_text())["comparisons"]
    return {(row["what"], row["unit"]): row for row in rows}


def cdmma() -> Iterator[str]:
    def spread(table: str, what: str, mode: str) -> str:
        row = reproduced(f"cdmma_table-{table}")[what, "accuracy"]
        sd = row[f"{mode}_sd"]
        return f"{row[mode]:.3f}" + (f" ± {sd:.3f}" if sd else "")

    pixel = "epsilon 0.1, a pixel"
    found = [spread("1", *each) for each in ((pixel, "paper"), (pixel, "strict"))]
    yield "five layers: {} as printed, {} with rows labelled by models".format(*found)
    yield spread("1", f"{pixel}, both", "paper") + " if"
    alone = [spread("1", f"{pixel}, {w}", "paper") for w in ("rounded", "iterated")]
    yield "{} rounded, {} with four".format(*alone)
    yield f"{reproduced('cdmma_table-1')[pixel, 'accuracy']['printed']:.3f} is printed"
    noise = (("0.1", pixel), ("1", "epsilon 1, a pixel"), ("inf", "no noise"))
    same = {spread(f"2-eps-{e}", what, mode) for e, what in noise for mode in ("paper", "strict")}
    printed = [reproduced(f"cdmma_table-2-eps-{e}")[w, "accuracy"]["printed"] for e, w in noise]
    yield "({} and {}; {} in print)".format(*sorted(same), span(printed, 3))
    yield f"{spread('2-eps-0.1', f'{pixel}, both', 'paper')} with both readings"
    labels = reproduced("cdmma_table-3").values()
    for side, words in (("paper", "as printed"), ("strict", "mended"), ("printed", "in print")):
        yield ", ".join(f"{row[side]:.3f}" for row in labels) + f" {words}"


def span(values: Iterable[float], digits: int = 2) -> str:
    least, *_, most = sorted(values)
    return f"{least:.{digits}f} to {most:.{digits}f}"


def kahm() -> Iterator[str]:
    splits = reproduced("kahm_table-3").items()
    for method, end in (("Definitions 7 and 8", ")"), ("C = 10", ", ahead on each split)")):
        yield f"({span(row['paper'] for (what, _), row in splits if what.endswith(method))}{end}"

    noisy, made, raw = (
        reproduced("kahm_table-5")[f"eps 1, n 20, Definition {d}", "accuracy"]
        for d in ("12", "15", "15, clusters of raw rows")
    )
    yield f"({raw['paper']:.3f} at ε = 1, Definition 15; printed: {raw['printed']:.3f})"
    yield f"({noisy['paper']:.3f} at 1; printed: {noisy['printed']:.3f})"
    yield f"({made['strict']:.3f} against {made['paper']:.3f})"

    def rows(table: int, definition: int, unit: str = "accuracy") -> list[dict[str, float]]:
        end = f"{', n 20' if table == 6 else ''}, Definition {definition}"
        found = reproduced(f"kahm_table-{table}").items()
        shown = [(what, row) for (what, kind), row in found if kind == unit]
        return [row for what, row in shown if what.startswith("eps") and what.endswith(end)]

    def both(table: int, unit: str = "accuracy") -> list[tuple[dict[str, float], ...]]:
        return list(zip(rows(table, 12, unit), rows(table, 15, unit), strict=True))

    loss = [span(a[side] - b[side] for a, b in both(6)) for side in ("paper", "printed")]
    yield "lower accuracy by {} (printed: {})".format(*loss)
    for table in (6, 7):
        every = [row for pair in both(table) for row in pair]
        shown = [span(row[side] for row in every) for side in ("strict", "paper")]
        yield "({} against {})".format(*shown)
    mis, accuracy = (
        [[100 * (1 - b[s] / a[s]) for a, b in both(7, unit)] for s in ("paper", "printed")]
        for unit in ("mis", "accuracy")
    )
    yield "accuracy by {} % (printed: {} %)".format(*(span(each, 0) for each in accuracy))
    lower = "lower mis in {} of {} cells, by {:.0f} % at most (printed: in all, {:.0f} %)"
    yield lower.format(sum(x > 0 for x in mis[0]), len(mis[0]), *map(max, mis))
    most = [max(row[side] for row in rows(7, 12, "mis")) for side in ("paper", "printed")]
    yield "mis up to {:.1f}; printed: {:.1f}".format(*most)


PAGES: dict[str, Callable[[], Iterator[str]]] = {
    "README.md": readme,
    "docs/index.md": home,
    "docs/howto/additive.md": additive_howto,
    "docs/howto/federate.md": federate,
    "docs/howto/functions.md": functions,
    "docs/howto/spend-a-budget.md": charges,
    "docs/howto/statistics.md": statistics,
    "docs/explanation/peers.md": peers,
    "docs/reproductions/cdmma.md": cdmma,
    "docs/reproductions/kahm.md": kahm,
    "docs/explanation/frontier.md": frontier,
    "docs/explanation/hulls.md": hulls,
    "docs/explanation/mappings.md": mappings,
    "docs/explanation/fabrication.md": fabrication,
}


def compare(page: str, text: str) -> tuple[list[str], list[str]]:
    """Return what a page lacks, and measured figures on it that no result has."""
    text = CODE.sub("", text).replace("**", "")
    lacking = []
    for line in sorted({*PAGES[page](), *PUBLISHED}, key=len, reverse=True):
        if line not in text and line not in PUBLISHED:
            lacking.append(line)
        text = text.replace(line, " ")
    return lacking, FIGURE.findall(text)


if __name__ == "__main__":
    for page in PAGES:
        lacking, unfounded = compare(page, (ROOT / page).read_text())
        for line in lacking:
            print(f"{page} should say: {line}")
        if unfounded:
            print(f"{page} has figures of no result: {', '.join(unfounded)}")
