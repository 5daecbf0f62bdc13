"""The bandwidth report: its figures against the results, and the page in a real browser."""

from __future__ import annotations

import doctest
import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from playwright.sync_api import Browser, Page

from dumpfilter.printable import visible
from dumpfilter.spark_jobs.bandwidth.report import figures, render_report, text
from dumpfilter.spark_jobs.bandwidth.report.text import human_bytes, human_rate, shorten
from dumpfilter.spark_jobs.bandwidth.results import Results
from tests.spark_jobs.browser import chromium
from tests.spark_jobs.made_results import empty_results, made_results

pytestmark = pytest.mark.xdist_group("chromium")

HOSTILE = [
    "<img src=x onerror=window.pwned=1>",
    "</script><script>window.pwned=1</script>",
    "<b>bold</b><br><sub>x</sub>",
    '<a href="javascript:window.pwned=1">go</a>',
    "&lt;i&gt;&amp;",
    "\u2028\u2029\n\r\t\0",
    "\u202egnp.exe",
    "\udc80 not UTF-8",
    "var(--page)",
    "2024-01-01",
    "1e5",
    "%{y} $x^2$ {{ 7 * 7 }} {% raw %}",
    "__proto__",
    "\"'`;--",
    "x" * 300,
    "",
]


def with_names(results: Results, names: list[str]) -> Results:
    """The same results with ``names`` for the tables, the slaves and whatever else has a name, as far as they go."""
    table = dict(zip([t.name for t in results.tables], names, strict=False))
    slave = dict(zip([s.name for s in results.slaves], names, strict=False))
    plain: dict[str, Any] = json.loads(results.model_dump_json())
    for one in plain["tables"]:
        one["name"] = table.get(one["name"], one["name"])
    for one in plain["slaves"]:
        one["name"] = slave.get(one["name"], one["name"])
        one["split_sets"] = names[: len(one["split_sets"])]
        one["rules"] = (names * 9)[: len(one["rules"])]
        for rule, name in zip(one["rule_savings"], names * 9, strict=False):
            rule["rule"] = name
        for part in one["tables"]:
            part["table"] = table.get(part["table"], part["table"])
    plain["series"]["slaves"] = {slave.get(k, k): v for k, v in plain["series"]["slaves"].items()}
    for one in plain["skipped"]:
        one["file"] = one["reason"] = names[0]
    plain["warnings"] = [names[0]] * len(plain["warnings"])
    plain["source"]["files"] = (names * 9)[: len(plain["source"]["files"])]
    plain["source"]["server_version"] = names[0]
    return Results.model_validate(plain)


CASES = {
    "usual": made_results(),
    "many": made_results(slaves=100, tables=1000, hours=40, bucket=600),
    "one": made_results(slaves=1, tables=1, hours=1 / 60, rules=False, troubles=False),
    "empty": empty_results(),
    "no slaves": empty_results(0),
    "hostile": with_names(made_results(slaves=17, tables=20, hours=0.5), HOSTILE),
}

# --- figures


def drawn(plot: figures.Plot | None) -> dict[str, Any]:
    """The figure as plotly's own schema takes it; it raises on what the schema does not have."""
    assert plot
    coloured = json.loads(re.sub(r"var\(--[a-z0-9-]+\)", "#123456", json.dumps(plot.figure)))
    for layout in (coloured["layout"], coloured["narrow"]):
        go.Figure(coloured["data"], layout)
    return plot.figure


def test_texts() -> None:
    for module in (text, figures):
        assert doctest.testmod(module).failed == 0
        assert doctest.testmod(module).attempted > 0


@given(st.integers(0, 2**63))
def test_human_bytes_are_right_to_half_a_percent(size: int) -> None:
    number, unit = human_bytes(size).split()
    power = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"].index(unit)
    assert math.isclose(float(number) * 1024**power, size, rel_tol=0.006)
    assert len(number.replace(".", "")) <= 4


@given(st.integers(0, 2**50), st.integers(1, 8))
def test_ticks_are_few_and_within(top: int, most: int) -> None:
    ticks = figures.byte_ticks(top, most)
    assert ticks[0] == 0
    assert ticks[-1] <= top
    assert len(ticks) <= most + 1
    assert top < most or len(ticks) > most // 2


