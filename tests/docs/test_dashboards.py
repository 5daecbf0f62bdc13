"""The dashboard and the alerts: each query names metrics and labels that a real master and a real slave have."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from dumpfilter.console.metrics import CommonCollector
from dumpfilter.console.sql.commands import parse_statement
from dumpfilter.master.console import MasterConsole
from dumpfilter.master.metrics import MasterCollector
from dumpfilter.master.process import StateDirectory
from dumpfilter.master.register import CounterBook
from dumpfilter.master.server import MasterServer
from dumpfilter.master.store import BinlogStore
from dumpfilter.master.who import Who
from dumpfilter.slave.process import SlaveCollector
from tests.docs.tutorial import ROOT
from tests.master.client import Client
from tests.master.replicas.serving import entry
from tests.slave.driven import Driven, driven, serving, wait_until

DASHBOARD = ROOT / "dashboards" / "dumpfilter.json"
ALERTS = ROOT / "dashboards" / "alerts.yml"
RECORDING = ROOT / "tests" / "oracle" / "data" / "oracle" / "mysql-row"

OF_PROMETHEUS = {"up": frozenset[str]()}
"""The metrics that Prometheus makes itself."""

TARGET_LABELS = frozenset({"job", "instance"})
"""The labels that Prometheus adds to each metric."""

WORDS = {
    "and",
    "or",
    "unless",
    "by",
    "without",
    "on",
    "ignoring",
    "group_left",
    "group_right",
    "offset",
    "bool",
}
FUNCTIONS = {
    *("sum", "min", "max", "topk", "rate", "increase", "histogram_quantile", "time", "last_over_time"),
}


class Used(NamedTuple):
    """A metric in a query, with the names of labels that the query demands of it."""

    metric: str
    labels: frozenset[str]


class Query(NamedTuple):
    """A query of a panel or of an alert."""

    where: str
    expr: str
    shown: frozenset[str]
    """The labels that the legend or the texts show."""


_TOKEN = re.compile(
    r"""(?P<string>"(?:[^"\\]|\\.)*")|(?P<range>\[[^\]]*\])|(?P<name>[a-zA-Z_:][\w:]*)|(?P<number>\d[\d.]*[a-z]*)|"""
    r"""(?P<operator>=~|!~|!=|==|<=|>=|[-+*/%^<>={}(),])|(?P<space>\s+)"""
)


def tokens_of(expr: str) -> list[str]:
    """Split a query. Strings and ranges are left out."""
    found, at = [], 0
    while at < len(expr):
        match = _TOKEN.match(expr, at)
        assert match is not None, f"{expr}: cannot be read at {expr[at:]}"
        at = match.end()
        if match.lastgroup not in ("space", "string", "range"):
            found.append(match[0])
    assert expr.count("(") == expr.count(")")
    assert expr.count("{") == expr.count("}")
    return found


def names_in(expr: str) -> tuple[list[Used], set[str]]:
    """Return the metrics of a query with the labels in their braces, and the labels of ``by`` and ``on``."""
    used: list[Used] = []
    grouping: set[str] = set()
    tokens = [*tokens_of(expr), "", ""]
    at = 0
    while at < len(tokens) - 2:
        token = tokens[at]
        if token in WORDS - {"and", "or", "unless", "offset", "bool"}:
            assert tokens[at + 1] == "("
            end = tokens.index(")", at)
            grouping |= {name for name in tokens[at + 2 : end] if name != ","}
            at = end
        elif re.match(r"[a-zA-Z_]", token) and token not in WORDS:
            if tokens[at + 1] == "(" or token in FUNCTIONS:
                assert token in FUNCTIONS, f"{expr}: unknown function {token}"
            else:
                labels: set[str] = set()
                if tokens[at + 1] == "{":
                    end = tokens.index("}", at)
                    labels = {name for name in tokens[at + 2 : end] if re.match(r"\w", name)}
                    at = end
                used.append(Used(token, frozenset(labels)))
        at += 1
    return used, grouping


def panel_queries() -> Iterator[Query]:
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        for target in panel.get("targets", []):
            shown = re.findall(r"{{(\w+)}}", target["legendFormat"])
            expr = target["expr"].replace("$__rate_interval", "5m").replace("$instance", ".*")
            yield Query(f"{panel['title']} {target['refId']}", expr, frozenset(shown))


