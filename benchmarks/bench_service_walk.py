"""A newcomer's way from ``pip install`` to the first release through the page, timed.

python -m benchmarks.bench_service_walk

Installs this checkout with the extra "service" into an environment of its own, then does what
docs/tutorials/first-release-by-the-page.md says, in Chromium. Writes results/service_walk.json:
seconds of the machine by step, and how many times a person types, chooses or clicks. Needs
Playwright and a browser, and an index of packages.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from benchmarks.recording import write

ROOT = Path(__file__).parents[1]
PACE = 5.0  # seconds a person takes per action, reading included
COLUMNS = ("age", "sex", "ward", "emergency", "smoker", "diabetes", "pressure", "creatinine")
COLUMNS += ("earlier_stays", "days", "readmitted")


class Clock:
    """Seconds by step."""

    def __init__(self) -> None:
        self.steps: dict[str, float] = {}

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        self.steps[name] = round(time.monotonic() - began, 1)


class Hand:
    """A person at a page; counts what she does."""

    def __init__(self, page: Any) -> None:
        self.page, self.actions = page, 0

    def fill(self, field: str, text: str) -> None:
        self.actions += 1
        self.page.fill(field, text)

    def choose(self, field: str, value: str) -> None:
        self.actions += 1
        self.page.select_option(field, value)

    def press(self, name: str) -> None:
        self.actions += 1
        self.page.get_by_role("button", name=name, exact=True).first.click()

    def follow(self, name: str) -> None:
        self.actions += 1
        self.page.get_by_role("link", name=name, exact=True).first.click()


def register(hand: Hand) -> str:
    """Officer: add an analyst, register, confirm, open, give a quota; give the token."""
    page = hand.page
    hand.press("Sign in")
    hand.follow("People")
    hand.fill("#name", "ada")
    hand.press("Add")
    hand.press("Make a token for ada")
    token: str = page.locator(".notice code").inner_text()
    hand.follow("Data sets")
    hand.follow("Register a data set")
    fields = {"name": "patients", "target": "readmitted", "protected": "patients of the clinic"}
    fields |= {"epsilon": "3", "delta": "1e-6", "auto_approve": "1", "why": "a first study"}
    for name, value in fields.items():
        hand.fill(f"#{name}", value)
    hand.press("Register and propose bounds")
    page.wait_for_selector("text=not confirmed", timeout=600_000)
    hand.follow("Read and confirm them column by column.")
    for name in COLUMNS:
        hand.press(f"Confirm {name}")
        page.wait_for_selector(f"button:has-text('Confirm again {name}')")
    hand.press("Confirm how the file is written")
    page.check("#one_row")
    hand.press("Open to analysts")
    page.get_by_text("Give or change a quota").click()
    hand.fill("#quota", "2")
    hand.press("Set quota")
    hand.actions += 2
    hand.press("Sign out")
    return token


def ask(hand: Hand, token: str) -> str:
    """Analyst: ask for a model, and give what its page promises."""
    page = hand.page
    hand.fill("#token", token)
    hand.press("Sign in")
    hand.follow("patients")
    hand.follow("Ask for a release")
    page.wait_for_selector("#cost .notice", timeout=600_000)
    hand.choose("#estimator", "PrivateAdditiveClassifier")
    hand.fill("#purpose", "triage")
    hand.press("Submit")
    page.get_by_role("link", name="See the release").click(timeout=600_000)
    hand.actions += 1
    told: str = page.locator("blockquote").inner_text()
    return told


def first_link(output: Path, port: int) -> str:
    for _ in range(6000):
        found = re.search(r"http://\S+/sign-in#\S+", output.read_text())
        if found:
            with suppress(OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/api/health").close()
                return found.group()
        time.sleep(0.1)
    raise RuntimeError(output.read_text())


def walk(folder: Path) -> dict[str, Any]:
    from playwright.sync_api import sync_playwright

    clock, bin_ = Clock(), folder / "venv" / "bin"
    os.environ.pop("PYTHONPATH", None)  # what was installed, and nothing else
    with clock.step("python -m venv, pip install"):
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
        subprocess.run([bin_ / "pip", "install", "--quiet", f"{ROOT}[service]"], check=True)
    (folder / "tables").mkdir()
    with clock.step("sfumato datasets fetch"):
        fetched = [bin_ / "sfumato", "datasets", "fetch", "hospital"]
        subprocess.run([*fetched, "-o", folder / "tables" / "patients.csv"], check=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [bin_ / "sfumato", "serve", folder / "tables", "--state", folder / "office"]
    output = folder / "output.txt"
    with output.open("w") as file:
        process = subprocess.Popen([*command, "--port", str(port)], stdout=file, stderr=file)
    try:
        with clock.step("sfumato serve, until it answers"):
            link = first_link(output, port)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox"]
            )
            hand = Hand(browser.new_page())
            hand.page.set_default_timeout(600_000)
            with clock.step("officer, from the link to a quota"):
                hand.page.goto(link)
                token = register(hand)
            with clock.step("analyst, from the token to the release"):
                promised = ask(hand, token)
            browser.close()
    finally:
        process.terminate()
        process.wait(60)
    machine = round(sum(clock.steps.values()), 1)
    return {
        "seconds": clock.steps,
        "seconds_of_the_machine": machine,
        "actions_of_a_person": hand.actions,
        "minutes_at_5_seconds_per_action": round((machine + PACE * hand.actions) / 60, 1),
        "promised": promised,
    }


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="sfumato-walk-") as folder:
        write("service_walk", walk(Path(folder)), seed=None)


if __name__ == "__main__":
    main()
