"""The whole way in a real browser: two widths, light and dark, by keyboard; axe finds nothing."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.service.house import TABLE, write_table

pytestmark = pytest.mark.browser
SECONDS = 900


@pytest.fixture(scope="module")
def link(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A service of its own, by the command; gives the link of the first start."""
    folder = tmp_path_factory.mktemp("browser")
    (folder / "tables").mkdir()
    write_table(folder / "tables" / TABLE)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    output = folder / "output.txt"
    command = [sys.executable, "-m", "sfumato", "serve", str(folder / "tables")]
    command += ["--state", str(folder / "state"), "--port", str(port)]
    with output.open("w") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)
    try:
        yield _first_link(output, port)
    finally:
        process.terminate()
        process.wait(SECONDS)


def _first_link(output: Path, port: int) -> str:
    for _ in range(10 * SECONDS):
        found = re.search(r"http://\S+/sign-in#\S+", output.read_text())
        if found:
            try:
                httpx.get(f"http://127.0.0.1:{port}/api/health").raise_for_status()
            except httpx.HTTPError:
                pass
            else:
                return found.group()
        time.sleep(0.1)
    raise RuntimeError(output.read_text())


class Walk:
    """A page, looked at in four ways wherever it is."""

    def __init__(self, browser: Any, base: str, folder: Path) -> None:
        axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe")
        self.axe, self.folder, self.trouble = axe.Axe(), folder, []
        self.page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
        self.page.on("console", self._heard)
        self.page.on("request", lambda asked: self._asked(asked.url, base))

    def _heard(self, message: Any) -> None:
        if message.type == "error" and "422" not in message.text:
            self.trouble.append(message.text)

    def _asked(self, url: str, base: str) -> None:
        if not url.startswith((base, "data:")):
            self.trouble.append(f"outside: {url}")

    def look(self, name: str) -> None:
        for width, scheme in ((390, "light"), (1280, "dark")):
            self.page.set_viewport_size({"width": width, "height": 900})
            self.page.emulate_media(color_scheme=scheme)
            for fault in self.axe.run(self.page).response["violations"]:
                self.trouble.append(f"{name} {width} {scheme}: {fault['id']}")
            wider = self.page.evaluate("document.documentElement.scrollWidth - innerWidth")
            if wider > 0:
                self.trouble.append(f"{name} {width}: {wider} pixels too wide")
            self.page.screenshot(path=self.folder / f"{name}-{width}.png", full_page=True)
        self.page.set_viewport_size({"width": 1280, "height": 900})

    def press(self, name: str) -> None:
        self.page.get_by_role("button", name=name, exact=True).click()

    def follow(self, name: str) -> None:
        self.page.get_by_role("link", name=name, exact=True).first.click()


def test_from_the_first_link_to_a_release(browser: Any, link: str, tmp_path: Path) -> None:
    base = link.partition("/sign-in")[0]
    walk = Walk(browser, base, tmp_path)
    page = walk.page
    page.goto(link)
    walk.look("sign-in")
    walk.press("Sign in")
    page.wait_for_url(f"{base}/")
    tokens = _people(walk)
    _register(walk)
    walk.press("Sign out")
    page.fill("#token", tokens["ada"])
    page.keyboard.press("Enter")
    page.wait_for_url(f"{base}/")
    walk.look("home")
    _ask(walk)
    walk.press("Sign out")
    page.fill("#token", tokens["uwe"])
    page.keyboard.press("Enter")
    page.wait_for_url(f"{base}/")
    walk.follow("Audit")
    page.wait_for_selector("text=Every line is intact")
    walk.look("audit")
    assert walk.trouble == []


def _people(walk: Walk) -> dict[str, str]:
    walk.follow("People")
    found = {}
    for name, role in (("ada", "analyst"), ("uwe", "auditor")):
        walk.page.fill("#name", name)
        walk.page.select_option("#role", role)
        walk.press("Add")
        walk.press(f"Make a token for {name}")
        found[name] = walk.page.locator(".notice code").inner_text()
    walk.look("people")
    return found


def _register(walk: Walk) -> None:
    page = walk.page
    walk.follow("Data sets")
    walk.follow("Register a data set")
    fields = {"name": "patients", "target": "ill", "protected": "patients of the clinic"}
    fields |= {"why": "a first study", "auto_approve": "1"}
    for name, value in fields.items():
        page.fill(f"#{name}", value)
    walk.look("wizard")
    walk.press("Register and propose bounds")
    page.wait_for_selector("text=not confirmed")  # follows by itself
    walk.follow("Read and confirm them column by column.")
    walk.look("confirm")
    for name in ("age", "bmi", "town", "ill"):
        form = page.locator("form", has=page.locator(f"input[name=column][value={name}]"))
        if name == "age":
            form.locator("[name=lower]").fill("0")
            form.locator("[name=upper]").fill("120")
        form.get_by_role("button").click()
    walk.press("Confirm how the file is written")
    page.check("#one_row")
    walk.press("Open to analysts")
    page.get_by_text("Give or change a quota").click()
    page.fill("#quota", "2")
    walk.press("Set quota")
    walk.look("data-set")


def _ask(walk: Walk) -> None:
    page = walk.page
    walk.follow("patients")
    walk.follow("Ask for a release")
    page.wait_for_selector("#cost .notice")
    page.focus("#epsilon-slider")
    for _ in range(4):
        page.keyboard.press("ArrowLeft")
    page.wait_for_selector("text=afterwards: ε 0.91")
    page.select_option("#estimator", "PrivateAdditiveClassifier")
    page.fill("#purpose", "triage")
    walk.look("ask")
    walk.press("Submit")
    walk.page.get_by_role("link", name="See the release").click()  # appears by itself
    page.wait_for_selector("text=guesses right")
    assert page.locator(".gallery svg").count() == 3
    walk.look("release")
    walk.follow("patients")
    walk.follow("Ask for a release")
    page.select_option("#kind", "search")
    page.wait_for_selector("#cost .bad")  # a budget of kind gaussian holds no search, and says so
    assert "renyi" in page.locator("#cost").inner_text()
    walk.look("search")
