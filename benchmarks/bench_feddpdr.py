"""Figures of FedDPDR-DPML, point by point: ``python -m benchmarks.bench_feddpdr [--minutes 40]``.

The most telling points come first and are kept in a file, so that a run can be stopped and goes on
later; each figure is written as `sfumato reproduce` would, of the points that all runs have done.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.recording import RESULTS
from sfumato.exceptions import RefutedGuaranteeWarning
from sfumato.papers import Setting, entry_of, reproduce
from sfumato.papers.feddpdr import experiments

ORDER = [("figure-3", "MNIST"), ("figure-3", "Fashion-MNIST"), ("figure-3", "CIFAR-10")]
ORDER += [(f, t) for f in experiments.FIGURES for t in experiments.TASKS if (f, t) not in ORDER]


@dataclass(frozen=True)
class Finished(Setting):
    """Runs the cells that are known already."""

    done: tuple[Any, ...] = ()

    def pick(self, cells: Iterable[Any], *names: str, quick: Any = None) -> list[Any]:  # noqa: ARG002
        return [cell for cell in cells if cell in self.done]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=600.0)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--cache", type=Path, default=Path("feddpdr-points.json"))
    options = parser.parse_args()
    warnings.simplefilter("ignore", RefutedGuaranteeWarning)
    kept: dict[str, Any] = json.loads(options.cache.read_text()) if options.cache.exists() else {}
    setting = Setting(runs=options.runs, tell=lambda line: print(line, flush=True))
    memory, end = setting.memory, time.monotonic() + 60 * options.minutes
    for task in experiments.TASKS:
        known = {tuple(map(_hashable, key)): v for key, v in kept.get(task, [])}
        memory[f"feddpdr {task}, known"] = known
    for name, task in ORDER:
        for point in experiments.FIGURES[name][1]:
            done = kept.setdefault("done", [])
            if [name, point.at, task] in done or time.monotonic() > end:
                continue
            split = setting.once(f"feddpdr {task}", lambda t=task: experiments.split_of(setting, t))
            begun = time.process_time()
            experiments.curves(split, [point], setting, memory[f"feddpdr {task}, known"])
            cpu = kept.setdefault("cpu", {})
            cpu[name] = cpu.get(name, 0.0) + time.process_time() - begun
            done.append([name, point.at, task])
            kept[task] = list(memory[f"feddpdr {task}, known"].items())
            options.cache.write_text(json.dumps(kept))
            cells = tuple((at, data) for figure, at, data in done if figure == name)
            finished = Finished(runs=options.runs, memory=memory, done=cells)
            found = reproduce(entry_of("feddpdr", name), finished)
            found = replace(found, seconds=cpu[name], cpu_seconds=cpu[name], setting=setting)
            (RESULTS / f"reproduce_feddpdr_{name}.json").write_text(found.to_json())


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


if __name__ == "__main__":
    main()
