"""Memory is used again while a part is added up, and given back afterwards."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys

import pytest

from sfumato.sums.heap import NAME, reused_memory

PROGRAM = """
import json
import resource
import numpy as np
from sfumato.sums.heap import reused_memory

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def blocks():
    before = faults()
    for _ in range(400):
        np.ones(2**17)
    return faults() - before

found = [blocks()]
with reused_memory():
    blocks()
    with reused_memory():  # another thread
        found.append(blocks())
    found.append(blocks())
found.append(blocks())
print(json.dumps(found))
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="needs glibc")
def test_blocks_are_mapped_once_and_not_each_time() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, NAME: "65536"},
        capture_output=True,
        text=True,
        check=True,
    )
    before, among_others, inside, after = json.loads(done.stdout)
    pages = 400 * 2**20 // os.sysconf("SC_PAGE_SIZE")
    assert before > 0.5 * pages  # a page fault for every page of every block, as Dask sets it
    assert among_others < 0.05 * pages
    assert inside < 0.05 * pages
    assert after > 0.5 * pages  # as it was


def test_nothing_is_done_where_nobody_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(NAME, raising=False)
    monkeypatch.setattr(ctypes, "CDLL", lambda _: pytest.fail("the C library was asked"))
    with reused_memory():
        pass
    monkeypatch.setenv(NAME, "soon")
    with reused_memory():
        pass