@given(st.integers(1, 10**10), st.integers(1, 10**6))
def test_steps_are_buckets_and_few_enough(seconds: int, bucket: int) -> None:
    width = figures.step_width(seconds, bucket)
    assert width % bucket == 0
    assert seconds <= width * figures.MOST_POINTS or width == bucket


@pytest.mark.parametrize("results", CASES.values(), ids=CASES)
def test_savings_are_the_slaves(results: Results) -> None:
    plot = figures.savings_plot(results)
    if not sum(s.no_filter.bytes for s in results.slaves):
        assert plot is None
        return
    figure = drawn(plot)
    slaves = sorted(results.slaves, key=lambda s: (s.master_side.bytes - s.no_filter.bytes, s.name))
    shown = len(slaves) if len(slaves) <= figures.MOST_SLAVES + 1 else figures.MOST_SLAVES
    bars = [trace["x"] for trace in figure["data"]]
    assert [x[:shown] for x in bars] == [
        [s.no_filter.bytes for s in slaves[:shown]],
        [s.master_side.bytes for s in slaves[:shown]],
        [s.compressed for s in slaves[:shown]],
        [s.applied.bytes for s in slaves[:shown]],
        [s.split for s in slaves[:shown]],
    ]
    others = slaves[shown:]
    rest = [] if not others else [sum(s.master_side.bytes for s in others) / len(others)]
    assert bars[1][shown:] == rest


@pytest.mark.parametrize("results", CASES.values(), ids=CASES)
def test_curves_hold_all_bytes(results: Results) -> None:
    time = figures.time_plot(results)
    if not results.bucket_starts:
        assert time is None
        return
    assert time
    figure = drawn(time.plot)
    slaves = sorted(results.slaves, key=lambda s: s.name)
    whole = sum(results.series.no_filter)
    each = [sum(results.series.slaves[s.name]) for s in slaves]
    expected = [(whole * len(slaves), sum(each))] + [(whole, size) for size in each if len(slaves) > 1]
    assert len(time.choices) == len(expected) == 1 + len(time.names)
    for choice, sums in zip(time.choices, expected, strict=True):
        for trace, size in zip(choice["data"], sums, strict=False):
            *rates, end = trace["y"]
            assert end == rates[-1]
            assert len(rates) <= figures.MOST_POINTS + 1
            assert sum(rates) * time.width == pytest.approx(size, abs=0.05 * time.width * len(rates))
    for choice, slave in zip(time.choices[1:], slaves, strict=False):
        assert slave.peak
        assert slave.peak_no_filter
        peaks = [slave.peak_no_filter, slave.peak]
        assert choice["data"][2]["y"] == [peak.bytes_per_second for peak in peaks]
        middle = results.bucket_seconds // 2
        assert choice["data"][2]["x"] == [(peak.start + middle) * 1000 for peak in peaks]
    assert figure["data"][0]["x0"] // 1000 <= results.bucket_starts[0]


def test_of_very_many_slaves_those_that_are_sent_most_can_be_chosen() -> None:
    results = made_results(slaves=figures.MOST_CHOICES + 5, tables=10, hours=0.1)
    time = figures.time_plot(results)
    assert time
    slaves = sorted(results.slaves, key=lambda s: (-s.master_side.bytes, s.name))
    assert time.names == sorted(s.name for s in slaves[: figures.MOST_CHOICES])
    assert len(time.choices) == 1 + len(time.names)
    whole = sum(results.series.no_filter) * len(slaves)
    assert sum(time.choices[0]["data"][0]["y"][:-1]) * time.width == pytest.approx(whole, rel=1e-3)


def test_gaps_between_buckets_are_drawn_as_nothing() -> None:
    results = made_results(slaves=2, tables=5, hours=1)
    plain = json.loads(results.model_dump_json())
    keep = [0, 1, 30, 59]
    plain["bucket_starts"] = [plain["bucket_starts"][i] for i in keep]
    plain["series"]["no_filter"] = [6000, 12000, 600, 60]
    plain["series"]["slaves"] = {name: [60, 0, 0, 0] for name in plain["series"]["slaves"]}
    time = figures.time_plot(Results.model_validate(plain))
    assert time
    nothing = [0.0] * 28
    assert time.choices[1]["data"][0]["y"] == [100.0, 200.0, *nothing, 10.0, *nothing, 1.0, 1.0]
    assert time.choices[0]["data"][1]["y"][:2] == [2.0, 0.0]


