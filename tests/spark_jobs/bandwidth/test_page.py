"""The text of the bandwidth report."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from dumpfilter.analyse.report.measures import Audience
from dumpfilter.analyse.report.text import human_rate
from dumpfilter.base.printable import visible
from dumpfilter.spark_jobs.bandwidth.report import render_report, savings_bars
from dumpfilter.spark_jobs.bandwidth.results import Figures, Results, about_nothing, with_totals
from tests.spark_jobs.bandwidth.made_results import CASES, HOSTILE, made_results, with_names


class Elements(HTMLParser):
    """The elements of a page without their texts: tags, and names of attributes."""

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


def test_the_other_readers_are_another_way() -> None:
    """The page leads with the readers whom the report is for. The others are among the other ways, if they can be."""
    for audience in Audience:
        results = made_results(slaves=3, tables=4, hours=0.2, audience=audience)
        page = render_report(results)
        first, others = page.split("<summary>Other ways</summary>")
        replicas, slaves = results.totals.of_replicas, results.totals.of_slaves
        assert replicas is not None
        lead, other = (replicas, slaves) if audience is Audience.REPLICAS else (slaves, replicas)
        assert f'<span class="figure"><data value="{lead.filter}"' in first
        assert f'<span class="figure"><data value="{other.filter}"' in others
    without = tuple(one.model_copy(update={"real_replica": None}) for one in results.slaves)
    made = with_totals(results.model_copy(update={"slaves": without, "audience": Audience.SLAVES}))
    assert "Filter on the master, real replicas" not in render_report(made)


def test_three_ways_side_by_side() -> None:
    page = render_report(CASES["usual"])
    first, _ = page.split("<summary>Other ways</summary>")
    assert first.count('<li><span class="name">') == 3
    savings = page.split('<section id="slaves">')[1].split('<ul class="bars"')[0]
    assert savings.count("<li>") == 3
    assert "CPU" not in page


def test_upper_bounds_are_marked() -> None:
    results = CASES["one"]
    (slave,) = results.slaves
    assert slave.real_replica is not None
    shown = f'<span class="figure">≤ <data value="{slave.real_replica.bytes}"'
    bound = slave.real_replica.model_copy(update={"is_upper_bound": True})
    bounded = (slave.model_copy(update={"real_replica": bound}),)
    page = render_report(with_totals(results.model_copy(update={"slaves": bounded})))
    assert shown in page
    assert "at most " in page
    assert shown not in render_report(results)


def test_a_misspelt_slave_does_not_lead_the_rules() -> None:
    results = with_a_broken_rule()
    broken = results.slaves[0]
    rules = render_report(results).split('<section id="rules">')[1].split("</section>")[0]
    names = re.findall(r'<th scope="row"><bdi>(.*?)</bdi>', rules)
    assert broken.rule_savings
    assert names[-len(broken.rule_savings) :] == [broken.name] * len(broken.rule_savings)
    assert names[0] != broken.name


def test_bytes_over_time() -> None:
    results = CASES["usual"]
    page = render_report(results).split('<section id="time">')[1].split("</section>")[0]
    for over in results.over_time:
        part = page.split(f"by {over.by.value} over time</summary>")[1].split("</details>")[0]
        assert part.count("<tr>") == 1 + len(over.periods)
        for period in over.periods:
            assert f'<data value="{sum(period.bytes.values())}"' in part
            assert f'<data value="{period.bytes[over.names[0]]}"' in part


def test_headline() -> None:
    results = CASES["usual"]
    whole, sent = results.totals.bytes.no_filter, results.totals.bytes.filter
    page = render_report(results)
    tiles = re.findall(r'<dd><data value="(\d+)"', page)
    assert tiles == [str(whole), str(sent)]
    assert f"<dd>{(whole - sent) / whole * 100:.1f}".removesuffix(".0") + " %</dd>" in page
    peak = max(map(sum, zip(*results.series.slaves.values(), strict=True))) / results.bucket_seconds
    assert f"<dd>{human_rate(peak)}</dd>" in page
    for slave in results.slaves:
        assert f"{slave.master_side.bytes:,}</td>" in page
        if slave.real_replica:
            for name in ("bytes", "bytes_gtid", "bytes_from_source"):
                assert f"{getattr(slave.real_replica, name):,}</td>" in page
    for table in results.tables:
        assert f"{table.bytes:,}</td>" in page


def with_a_broken_rule() -> Results:
    """Return results with a slave to which nothing passes, because its rule names no database of the set."""
    results = made_results(slaves=3, tables=4, hours=0.2, troubles=False)
    broken, *others = results.slaves
    text = "comma: --replicate-do-db=shop,hr: a comma does not separate names."
    broken = broken.model_copy(
        update={
            "master_side": Figures(bytes=75, events=1, transactions=0),
            "nothing_passes": True,
            "warnings": (text,),
        }
    )
    made = results.model_copy(
        update={"slaves": (broken, *others), "warnings": (f"slave {broken.name}: {text}",)}
    )
    return with_totals(made)


def test_a_slave_to_which_nothing_passes_is_no_success() -> None:
    results = with_a_broken_rule()
    broken, *_ = results.slaves
    bars = savings_bars(results, 9)
    assert bars is not None
    assert [row.name for row in bars.rows][-1] == broken.name
    assert bars.rows[-1].text == "nothing passes"
    assert bars.rows[-1].warning == broken.warnings[0]
    (remark,) = about_nothing(results.slaves)
    assert broken.name in remark
    assert "leave this slave out" in remark
    assert remark in results.remarks


def test_sums_leave_out_a_slave_to_which_nothing_passes() -> None:
    results = with_a_broken_rule()
    _, *others = results.slaves
    alone = with_totals(
        results.model_copy(
            update={
                "slaves": tuple(others),
                "series": results.series.model_copy(
                    update={"slaves": {one.name: results.series.slaves[one.name] for one in others}}
                ),
            }
        )
    )
    ours, theirs = (
        re.sub(r"(?s).*<dl class=\"tiles\">(.*?)</dl>.*", r"\1", render_report(one))
        for one in (results, alone)
    )
    assert ours == theirs
    assert "Together, the other 2 real replicas are sent" in render_report(results)
    assert (results.totals.slaves, results.totals.slaves_left_out) == (2, 1)
    assert results.totals.model_copy(update={"slaves_left_out": 0}) == alone.totals


def test_a_page_of_slaves_to_which_nothing_passes() -> None:
    results = with_a_broken_rule()
    broken = with_totals(results.model_copy(update={"slaves": results.slaves[:1]}))
    assert broken.totals.slaves == broken.totals.bytes.no_filter == broken.totals.saved.filter == 0
    assert "No row and no statement on a table passes the filter of the slave." in render_report(broken)


def test_warnings_are_marked_where_the_slave_is_shown() -> None:
    results = with_a_broken_rule()
    page = render_report(results)
    assert f'<p class="warning" role="note">{about_nothing(results.slaves)[0]}</p>' in page
    flag = f'<a class="flag" href="#warnings" data-tip="{results.slaves[0].warnings[0]}"'
    assert page.count(flag) == 1 + len(results.slaves[0].rule_savings)
    assert f'<small class="flag">{results.slaves[0].warnings[0]}</small>' in page
    assert '<a href="#warnings">' in page
    assert '<h3 id="warnings">' in page