def alerts() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load(ALERTS.read_text())["groups"]
    rules: list[dict[str, Any]] = group["rules"]
    return rules


def alert_queries() -> Iterator[Query]:
    for rule in alerts():
        shown = re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"])
        yield Query(rule["alert"], rule["expr"], frozenset(shown))


QUERIES = [*panel_queries(), *alert_queries()]


def _families(*collectors: Any) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield each series that the collectors have in Prometheus, with its labels."""
    collected = CollectorRegistry(auto_describe=False)
    for collector in collectors:
        collected.register(collector)
    for family in text_string_to_metric_families(generate_latest(collected).decode()):
        for sample in family.samples:
            yield sample.name, frozenset(sample.labels)


@pytest.fixture(scope="module")
def exposed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, frozenset[str]]:
    """Return the labels of each series of a real master and of a real slave whose I/O thread had an error."""
    directory = tmp_path_factory.mktemp("slave")
    with serving(RECORDING) as master, driven(directory / "s", "--replicate-do-db=shop") as slave:
        slave.follow(master)
        slave.sql("START REPLICA")
        slave.catch_up(master)
        found = dict(_families(CommonCollector("1.0"), master_collector(master)))
        master.stop()
        _wait_for_error(slave)
        found |= dict(_families(SlaveCollector(slave.slave)))
    return found | OF_PROMETHEUS


def master_collector(master: Any) -> Any:
    server: MasterServer = master._server
    assert isinstance(server.service.store, BinlogStore)
    return MasterCollector(server)


def _wait_for_error(slave: Driven) -> None:
    wait_until(lambda: slave.channel().io.failure)


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.where)
def test_queries_name_metrics_and_labels_that_exist(query: Query, exposed: dict[str, frozenset[str]]) -> None:
    used, grouping = names_in(query.expr)
    assert used
    all_labels: set[str] = set(TARGET_LABELS)
    for metric, labels in used:
        assert metric in exposed, f"{query.where}: there is no metric {metric}"
        known = exposed[metric] | TARGET_LABELS
        assert labels <= known, f"{query.where}: {metric} has no label {labels - known}"
        all_labels |= known
    assert grouping <= all_labels, f"{query.where}: no metric has the label {grouping - all_labels}"
    assert query.shown <= all_labels, f"{query.where}: no metric has the label {query.shown - all_labels}"


def test_a_label_that_a_query_sums_away_is_not_shown() -> None:
    for query in panel_queries():
        by = re.findall(r"\bby \(([^)]*)\)", query.expr)
        if by:
            kept = {name.strip() for group in by for name in group.split(",")}
            assert query.shown <= kept, query.where
        elif re.search(r"\bsum\(", query.expr):
            assert not query.shown, query.where


def test_every_metric_is_on_the_dashboard(exposed: dict[str, frozenset[str]]) -> None:
    shown = {used.metric for query in panel_queries() for used in names_in(query.expr)[0]}
    own = {
        name.removesuffix("_count").removesuffix("_sum") for name in exposed if name.startswith("dumpfilter_")
    }
    histograms = {name.removesuffix("_bucket") for name in own if name.endswith("_bucket")}
    missing = own - histograms - shown
    assert not missing


def test_the_variables_of_the_dashboard() -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    names = [variable["name"] for variable in dashboard["templating"]["list"]]
    assert names == ["datasource", "instance"]
    text = DASHBOARD.read_text()
    assert set(re.findall(r"\$\{?(\w+)", text)) == {"datasource", "instance", "__rate_interval", "__all"}
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        if panel["type"] != "row":
            assert panel["description"], panel["title"]
            assert panel["datasource"]["uid"] == "${datasource}"
    places = [panel["gridPos"] for panel in panels]
    cells = [
        (x, y)
        for place in places
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells)), "two panels overlap"
    assert max(x for x, _ in cells) < 24


def test_docs_say_what_to_do_for_each_alert() -> None:
    page = (ROOT / "docs" / "operating.md").read_text()
    rules = alerts()
    assert len(rules) == 5
    for rule in rules:
        assert f"### {rule['alert']}\n" in page
        assert rule["annotations"]["runbook"] == f"docs/operating.md#{rule['alert'].lower()}"
        assert rule["labels"]["severity"] in ("warning", "critical")


Series = dict[frozenset[tuple[str, str]], float]
"""The values of one metric at one moment, by labels."""


class Evaluation:
    """A query of an alert over the metrics of one scrape: selectors, comparisons, ``unless`` and ``or``."""

    def __init__(self, expr: str, metrics: dict[str, Series]) -> None:
        self._tokens = tokens_of(expr)
        self._metrics = metrics

    def result(self) -> Series:
        """Return the series for which the alert fires."""
        value = self._alternatives()
        assert not self._tokens, self._tokens
        return value

    def _take(self, token: str) -> bool:
        if self._tokens and self._tokens[0] == token:
            return bool(self._tokens.pop(0))
        return False

    def _alternatives(self) -> Series:
        value = self._exceptions()
        while self._take("or"):
            value = self._exceptions() | value
        return value

    def _exceptions(self) -> Series:
        value = self._comparison()
        while self._take("unless"):
            without = self._comparison()
            value = {labels: each for labels, each in value.items() if labels not in without}
        return value

    def _comparison(self) -> Series:
        if self._take("("):
            value = self._alternatives()
            assert self._take(")")
        else:
            value = self._metrics.get(self._tokens.pop(0), {})
        for operator, holds in (("==", float.__eq__), (">", float.__gt__)):
            if self._take(operator):
                bound = float(self._tokens.pop(0))
                return {labels: each for labels, each in value.items() if holds(each, bound)}
        return value


def scraped(collector: Any) -> dict[str, Series]:
    collected = CollectorRegistry(auto_describe=False)
    collected.register(collector)
    found: dict[str, Series] = {}
    for family in text_string_to_metric_families(generate_latest(collected).decode()):
        for sample in family.samples:
            found.setdefault(sample.name, {})[frozenset(sample.labels.items())] = float(sample.value)
    return found


def gone_slaves(server: MasterServer) -> list[tuple[str, str]]:
    """Return server id and user of each slave for which the alert DumpfilterSlaveGone fires."""
    (rule,) = (rule for rule in alerts() if rule["alert"] == "DumpfilterSlaveGone")
    fires = Evaluation(rule["expr"], scraped(MasterCollector(server))).result()
    return sorted((dict(labels)["server_id"], dict(labels)["user"]) for labels in fires)


def test_the_alert_fires_for_a_slave_that_does_not_come_back_after_a_restart(tmp_path: Path) -> None:
    def started() -> tuple[MasterServer, StateDirectory]:
        server = MasterServer(BinlogStore(RECORDING))
        directory = StateDirectory(tmp_path / "state")
        server.service.register.counters = CounterBook(directory.counters.load())
        server.start()
        directory.keep(server.service.register.counters, server.service.drains)
        return server, directory

    server, keeper = started()
    client = Client(server)
    # One slave stays, and another one reads to the end.
    staying = client.dump(client.register(server_id=101).slave_id, once=False)
    next(staying)
    list(client.dump(client.register(server_id=102).slave_id))
    assert gone_slaves(server) == []
    client.channel.close()
    server.stop(0)
    keeper.close()

    server, keeper = started()
    try:
        server.service.filters.take_over([entry("reporting", [])])
        assert gone_slaves(server) == [("0", "reporting"), ("101", "")]
        server.service.drains.drain(Who.of(user="reporting"))
        assert gone_slaves(server) == [("101", "")]
        MasterConsole(server.service).execute(parse_statement("UNREGISTER REPLICA 101"))
        assert gone_slaves(server) == []
    finally:
        server.stop(0)
        keeper.close()


def test_reasons_in_alerts_exist() -> None:
    from dumpfilter.master.measurements import Measurements

    for rule in alerts():
        for reasons in re.findall(r'reason=~"([^"]*)"', rule["expr"]):
            assert set(reasons.split("|")) <= set(Measurements().failures()), rule["alert"]


def test_a_query_with_a_wrong_name_is_found() -> None:
    used, grouping = names_in(
        'sum by (le, host) (rate(dumpfilter_x_bucket{instance=~".*", kind="a"}[5m])) > 0.9'
    )
    assert used == [Used("dumpfilter_x_bucket", frozenset({"instance", "kind"}))]
    assert grouping == {"le", "host"}
    with pytest.raises(AssertionError, match="unknown function avgg"):
        names_in("avgg(dumpfilter_x)")
    used, grouping = names_in("a / on (job) group_left (version) b and c == 0 or (up == 0)")
    assert [each.metric for each in used] == ["a", "b", "c", "up"]
    assert grouping == {"job", "version"}
