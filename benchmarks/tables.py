"""Rebuild benchmarks/README.md from the JSON of the last runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from benchmarks.recording import RESULTS

HEAD = """# Benchmarks

`make bench` runs all of them and rebuilds this page from `results/*.json`, which hold every number
here with machine, versions and seeds. Real data are found through `SFUMATO_DATA`. Seconds are those
of one run on one machine: compare rows, not machines.
"""


def rebuild() -> None:
    """Write the page from the results that are there."""
    parts = [HEAD]
    for name, (title, table) in SECTIONS.items():
        path = RESULTS / f"{name}.json"
        if path.is_file():
            record = json.loads(path.read_text())
            parts.append(f"## {title}\n\n{_machine(record)}\n\n{table(record['numbers'])}\n")
    (RESULTS.parent / "README.md").write_text("\n".join(parts))


def _machine(record: dict[str, Any]) -> str:
    machine, versions = record["machine"], record["versions"]
    device = record.get("device") or machine["processor"]
    return (
        f"{device}, {machine['cores']} cores, threads: {machine['threads']}; Python "
        f"{record['python']}, NumPy {versions['numpy']}, scikit-learn {versions['scikit-learn']}."
    )


def _rows(titles: list[str], rows: list[list[Any]]) -> str:
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def _noise(numbers: list[dict[str, Any]]) -> str:
    table = _rows(
        ["law", "million exact draws/s", "numpy.random, million/s", "times slower"],
        [
            [
                r["law"],
                r["million_draws_per_s"],
                r["numpy_million_per_s"],
                r["times_slower_than_numpy"],
            ]
            for r in numbers
            if "million_draws_per_s" in r
        ],
    )
    entry = next(r for r in numbers if r["law"] == "entry")
    return f"{table}\n\nEntry noise on {entry['draws']:,} numbers (MNIST): {entry['cpu_s']:.1f} s."


def _moments(numbers: list[dict[str, Any]]) -> str:
    return "Record level, replace one, delta 1e-5, rows scaled to unit length.\n\n" + _rows(
        ["epsilon", "accuracy", "standard deviation", "runs", "before the record engine", "fit s"],
        [
            [
                r["epsilon"],
                r["accuracy"],
                r["accuracy_std"],
                r["runs"],
                r.get("accuracy_about_the_origin", ""),
                r["fit_wall_s"],
            ]
            for r in numbers
        ],
    )


def _sizes(numbers: list[dict[str, Any]]) -> str:
    return _rows(
        ["N x p", "CPU s", "paper s", "ratio"],
        [[f"{r['N']} x {r['p']}", r["cpu_s"], r["paper_s"], r["ratio"]] for r in numbers],
    )


def _oracle(numbers: dict[str, Any]) -> str:
    faster = numbers["times_faster"]
    return (
        f"Fit {faster['fit']} times, distance {faster['distance']} times faster than the formulas "
        f"as printed; largest relative difference of a distance "
        f"{numbers['largest_relative_difference']:.1e}."
    )


def _mnist(numbers: dict[str, Any]) -> str:
    return _rows(
        ["fit s", "exact predict s", "pruned predict s", "equal labels", "accuracy", "peak GiB"],
        [
            [
                numbers["fit"]["wall_s"],
                numbers["predict_exact"]["wall_s"],
                numbers["predict_pruned"]["wall_s"],
                numbers["pruned_equal_labels"],
                numbers["accuracy"],
                numbers["peak_gib"],
            ]
        ],
    )


def _growth(numbers: list[dict[str, Any]]) -> str:
    return _rows(
        ["rows", "branches", "CPU s", "CPU ms a row"],
        [[r["N"], r["branches"], r["cpu_s"], r["cpu_ms_per_row"]] for r in numbers],
    )


def _rivals(numbers: list[dict[str, Any]]) -> str:
    return _rows(
        ["model", "accuracy", "fit s", "predict s"],
        [
            [f"`{r['model']}`", r["accuracy"], r["fit"]["wall_s"], r["predict"]["wall_s"]]
            for r in numbers
        ],
    )


def _gpu(numbers: dict[str, Any]) -> str:
    return (
        f"Fit {numbers['fit']['wall_s']} s, exact prediction {numbers['predict_exact']['wall_s']} "
        f"s, accuracy {numbers['accuracy']}, {numbers['peak_gib']} GiB."
    )


def _entry(numbers: list[dict[str, Any]]) -> str:
    found = {(r["epsilon"], r["mode"], r["definition"]): r for r in numbers}
    rows = []
    for epsilon in sorted({r["epsilon"] for r in numbers}):
        row: list[Any] = [epsilon]
        for definition in (15, 12):
            row.append(found[epsilon, "paper", definition]["paper"])
            row += [found[epsilon, mode, definition]["accuracy"] for mode in ("paper", "strict")]
        rows.append(row)
    titles = ["epsilon"]
    for definition in (15, 12):
        titles += [f"Def. {definition} {how}" for how in ("printed", "`paper`", "`strict`")]
    text = "Unit entry, d = 1, delta 1e-5, mean of three runs. Mode `paper` keeps no promise."
    return f"{text}\n\n{_rows(titles, rows)}"


def _record(numbers: list[dict[str, Any]]) -> str:
    return (
        "Unit record, replace one, delta 1e-5; pixels or gradient histograms, rows of length 1."
        "\n\n"
        + _rows(
            ["features", "epsilon", "accuracy", "standard deviation", "runs", "fit s"],
            [
                [
                    r["features"],
                    r["epsilon"],
                    r["accuracy"],
                    r["accuracy_std"],
                    r["runs"],
                    r["fit_wall_s"],
                ]
                for r in numbers
            ],
        )
    )


def _learners(numbers: list[dict[str, Any]]) -> str:
    return "Unit record, delta 1e-5.\n\n" + _rows(
        ["learner", "epsilon", "accuracy", "standard deviation", "runs"],
        [
            [
                r["learner"].replace("_", " "),
                r["epsilon"],
                r["accuracy"],
                r["accuracy_std"],
                r["runs"],
            ]
            for r in sorted(numbers, key=lambda r: r["learner"])
        ],
    )


def _local(numbers: list[dict[str, Any]]) -> str:
    return "Unit record, delta 1e-5; every row and label gets its own noise.\n\n" + _rows(
        ["epsilon", "rows", "accuracy", "standard deviation", "runs"],
        [[r["epsilon"], r["rows"], r["accuracy"], r["accuracy_std"], r["runs"]] for r in numbers],
    )


def _speed(numbers: list[dict[str, Any]]) -> str:
    return _rows(
        ["unit", "epsilon", "wall s", "CPU s", "peak GiB so far"],
        [[r["unit"], r["epsilon"], r["wall_s"], r["cpu_s"], r["peak_gib"]] for r in numbers],
    )


def _data(numbers: list[dict[str, Any]]) -> str:
    text = (
        "delta 1e-5 for ours, 0 for diffprivlib. Bounds and splits: `bench_fabrication_data.py`. "
        "A cell is accuracy (balanced accuracy)."
    )
    columns = sorted({r["epsilon"] for r in numbers if r["epsilon"]})
    lines: dict[tuple[str, str, str], dict[float | None, str]] = {}
    for r in numbers:
        cell = f"{r['accuracy']:.3f} ({r['balanced_accuracy']:.3f})"
        lines.setdefault((r["data"], r["level"], r["model"]), {})[r["epsilon"]] = cell
    titles = ["data", "protected", "model", "no noise", *(f"epsilon {e:g}" for e in columns)]
    rows = [[*line, *(cells.get(e, "") for e in (None, *columns))] for line, cells in lines.items()]
    return f"{text}\n\n{_rows(titles, rows)}"


def _functions_speed(numbers: dict[str, Any]) -> str:
    batch = _rows(
        ["released at once", "CPU s", "wall s"],
        [[r["release"], r["cpu_s"], r["wall_s"]] for r in numbers["batch"]],
    )
    online = _rows(
        ["asked online", "questions", "CPU s", "wall s", "questions/s"],
        [
            [r["release"], f"{r['queries']:,}", r["cpu_s"], r["wall_s"], f"{r['queries_per_s']:,}"]
            for r in numbers["online"]
        ],
    )
    return (
        f"Functions of 1000 rows (Gaussian) or of a formula; other work ran on the machine.\n\n"
        f"{batch}\n\n{online}\n\nThe disk took {numbers['syncs_per_s']:,} synced writes a second, "
        "which bounds durable answers asked one by one."
    )


def _functions_growth(numbers: list[dict[str, Any]]) -> str:
    return _rows(
        ["kernel", "answered before", "CPU µs a question"],
        [[r["kernel"], f"{r['answered']:,}", r["cpu_us_per_query"]] for r in numbers],
    )


def _functions_rivals(numbers: list[dict[str, Any]]) -> str:
    text = (
        "One draw on a line, CPU seconds; ours with the function, the charge and exact noise, "
        "theirs a draw from the prior."
    )
    names = ("sfumato_cpu_s", "scikit_learn_cpu_s", "gpytorch_cpu_s")
    return f"{text}\n\n" + _rows(
        ["kernel", "points", "Sfumato", "scikit-learn", "GPyTorch"],
        [[r["kernel"], r["points"], *(r[name] for name in names)] for r in numbers],
    )


def _functions_kills(numbers: dict[str, Any]) -> str:
    return (
        f"`kill -9` in the midst of {numbers['sessions_killed']:,} online sessions: "
        f"{numbers['answers_told']:,} answers told, {numbers['contradicted']} contradicted after "
        "the restart."
    )


def _large_margin_plain(numbers: list[dict[str, Any]]) -> str:
    titles = ["rows", "regulariser", "weight", "accuracy", "fit CPU s"]
    return "40 principal components; regulariser chosen on held-out training rows.\n\n" + _rows(
        titles,
        [
            [r["rows"], r["regularizer"], r["regularization"], r["accuracy"], r["fit"]["cpu_s"]]
            for r in numbers
        ],
    )


def _large_margin_private(numbers: list[dict[str, Any]]) -> str:
    head = "Record level, delta 1e-5, 60,000 rows; 10 private components, charged too.\n\n"
    return head + _rows(
        ["relation", "epsilon", "accuracy", "standard deviation", "runs", "fit CPU s"],
        [
            [
                r["relation"],
                r["epsilon"],
                r["accuracy"],
                r["accuracy_std"],
                r["runs"],
                r["fit_cpu_s"],
            ]
            for r in numbers
        ],
    )


def _tables(numbers: dict[str, Any]) -> str:
    return (
        f"`sfumato fit --model gaussian` on a generated Parquet file of {numbers['file_gb']} GB "
        f"({numbers['rows']:,} rows, {numbers['features']} columns), read batch by batch, once for "
        f"each of {numbers['passes']} releases: {numbers['cpu_s']} s of CPU, {numbers['wall_s']} s "
        f"on the clock, at most {numbers['peak_gib']} GiB of memory in all."
    )


def _density_distance(numbers: dict[str, Any]) -> str:
    rows = [
        [
            r["shift"],
            r["true"],
            r["mean"],
            r["largest_deviation"],
            r["largest_deviation_of_one_who_knows_the_densities"],
        ]
        for r in numbers["rows"]
    ]
    titles = ["shift", "true", "mean", "largest miss", "miss of one who knows the densities"]
    seconds = numbers["60000_against_10000"]["cpu_s"]
    return (
        f"N(0, 1) against N(shift, 1), {numbers['samples']} samples each, {numbers['seeds']} seeds."
        f"\n\n{_rows(titles, rows)}\n\n60,000 against 10,000 samples: {seconds} CPU s."
    )


def _power(numbers: list[dict[str, Any]]) -> str:
    titles = ["mechanism", "runs a side", "promised", "refuted", "bounds"]
    return f"Confidence {numbers[0]['confidence']}.\n\n" + _rows(
        titles,
        [
            [
                r["mechanism"],
                r["runs_a_side"],
                r["claimed"],
                r["refuted"],
                f"{r['least_bound']} to {r['largest_bound']}",
            ]
            for r in numbers
        ],
    )


def _matches(numbers: list[dict[str, Any]]) -> str:
    return _rows(
        ["release", "epsilon", "source found", "95 % interval", "median rank of the source"],
        [
            [
                r["release"],
                r["epsilon"],
                r["rate"],
                f"{r['interval'][0]} to {r['interval'][1]}",
                r["median_rank"],
            ]
            for r in numbers
        ],
    )


def _membership(numbers: list[dict[str, Any]]) -> str:
    text = (
        "Scores in units of 1/distance, of all training and all test rows; n = 20, L = 5. Mode "
        "`paper` keeps no promise."
    )
    titles = ["epsilon", "definition", "mode", "score", "± standard error", "printed", "AUC"]
    rows = [
        [
            r["epsilon"] or "none",
            r["definition"],
            r["mode"],
            r["score"],
            r["standard_error"],
            r["paper"] or "",
            r["auc"],
        ]
        for r in numbers
    ]
    return f"{text}\n\n{_rows(titles, rows)}"


def _audit_peers(numbers: list[dict[str, Any]]) -> str:
    rows = []
    for r in numbers:
        rows.append([r["data"], "Sfumato", round(r["auc"], 4), "", ""])
        for name, peer in r["peers"].items():
            if "auc" in peer:
                figures = [round(peer["auc"], 4), peer["auc_difference"], peer["times_our_cpu_s"]]
                rows.append([r["data"], f"{name} {peer['version']}", *figures])
    titles = ["forest on", "attack on the loss", "AUC", "difference", "times our CPU s"]
    return _rows(titles, rows)


def _functions_rate(numbers: dict[str, Any]) -> str:
    rows = [[r["d"], r["n"], r["plain"], r["private"]] for r in numbers["risks"]]
    slopes = numbers["slopes"]
    text = (
        "Mean squared error of a density at epsilon 1. Slopes from 2000 rows on: "
        f"{slopes['private_1']} (d = 1, plain {slopes['plain_1']}, theory -0.8) and "
        f"{slopes['private_2']} (d = 2, plain {slopes['plain_2']}, theory -0.667)."
    )
    return f"{text}\n\n{_rows(['d', 'rows', 'plain', 'private'], rows)}"


def _functions_plane(numbers: list[dict[str, Any]]) -> str:
    names = ("plain", "strict", "paper")
    rows = [[r["loss"], *(f"{r[n]} ({r[f'{n}_noise']})" for n in names)] for r in numbers]
    text = "Accuracy (noise of a score) in the plane, 1000 rows, λ = 0.01, epsilon 1, delta 1e-5."
    return f"{text}\n\n{_rows(['loss', 'no noise', 'strict', 'as printed'], rows)}"


def _functions_tables(numbers: list[dict[str, Any]]) -> str:
    rows = [
        [
            r["data"],
            r["epsilon"],
            f"{r['kernel']} ± {r['kernel_std']}",
            f"{r['diffprivlib']} ± {r['diffprivlib_std']}" if "diffprivlib" in r else "",
            r["fit_wall_s"],
        ]
        for r in numbers
        if "kernel" in r
    ]
    plain = ", ".join(
        f"{r['data']} {r['plain_logistic']} (majority {r['majority']})"
        for r in numbers
        if "plain_logistic" in r
    )
    text = (
        "Accuracy on test rows; ours at delta 1e-5, diffprivlib's logistic regression with pure "
        f"epsilon. Logistic regression without privacy: {plain}."
    )
    titles = ["data", "epsilon", "kernel classifier", "diffprivlib", "our fit (s)"]
    return f"{text}\n\n{_rows(titles, rows)}"


def _functions_curves(numbers: list[dict[str, Any]]) -> str:
    rows = [[r["data"], r["curves"], r["mode"], r["rmse_half_ranges"]] for r in numbers]
    text = "Root mean squared error of mean curves in half ranges, epsilon 1, delta 1e-3, norm 1."
    return f"{text}\n\n{_rows(['data', 'curves', 'noise', 'error'], rows)}"


def _frontier(numbers: list[dict[str, Any]]) -> str:
    epsilons = sorted({r["epsilon"] for r in numbers})
    rows: dict[tuple[str, str, str], dict[float, Any]] = {}
    for r in numbers:
        rows.setdefault((r["data"], r["features"], r["relation"]), {})[r["epsilon"]] = r
    table = _rows(
        ["data", "features", "relation", *(f"epsilon {e:g}" for e in epsilons), "runs", "fit s"],
        [
            [
                *key,
                *(found[e]["accuracy"] for e in epsilons),
                found[epsilons[0]]["runs"],
                found[epsilons[0]]["fit_wall_s"],
            ]
            for key, found in rows.items()
        ],
    )
    return (
        "Record level, delta 1e-5, everything charged, the public rule of PrivateLinearClassifier "
        f"(noisy gradient descent, whitened).\n\n{table}"
    )


def _margins_speed(numbers: list[dict[str, Any]]) -> str:
    return "10,000 rows of MNIST of length 1; minimisers to 1e-9 of the mean gradient.\n\n" + _rows(
        ["what", "CPU s", "wall s", "paper s", "gradient norm"],
        [[r["what"], r["cpu_s"], r["wall_s"], r.get("paper_s") or "", _small(r)] for r in numbers],
    )


def _small(row: dict[str, Any]) -> str:
    return f"{row['gradient_norm']:.0e}" if "gradient_norm" in row else ""


def _margins_printed(numbers: list[dict[str, Any]]) -> str:
    return (
        "Even against odd digits, 10,000 rows, delta 1e-4, as printed; epsilon is what holds."
        "\n\n"
        + _rows(
            ["mechanism", "rows", "printed epsilon", "status", "epsilon", "accuracy", "fit s"],
            [
                [
                    r["what"],
                    r["rows"],
                    r.get("claimed_epsilon", ""),
                    r.get("status", ""),
                    r.get("epsilon") or "",
                    r["accuracy"],
                    r.get("fit_wall_s", ""),
                ]
                for r in numbers
            ],
        )
    )


def _margins_peers(numbers: list[dict[str, Any]]) -> str:
    epsilons = sorted({r["epsilon"] for r in numbers})
    rows: dict[str, dict[float, Any]] = {}
    for r in numbers:
        rows.setdefault(r["classifier"], {})[r["epsilon"]] = r
    return (
        "Ours and the plain descent at delta 1e-5, replace one; diffprivlib at pure epsilon with "
        "its defaults. Accuracy, and seconds of a fit.\n\n"
        + _rows(
            ["classifier", *(f"epsilon {e:g}" for e in epsilons), "fit s"],
            [
                [name, *(found[e]["accuracy"] for e in epsilons), found[epsilons[-1]]["fit_wall_s"]]
                for name, found in rows.items()
            ],
        )
    )


def _mappings_oracle(numbers: list[dict[str, Any]]) -> str:
    return _rows(
        ["rows", "n", "M of each layer", "as printed", "difference / range", "CPU s", "printed s"],
        [
            [
                r["rows"],
                r["n_components"],
                r["inducing_points"],
                r["same_as_printed"],
                f"{r['largest_difference_by_range']:.1e}",
                r["fast_cpu_s"],
                r["printed_cpu_s"],
            ]
            for r in numbers
        ],
    )


def _mappings_mnist(numbers: dict[str, Any]) -> str:
    return _rows(
        ["branches", "fit s", "10,000 points s", "accuracy", "peak GiB"],
        [
            [
                numbers["branches"],
                numbers["fit"]["wall_s"],
                numbers["predict"]["wall_s"],
                numbers["accuracy"],
                numbers["peak_gib"],
            ]
        ],
    )


def _mappings_labels(numbers: list[dict[str, Any]]) -> str:
    ways = {True: "with the source", False: "target alone"}
    return "Record level, epsilon 1, delta 1e-5.\n\n" + _rows(
        ["pair", "labels a class", "way", "accuracy", "standard deviation", "seeds", "winners"],
        [
            [
                r["pair"],
                r["labels_a_class"],
                ways[r["use_source"]],
                r["accuracy"],
                r["accuracy_std"],
                len(r["runs"]),
                r["runs"][0]["winners"],
            ]
            for r in sorted(numbers, key=lambda r: (r["pair"], r["labels_a_class"]))
        ],
    )


def _mappings_paper(numbers: list[dict[str, Any]]) -> str:
    return "10 labels a class, one release of the source.\n\n" + _rows(
        ["pair", "setting", "seed", "accuracy", "winners of 1000", "source s", "target CPU s"],
        [
            [
                r["pair"],
                r["setting"],
                r["run"],
                r["accuracy"],
                r["winners"],
                r["source_wall_s"],
                r["fit_cpu_s"],
            ]
            for r in sorted(numbers, key=lambda r: (r["pair"], r["setting"], r["run"]))
        ],
    )


def _mappings_office(numbers: list[dict[str, Any]]) -> str:
    titles = ["pair", "entry epsilon 0.1", "no noise", "target alone", "linear SVM"]
    return "EfficientNet-Lite0 features, 3 labels a class, 5 splits.\n\n" + _rows(
        titles, [[r[title] for title in titles] for r in numbers]
    )


def _federated_hulls(numbers: list[dict[str, Any]]) -> str:
    return "Every party fits its own private hulls; the coordinator merges them.\n\n" + _rows(
        ["scenario", "parties", "accuracy", "MB sent", "fit s, all parties"],
        [
            [r["scenario"], r["parties"], r["accuracy"], r["megabytes_sent"], r["fit"]["wall_s"]]
            for r in numbers
        ],
    )


def _federated_linear(numbers: list[dict[str, Any]]) -> str:
    ways = ["moments", "projectors", "bases", "one party", "non-private"]
    head = (
        "Five parties, 20 components, delta 1e-4: accuracy by the way in which subspaces are put "
        "together (bases is the printed one), of one party alone, and of that without noise."
    )
    rows = [
        [r["task"], r["epsilon"], *(f"{r[way]} ± {r['std'][way]}" for way in ways)] for r in numbers
    ]
    return f"{head}\n\n" + _rows(["task", "epsilon", *ways], rows)


def _federated_engine(numbers: list[dict[str, Any]]) -> str:
    return _rows(
        ["parties", "in this process s", "Flower's simulation s", "of that, rounds s"],
        [
            [
                r["parties"],
                r["here"]["wall_s"],
                r["flower"]["wall_s"],
                ", ".join(f"{phase} {seconds}" for phase, seconds in r["rounds_s"].items()),
            ]
            for r in numbers
        ],
    )


SECTIONS: dict[str, tuple[str, Callable[[Any], str]]] = {
    "noise": ("Exact noise", _noise),
    "moments_mnist": ("Private Gaussian classifier, MNIST", _moments),
    "hulls_mnist": ("Hulls: all of MNIST", _mnist),
    "hulls_rivals_mnist": ("Hulls beside others, MNIST", _rivals),
    "hulls_rivals_digits": ("Hulls beside others, digits", _rivals),
    "hulls_sizes": ("Hulls: the paper's Table 11", _sizes),
    "hulls_oracle": ("Hulls: against the formulas as printed", _oracle),
    "hulls_growth": ("Hulls: growth with the number of rows", _growth),
    "hulls_gpu": ("Hulls: all of MNIST on a GPU", _gpu),
    "margins_frontier": ("Private linear classifiers on image features", _frontier),
    "margins_frontier_cifar": ("Private linear classifiers, CIFAR-10 (20,000 rows)", _frontier),
    "margins_speed": ("Linear classifiers: speed", _margins_speed),
    "margins_printed": ("Linear classifiers: DPML and DPDR-DPML as printed", _margins_printed),
    "margins_peers_adult": ("Private classifiers beside others, Adult", _margins_peers),
    "large_margin_plain": ("Large-margin ellipsoids, MNIST", _large_margin_plain),
    "large_margin_private": ("Private large-margin ellipsoids, MNIST", _large_margin_private),
    "fabrication_entry": ("Private hulls, MNIST: the paper's Table 5", _entry),
    "fabrication_record": ("Private hulls, MNIST: whole records", _record),
    "fabrication_learners": ("Learners on fabricated rows, MNIST", _learners),
    "fabrication_local": ("Private hulls, MNIST: the local engine", _local),
    "fabrication_speed": ("Fabrication of 60,000 x 784", _speed),
    "fabrication_data": ("Private hulls beside others, four sets", _data),
    "mappings_oracle": ("Autoencoders: against the algorithms as printed", _mappings_oracle),
    "mappings_mnist": ("Autoencoders: all of MNIST", _mappings_mnist),
    "mappings_labels": ("Transfer: few labels, with and without the source", _mappings_labels),
    "mappings_paper": ("Transfer: the paper's Tables 1 and 2", _mappings_paper),
    "mappings_office": ("Transfer: Office+Caltech10", _mappings_office),
    "functions_speed": ("Private functions: speed", _functions_speed),
    "functions_growth": ("Private functions: cost of a further question", _functions_growth),
    "functions_rivals": ("Private functions beside Gaussian process samplers", _functions_rivals),
    "functions_kills": ("Private functions: sudden deaths", _functions_kills),
    "functions_rate": ("Private densities: risk against the number of rows", _functions_rate),
    "functions_plane": ("Private kernel machines in the plane", _functions_plane),
    "functions_tables": ("Private kernel classifier beside diffprivlib", _functions_tables),
    "functions_curves": ("Private mean curves", _functions_curves),
    "federated_hulls": ("Federated hulls, MNIST, entry epsilon 16", _federated_hulls),
    "federated_record": ("Federated hulls, MNIST, record epsilon 3", _federated_hulls),
    "federated_linear": ("Federated linear classifiers", _federated_linear),
    "federated_engine": ("Federated: what Flower's engine adds", _federated_engine),
    "tables_passes": ("A table larger than memory", _tables),
    "auditing_power": ("Auditing: broken mechanisms caught, right ones accused", _power),
    "auditing_density": ("Auditing: density difference", _density_distance),
    "auditing_scores": ("Auditing: membership scores of hulls, MNIST", _membership),
    "auditing_matches": ("Auditing: MNIST images found again in a release", _matches),
    "auditing_peers": ("Auditing: membership attacks beside others", _audit_peers),
}

if __name__ == "__main__":
    rebuild()
