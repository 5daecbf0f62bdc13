"""The bandwidth report in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dumpfilter.analyse.report.text import human_rate, human_rate_of_bits
from dumpfilter.base.printable import visible
from dumpfilter.spark_jobs.bandwidth.report import COLOURS, MOST_TABLES, render_report
from tests.analyse.report.browser import chromium
from tests.spark_jobs.bandwidth.made_results import CASES

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.xdist_group("chromium")


@dataclass
class Visit:
    """An open page, with its error messages and its requests."""

    page: Page
    address: str
    complaints: list[str]
    requests: list[str]

    def overflow(self) -> int:
        width: int = self.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        return width


CUT = """(figure) => {
  const room = figure.getBoundingClientRect();
  return [...figure.querySelectorAll("svg text, .figure")].filter((text) => {
    const box = text.getBoundingClientRect();
    return box.width && (box.left < room.left - 1 || box.right > room.right + 1 ||
                         box.top < room.top - 1 || box.bottom > room.bottom + 1);
  }).map((text) => text.textContent);
}"""
SETTLED = """new Promise((done) => {
  const settled = (plot) => plot.clientWidth === plot.querySelector("svg").viewBox.baseVal.width;
  const look = () => [...document.querySelectorAll(".plot")].every(settled) ? done() : requestAnimationFrame(look);
  requestAnimationFrame(look);
})"""
PLACES = """[...document.querySelectorAll("h2, .plot, .bars, .heat, summary, footer")].map((one) => {
  const { left, top, width, height } = one.getBoundingClientRect();
  return [one.id || one.textContent.slice(0, 30), left + scrollX, top + scrollY, width, height];
})"""


class Visitor:
    """Opens each report once and keeps the page open. Each test sets its width and colour scheme."""

    def __init__(self, browser: Browser, directory: Path) -> None:
        self._browser = browser
        # The pages of a context share a process, since the start of one takes a second.
        self._context = browser.new_context()
        self._directory = directory
        self.visits: dict[str, Visit] = {}

    def __call__(self, name: str, width: int = 1280, scheme: Any = "light") -> Visit:
        is_new = name not in self.visits
        if is_new:
            file = self._directory / f"{name}.html"
            file.write_text(render_report(CASES[name]), encoding="utf-8")
            page = self._context.new_page()
            visit = self.visits[name] = Visit(page, file.as_uri(), [], [])
            page.on("console", lambda message: visit.complaints.append(f"{message.type}: {message.text}"))
            page.on("pageerror", lambda error: visit.complaints.append(str(error)))
            page.on("request", lambda request: visit.requests.append(request.url))
        found = self.visits[name]
        found.page.set_viewport_size({"width": width, "height": 900})
        found.page.emulate_media(color_scheme=scheme)
        if is_new:
            found.page.goto(found.address)
        found.page.evaluate(SETTLED)
        return found

    def without_scripts(self, name: str, width: int, question: str) -> Any:
        context = self._browser.new_context(
            viewport={"width": width, "height": 900}, java_script_enabled=False, color_scheme="light"
        )
        page = context.new_page()
        page.goto(self.visits[name].address)
        answer = page.evaluate(question)
        context.close()
        return answer


@pytest.fixture(scope="module")
def visitor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visitor]:
    with chromium() as browser:
        yield Visitor(browser, tmp_path_factory.mktemp("reports"))


@pytest.fixture
def visit(visitor: Visitor) -> Iterator[Visitor]:
    yield visitor
    for one in visitor.visits.values():
        assert one.complaints == []
        assert set(one.requests) == {one.address}


@pytest.mark.parametrize("name", [name for name in CASES if name != "one"])
def test_draws_everything_at_any_width(visit: Visitor, name: str) -> None:
    for width in (1280, 400):
        opened = visit(name, width)
        figures = opened.page.locator(".plot, .bars").all()
        assert len(figures) == (0 if name in ("empty", "no slaves") else 3)
        assert opened.page.locator(".heat").count() == bool(figures)
        assert opened.overflow() <= 0
        for figure in figures:
            assert figure.locator(".track i, path.line").count() > 0
            assert figure.evaluate(CUT) == []
    for details in opened.page.locator("summary").all():
        details.press("Enter")
    assert opened.page.locator("details:not([open])").count() == 0
    assert opened.overflow() <= 0


@pytest.mark.parametrize("width", [400])
def test_nothing_moves_when_the_plots_are_drawn(visit: Visitor, width: int) -> None:
    page = visit("usual", width).page
    page.locator("details[open] summary").evaluate_all("all => all.forEach((one) => one.click())")
    assert page.evaluate(PLACES) == visit.without_scripts("usual", width, PLACES)


def _colours(page: Page) -> list[str]:
    style = "(e, name) => getComputedStyle(e)[name]"
    return [
        page.locator(selector).first.evaluate(style, name)
        for selector, name in (
            ("body", "backgroundColor"),
            ("#slaves .bars .track i", "backgroundColor"),
            ("#plot-time .xtick", "fill"),
            ("#plot-time .line", "stroke"),
            (".heat td[class]", "backgroundColor"),
        )
    ]


def test_colours_follow_the_scheme_also_when_it_changes(visit: Visitor) -> None:
    light, dark = (_colours(visit("one", scheme=scheme).page) for scheme in ("light", "dark"))
    assert all(a != b for a, b in zip(light, dark, strict=True))
    page = visit("one", scheme="dark").page
    page.reload()
    assert _colours(page) == dark
    assert _colours(visit("one", scheme="light").page) == light


def test_paper_is_light_and_the_screen_is_as_before(visit: Visitor) -> None:
    light, dark = (_colours(visit("usual", scheme=scheme).page) for scheme in ("light", "dark"))
    page = visit("usual", scheme="dark").page
    page.emulate_media(media="print")
    on_paper = _colours(page)
    page.emulate_media(media="screen")
    # A redrawn plot has other elements, and an element that is gone has no colour.
    page.evaluate(SETTLED)
    assert on_paper[1:] == light[1:]
    assert _colours(page) == dark
    assert page.pdf(format="A4").startswith(b"%PDF")


@pytest.mark.parametrize("name", ["usual", "many", "one", "hostile"])
def test_times_on_the_axis_differ_and_do_not_overlap(visit: Visitor, name: str) -> None:
    for width in (1280, 700, 400):
        page = visit(name, width).page
        boxes = page.locator("#plot-time text.xtick").evaluate_all(
            "all => all.map((one) => { const b = one.getBoundingClientRect();"
            " return [b.top, b.left, b.right, one.textContent]; })"
        )
        assert boxes
        for (top, _, right, text), (next_top, left, _, next_text) in pairwise(sorted(boxes)):
            assert abs(top - next_top) > 1 or (left >= right and text != next_text)


def test_the_legend_has_an_entry_for_each_curve(visit: Visitor) -> None:
    """A slave without rules has one curve, since its filter drops nothing."""
    for name in ("usual", "one"):
        page = visit(name).page
        curves = page.locator("#plot-time .line").count()
        assert (
            page.locator("[data-legend=time] li:visible").count() == curves == (2 if name == "usual" else 1)
        )
    assert page.locator("[data-legend=time] .same").is_visible()


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast(visit: Visitor, scheme: str) -> None:
    """WCAG 2.2, AA: 4.5 for text, 3 for what a plot's marks are told by."""
    page = visit("usual", scheme=scheme).page

    def ratio(one: str, other: str) -> float:
        values = [
            page.evaluate(
                "n => getComputedStyle(document.documentElement).getPropertyValue(n).trim()", f"--{name}"
            )
            for name in (one, other)
        ]
        low, high = sorted(map(_luminance, values))
        return (high + 0.05) / (low + 0.05)

    texts = [(text, ground) for text in ("text", "muted", "link") for ground in ("page", "card")]
    texts += [("good", "card"), ("good", "good-card"), ("warn", "warn-card"), ("muted", "good-card")]
    marks = [
        ("master", "card"),
        ("whole-line", "card"),
        ("split", "card"),
        ("split", "whole"),
        ("applied", "whole"),
    ]
    texts += [(f"heat-text-{n}", f"heat-{n}") for n in range(COLOURS)]
    marks += [("master", "whole"), ("compressed", "master"), ("applied", "master"), ("master", "ghost")]
    assert {pair: ratio(*pair) for pair in texts if ratio(*pair) < 4.5} == {}
    assert {pair: ratio(*pair) for pair in marks if ratio(*pair) < (2 if "master" in pair else 3)} == {}


