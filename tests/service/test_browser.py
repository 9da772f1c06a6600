"""The whole way in a real browser, by the page alone; two widths, light and dark; axe."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.service.house import TABLE, Browser, House, write_table

pytestmark = pytest.mark.browser
SHOTS = os.environ.get("SFUMATO_SCREENSHOTS")


@pytest.fixture(scope="module")
def link(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start a studio by its command; gives the link that it prints."""
    folder = tmp_path_factory.mktemp("browser")
    write_table(folder / TABLE)
    text = (folder / TABLE).read_text().replace("heavy", "n/a")  # else the column counts as text
    (folder / TABLE).write_text(text)
    command = [sys.executable, "-m", "sfumato", "studio", str(folder / TABLE), "--no-browser"]
    output = folder / "output.txt"
    with output.open("w") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + 300
        while not (found := re.search(r"http://\S+token=\S+", output.read_text())):
            assert process.poll() is None, output.read_text()
            assert time.monotonic() < deadline
            time.sleep(0.1)
        yield found[0]
    finally:
        process.terminate()
        process.wait(60)


def look(page: Any, name: str) -> None:
    """Check a page by axe at two widths, light and dark; nothing runs over the edge."""
    from axe_playwright_python.sync_playwright import Axe

    page.wait_for_load_state("networkidle")
    for width in (390, 1280):
        page.set_viewport_size({"width": width, "height": 900})
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            page.wait_for_timeout(400)
            if SHOTS:
                page.screenshot(path=f"{SHOTS}/{name}-{width}-{scheme}.png", full_page=True)
            found = Axe().run(page).response["violations"]
            assert not found, (
                name,
                width,
                scheme,
                [(o["id"], o["nodes"][0]["html"]) for o in found],
            )
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, (name, width, wide)


def release(page: Any, kind: str, epsilon: str, purpose: str) -> None:
    page.get_by_role("link", name="Make a release").click()
    page.get_by_label("Kind of release", exact=True).select_option(kind)
    if kind in ("density", "statistic"):
        page.get_by_label("age", exact=True).first.check()
    if kind == "statistic":
        page.get_by_label("Statistic", exact=True).select_option(label="Mean")
        page.get_by_role("group", name="For each").get_by_label("town").check()
    page.get_by_label("ε", exact=True).fill(epsilon)
    page.get_by_label("Purpose").fill(purpose)
    page.locator("#cost .notice").get_by_text("Largest ε that fits").wait_for()
    look(page, f"ask-{kind}")
    page.get_by_role("button", name="Fit and release").click()
    page.get_by_role("link", name="See the release").click()
    page.locator(".chart svg").first.wait_for()


def test_a_first_release_in_the_studio_by_the_page_alone(link: str, browser: Any) -> None:
    page, faults = browser.new_page(), list[str]()
    page.set_default_timeout(240_000)  # of a busy machine
    page.on("console", lambda line: faults.append(line.text) if line.type == "error" else None)
    start = time.monotonic()
    page.goto(link)
    page.get_by_label("Column to predict").wait_for()
    page.get_by_label("Column to predict").select_option("ill")
    page.get_by_role("button", name="Change").click()
    page.get_by_text("target", exact=True).wait_for()
    page.get_by_label("Largest possible age").fill("a hundred")
    page.get_by_role("button", name="Confirm and begin").click()
    page.get_by_text("is not a number").wait_for()
    assert page.get_by_label("Largest possible age").input_value() == "a hundred", "edits stay"
    page.get_by_label("Largest possible age").fill("120")
    page.get_by_label("Largest possible bmi").fill("60,5")
    page.get_by_label("Total ε").fill("6")
    page.get_by_label("Nobody has more than one row").check()
    faults.clear()  # the refused form
    look(page, "confirm")
    page.get_by_role("button", name="Confirm and begin").click()
    page.get_by_role("link", name="Make a release").wait_for()
    release(page, "fit", "1", "what makes people ill")
    assert time.monotonic() - start < 900
    look(page, "release-fit")
    box = page.locator(".chart svg path[aria-roledescription]").first.bounding_box()
    page.mouse.move(box["x"] + 5, box["y"] + 5)
    for kind, epsilon in (
        ("fit", "0,5"),
        ("fabricate", "1"),
        ("density", "0.5"),
        ("statistic", "0,1"),
    ):
        page.get_by_role("link", name="Data set", exact=True).click()
        release(page, kind, epsilon, f"a second look, {kind}")
        look(page, f"release-{kind}")
    page.get_by_role("link", name="Data set", exact=True).click()
    look(page, "dataset")
    for box in page.get_by_role("checkbox").all():
        box.check()
    page.get_by_role("button", name="Compare selected").click()
    page.locator(".chart svg").first.wait_for()
    look(page, "compare")
    for path in ("/jobs", "/audit", "/datasets/patients/dpia"):
        page.goto(link.split("/sign-in")[0] + path)
        look(page, path.strip("/").replace("/", "-"))
    report = page.goto(link.split("/sign-in")[0] + "/datasets/patients/report")
    assert report.ok
    assert not faults, faults


def test_a_studio_is_opened_by_its_link_alone(link: str, browser: Any) -> None:
    page = browser.new_context().new_page()
    page.goto(link.split("/sign-in")[0] + "/datasets/patients")
    page.get_by_text("Open the link").wait_for()
    look(page, "sign-in-studio")
    assert page.goto(link[:-3] + "abc").status == 401


def test_the_pages_of_a_team(fresh: House, browser: Any) -> None:
    """Static pages of the three roles, looked at as they are sent."""
    fresh.open(epsilon=6.0)
    released, waiting = (
        fresh.done(kind="statistic", estimator=None, by=["town"], epsilon=0.1),
        fresh.done(epsilon=3.5),
    )
    assert (released["state"], waiting["state"]) == ("released", "waiting")
    shown = {
        "olga": ["/", "/datasets/patients", "/jobs", f"/jobs/{waiting['id']}", "/audit"],
        "ada": ["/", "/datasets/patients/ask", f"/releases/{released['id']}"],
    }
    for who, paths in shown.items():
        person, page = Browser(fresh, fresh.tokens[who]), browser.new_page()

        def answer(route: Any, _: Any, person: Any = person) -> None:
            if route.request.method != "GET":
                route.abort()
                return
            path = route.request.url.removeprefix("http://test")
            found = person.send("GET", path)
            route.fulfill(status=found.status_code, headers=dict(found.headers), body=found.content)

        page.route("**/*", answer)
        for place, path in enumerate(paths):
            page.goto(f"http://test{path}")
            look(page, f"team-{who}-{place}")
        page.close()
