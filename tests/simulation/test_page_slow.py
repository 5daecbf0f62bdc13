"""The page of a simulation in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dumpfilter.simulation.page import render_page
from tests.analyse.report.browser import chromium
from tests.simulation.made_results import CASES
from tests.slave.driven import wait_until

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext

pytestmark = pytest.mark.xdist_group("chromium")

SETTLED = """[...document.querySelectorAll(".plot")].every(
  (plot) => plot.clientWidth === plot.querySelector("svg").viewBox.baseVal.width)"""
PLOTS = {"usual": 3, "hostile": 2, "empty": 0}
"""The number of plots on each page."""


@pytest.fixture(scope="module")
def context() -> Iterator[BrowserContext]:
    with chromium() as browser:
        yield browser.new_context(viewport={"width": 1280, "height": 900})


@pytest.mark.parametrize("name", PLOTS)
def test_draws_everything_at_any_width_without_a_request(
    context: BrowserContext, tmp_path: Path, name: str
) -> None:
    file = tmp_path / "page.html"
    file.write_text(render_page(CASES[name]()), "utf-8")
    page = context.new_page()
    complaints: list[str] = []
    requests: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(file.as_uri())
    for width in (1280, 400):
        for scheme in ("light", "dark"):
            page.set_viewport_size({"width": width, "height": 900})
            page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
            # wait_for_function would evaluate a text in the page, which the page's policy forbids.
            wait_until(lambda: page.evaluate(SETTLED))
            assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
            assert page.locator(".plot path.line, .bars .track i").count() >= PLOTS[name]
    assert page.locator(".plot, .bars").count() == PLOTS[name]
    assert page.evaluate("window.pwned") is None
    assert complaints == []
    assert requests == [file.as_uri()]
    page.close()


def test_a_reader_can_type_a_price_and_choose_a_node(context: BrowserContext, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    # The traffic of a month, and with it a price, needs an hour of binlog.
    results = CASES["usual"]()
    sources = tuple(one.model_copy(update={"active_seconds": 7200}) for one in results.sources)
    results = results.model_copy(update={"sources": sources})
    file.write_text(render_page(results), "utf-8")
    page = context.new_page()
    page.goto(file.as_uri())
    cell = page.locator("[data-gigabytes]").first
    gigabytes = float(cell.get_attribute("data-gigabytes") or "nan")
    page.locator("#price").fill("2.5")
    assert float((cell.text_content() or "").replace(",", "")) == pytest.approx(2.5 * gigabytes, abs=0.01)
    page.locator("#price").fill("")
    assert cell.text_content() == "–"
    line = page.locator("#plot-lag .line").first
    before = line.get_attribute("d")
    page.locator("#lag-choice").focus()
    page.keyboard.press("ArrowDown")
    assert line.get_attribute("d") != before
    page.close()