def test_hostile_names_are_shown_as_they_are(visit: Visitor) -> None:
    results = CASES["hostile"]
    page = visit("hostile", scheme="dark").page
    assert page.evaluate("window.pwned") is None
    assert page.locator("img, iframe, svg a, svg sub, svg tspan[style], section b, section sub").count() == 0
    assert page.locator("script").count() == 3

    def texts(selector: str) -> list[str]:
        return [(text or "").replace("\u00a0", " ") for text in page.locator(selector).all_text_contents()]

    slaves = {visible(s.name) for s in results.slaves}
    tables = [visible(t.name) for t in results.tables]
    assert texts("#tables .bars .name bdi")[: len(tables) - 1] == tables[:MOST_TABLES]
    assert set(texts("#slaves .bars .name bdi")) == slaves
    assert set(texts("#time-choice option")) == {"all slaves together", *slaves}
    assert set(texts("#slaves tbody th bdi")) == slaves
    assert set(texts("#tables tbody th bdi")) == set(tables)
    assert set(texts(".heat tbody th bdi")) == set(tables)
    assert set(texts(".heat thead bdi")) == slaves


def test_the_chart_can_be_changed_with_the_keyboard(visit: Visitor) -> None:
    page = visit("usual").page
    line = page.locator("#plot-time .line").nth(1)
    peak = page.locator("#plot-time text.mark").first
    seen = [line.get_attribute("d")]
    page.locator("#time-choice").focus()
    page.keyboard.press("ArrowDown")
    seen.append(line.get_attribute("d"))
    slave = next(
        one for one in CASES["usual"].slaves if one.name == page.locator("#time-choice").input_value()
    )
    assert slave.peak_no_filter
    rate = slave.peak_no_filter.bytes_per_second
    assert peak.text_content() == f"peak {human_rate(rate)}"
    page.locator("input[data-set=unit]").first.focus()
    page.keyboard.press("ArrowRight")
    assert peak.text_content() == f"peak {human_rate_of_bits(8 * rate)}"
    page.locator("input[data-set=scale]").first.focus()
    page.keyboard.press("ArrowRight")
    seen.append(line.get_attribute("d"))
    assert len(set(seen)) == 3
    page.locator("#plot-time").focus()
    page.keyboard.press("ArrowRight")
    first = page.locator("#plot-time .tip").text_content()
    page.keyboard.press("ArrowRight")
    assert "filter on the master" in (first or "")
    assert page.locator("#plot-time .tip").text_content() != first
    page.keyboard.press("Escape")
    assert page.locator("#plot-time .tip").count() == 0