@pytest.mark.parametrize("results", CASES.values(), ids=CASES)
def test_tables_add_up_to_all(results: Results) -> None:
    plot = figures.tables_plot(results)
    if not results.tables:
        assert plot is None
        return
    so_far, shares = (trace["x"] for trace in drawn(plot)["data"])
    whole = sum(t.bytes for t in results.tables)
    assert shares[0] == results.tables[0].bytes / whole
    assert sum(shares) == pytest.approx(1)
    assert so_far == pytest.approx([sum(shares[: i + 1]) for i in range(len(shares))])


@pytest.mark.parametrize("results", CASES.values(), ids=CASES)
def test_heat_map_cells(results: Results) -> None:
    plot = figures.heat_map(results)
    if not any(s.tables for s in results.slaves):
        assert plot is None
        return
    cells = drawn(plot)["data"][0]["z"]
    slaves = sorted(results.slaves, key=lambda s: (-s.master_side.bytes, s.name))
    for table, line in zip(results.tables[: figures.MOST_ROWS], cells, strict=False):
        for slave, cell in zip(slaves[: figures.MOST_COLUMNS], line, strict=False):
            size = {part.table: part.bytes for part in slave.tables}.get(table.name)
            assert (size is None and cell is None) or math.exp(cell) == pytest.approx(size)
    if len(slaves) > figures.MOST_COLUMNS + 1:
        rest = slaves[figures.MOST_COLUMNS :]
        mean = sum(p.bytes for s in rest for p in s.tables if p.table == results.tables[0].name) / len(rest)
        assert math.exp(cells[0][-1]) == pytest.approx(mean)


@pytest.mark.parametrize("results", CASES.values(), ids=CASES)
def test_cost_is_stacked(results: Results) -> None:
    scan, decide, copy = drawn(figures.cost_plot(results))["data"]
    assert (scan["x"][0], decide["x"][0]) == (results.cost.scan_seconds, results.cost.decide_seconds)
    assert decide["base"][0] == scan["x"][0]
    assert copy["x"][1] == results.cost.unfiltered_seconds


# --- the page's text