@pytest.mark.parametrize("width", [1280, 400])
def test_no_peak_is_lost_on_few_pixels(visit: Visitor, width: int) -> None:
    """The highest point of the thin line is the mark of the busiest bucket, though many buckets share a pixel."""
    page = visit("usual", width).page
    page.reload()
    page.evaluate(SETTLED)
    tops = page.locator("#plot-time .envelope").evaluate_all("all => all.map((one) => one.getBBox().y)")
    marks = page.locator("#plot-time circle.mark").evaluate_all(
        "all => all.map((one) => one.cy.baseVal.value)"
    )
    assert len(tops) == len(marks) == 2
    assert tops == pytest.approx(marks, abs=0.2)


def test_a_pointer_shows_exact_bytes(visit: Visitor) -> None:
    page = visit("usual").page
    table = CASES["usual"].tables[0]
    page.locator(".heat tbody td[class]").first.hover()
    assert f"{table.bytes:,} bytes" in (page.locator(".tip.floating").text_content() or "")


def test_tables_can_be_sorted_with_the_keyboard(visit: Visitor) -> None:
    page = visit("usual").page
    head = page.locator("#rules thead button")
    rows = page.locator("#rules tbody tr th")
    names = rows.all_text_contents()
    head.nth(0).press("Enter")
    assert rows.all_text_contents() == sorted(names)
    assert page.locator("#rules th[aria-sort=ascending]").text_content() == "Slave"
    head.nth(2).press("Enter")
    savings = [
        int(str(cell.get_attribute("data-key"))) for cell in page.locator("#rules td:nth-child(3)").all()
    ]
    assert savings == sorted(savings, reverse=True)
    head.nth(2).press("Enter")
    again = [
        int(str(cell.get_attribute("data-key"))) for cell in page.locator("#rules td:nth-child(3)").all()
    ]
    assert again == savings[::-1]