class Elements(HTMLParser):
    """The page's elements without what can be any text: tags and the names of their attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[Any] = []
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, [name for name, _ in attrs]))

    def handle_endtag(self, tag: str) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


SMALL = made_results(slaves=3, tables=4, hours=0.2)
PLAIN = Elements(render_report(SMALL)).tags


@settings(max_examples=15)
@given(
    st.lists(
        st.text(st.characters(codec=None), max_size=20) | st.sampled_from(HOSTILE), min_size=4, unique=True
    )
)
def test_names_are_only_text(names: list[str]) -> None:
    page = Elements(render_report(with_names(SMALL, names)).encode().decode())
    assert page.tags == PLAIN
    shown = "".join(page.texts)
    assert all(visible(name) in shown for name in names[:3])


def test_headline() -> None:
    results = CASES["usual"]
    whole = sum(s.no_filter.bytes for s in results.slaves)
    sent = sum(s.master_side.bytes for s in results.slaves)
    page = render_report(results)
    tiles = re.findall(r'<dd><data value="(\d+)"', page)
    assert tiles == [str(whole), str(sent)]
    assert f"<dd>{(whole - sent) / whole * 100:.1f}".removesuffix(".0") + " %</dd>" in page
    peak = max(map(sum, zip(*results.series.slaves.values(), strict=True))) / results.bucket_seconds
    assert f"<dd>{human_rate(peak)}</dd>" in page
    for slave in results.slaves:
        assert f"{slave.master_side.bytes:,}</td>" in page
    for table in results.tables:
        assert f"{table.bytes:,}</td>" in page


# --- the page in a browser


@dataclass
class Visit:
    """A page that was opened, and all it complained of or asked for."""

    page: Page
    address: str
    complaints: list[str]
    requests: list[str]

    def overflow(self) -> int:
        width: int = self.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        return width


MARKS = ".barlayer path, .scatterlayer path.js-line, .scatterlayer path.point, .heatmaplayer image"
CUT = """(plot) => {
  const room = plot.getBoundingClientRect();
  return [...plot.querySelectorAll("svg text")].filter((text) => {
    const box = text.getBoundingClientRect();
    return box.width && (box.left < room.left - 1 || box.right > room.right + 1 ||
                         box.top < room.top - 1 || box.bottom > room.bottom + 1);
  }).map((text) => text.textContent);
}"""
SETTLED = """new Promise((done) => {
  const settled = ({ clientWidth, _fullLayout }) => clientWidth === _fullLayout.width;
  const look = () => [...document.querySelectorAll(".plot")].every(settled) ? done() : requestAnimationFrame(look);
  requestAnimationFrame(look);
})"""
PLACES = """[...document.querySelectorAll("h2, .plot, summary, footer")].map((one) => {
  const { left, top, width, height } = one.getBoundingClientRect();
  return [one.id || one.textContent.slice(0, 30), left + scrollX, top + scrollY, width, height];
})"""


class Visitor:
    """Opens each report once and keeps it open: a test says which width and scheme it wants."""

    def __init__(self, browser: Browser, directory: Path) -> None:
        self._browser = browser
        self._directory = directory
        self.visits: dict[str, Visit] = {}

    def __call__(self, name: str, width: int = 1280, scheme: Any = "light") -> Visit:
        if name not in self.visits:
            file = self._directory / f"{name}.html"
            file.write_text(render_report(CASES[name]), encoding="utf-8")
            page = self._browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
            visit = self.visits[name] = Visit(page, file.as_uri(), [], [])
            page.on("console", lambda message: visit.complaints.append(f"{message.type}: {message.text}"))
            page.on("pageerror", lambda error: visit.complaints.append(str(error)))
            page.on("request", lambda request: visit.requests.append(request.url))
            page.goto(visit.address)
        page = self.visits[name].page
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme)
        page.evaluate(SETTLED)
        return self.visits[name]

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
        plots = opened.page.locator(".plot").all()
        assert len(plots) == (0 if name in ("empty", "no slaves") else 5)
        assert opened.overflow() <= 0
        for plot in plots:
            assert plot.locator(MARKS).count() > 0
            assert plot.evaluate(CUT) == []
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
    body = page.locator("body").evaluate(style, "backgroundColor")
    bar = page.locator("#plot-savings .barlayer path").first.evaluate(style, "fill")
    label = page.locator("#plot-time .xtick text").first.evaluate(style, "fill")
    heat = page.evaluate("document.getElementById('plot-heat').data[0].colorscale")
    return [body, bar, label, str(heat)]


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
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert _colours(page) == light
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert _colours(page) == dark
    assert page.pdf(format="A4").startswith(b"%PDF")


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

    tables = [shorten(visible(t.name), 32) for t in results.tables[: figures.MOST_TABLES]]
    slaves = [visible(s.name) for s in results.slaves]
    # plotly draws no text that is empty or blank
    assert texts("#plot-tables .ytick text")[: len(tables) - 1] == [name for name in tables if name.strip()]
    assert set(texts("#plot-savings .ytick text")) == {shorten(name, 32) for name in slaves} - {""}
    assert set(texts("#time-slave option")) == {"all slaves together", *slaves}
    assert set(texts("#slaves tbody th bdi")) == set(slaves)
    assert set(texts("#tables tbody th bdi")) == {visible(t.name) for t in results.tables}


def test_a_slave_can_be_chosen_with_the_keyboard(visit: Visitor) -> None:
    results = CASES["usual"]
    page = visit("usual").page
    time = figures.time_plot(results)
    assert time
    page.locator("#time-slave").focus()
    for step in (1, 2):
        page.keyboard.press("ArrowDown")
        curve = page.evaluate("document.getElementById('plot-time').data[1]")
        assert curve["y"] == time.choices[step]["data"][1]["y"]
        assert curve["text"] == [human_rate(value) for value in curve["y"]]


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
