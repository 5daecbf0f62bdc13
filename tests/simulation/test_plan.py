from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.base.errors import OptionError
from dumpfilter.binlog.format import NameRules
from dumpfilter.filter.base import OriginFilter
from dumpfilter.simulation.plan import (
    Channel,
    Plan,
    Retries,
    Sender,
    plan_slaves,
    plan_topology,
    retries_of,
)
from dumpfilter.testbed.experiment import simulated
from dumpfilter.topology import make_topology, master, parse_string, server, slave
from dumpfilter.topology.links.shape import LinkShape, Outage
from dumpfilter.topology.slaves_file import load_slaves


def _plan(text: str) -> Plan:
    return plan_topology(parse_string(text))


def _channels(plan: Plan, name: str) -> tuple[Channel, ...]:
    return next(node.channels for node in plan.nodes if node.name == name)


def test_a_chain_is_sent_what_all_filters_before_it_pass() -> None:
    plan = _plan("m >> web[do-db=shop, rate=2mbit] >> tail[ignore-table=shop.log] >> end")
    (channel,) = _channels(plan, "end")
    assert [leg.link for leg in channel.legs] == ["m:web", "web:tail", "tail:end"]
    assert [leg.sender for leg in channel.legs] == [Sender.FILES, Sender.SLAVE, Sender.SLAVE]
    shop, log = ("replicate-do-db=shop",), ("replicate-ignore-table=shop.log",)
    assert [leg.sent.layers for leg in channel.legs] == [(shop,), (shop, log), (shop, log)]
    # If only readers filter, the relay logs of dumpfilter's slaves have everything.
    assert [leg.logged.layers for leg in channel.legs] == [(), (), ()]
    assert channel.applied.layers == (shop, log)
    assert channel.legs[0].shape == LinkShape(2_000_000)
    assert len(plan.filters) == 2


def test_a_filter_of_two_layers_passes_what_both_pass() -> None:
    plan = _plan("m >> web[do-db=shop] >> tail[ignore-table=shop.log]")
    both = next(key for key in plan.filters if len(key.layers) == 2).filter(NameRules())
    assert both.rows_ok("shop", "orders")
    assert not both.rows_ok("shop", "log")
    assert not both.rows_ok("hr", "emp")


def test_a_real_replica_filters_for_itself_at_a_real_source_and_logs_what_it_applied() -> None:
    plan = _plan("s[server=mariadb] >> r[server=mariadb, do-db=shop] >> q[server=mariadb]")
    rules = ("replicate-do-db=shop",)
    (leg,) = _channels(plan, "r")[0].legs
    assert (leg.sent.layers, leg.logged.layers, leg.is_grpc, leg.sender) == ((), (), False, Sender.SERVER)
    leg = _channels(plan, "q")[0].legs[-1]
    assert (leg.sent.layers, leg.logged.layers) == ((rules,), (rules,))


def test_a_master_before_a_real_replica_filters_for_it() -> None:
    plan = _plan("s[server=mariadb] >> m[role=master] >> r[server=mariadb, do-db=shop]")
    first, second = _channels(plan, "r")[0].legs
    assert (first.link, first.sender, first.is_grpc) == ("s:m", Sender.SERVER, False)
    assert (second.link, second.is_grpc) == ("m:r", False)
    assert second.sender is Sender.RECEIVER, "a master that receives from a running server looks at no files"
    assert second.sent.layers == (("replicate-do-db=shop",),)
    assert {node.name for node in plan.nodes} == {"m", "r"}


def test_a_node_with_several_ways_to_an_origin_has_a_channel_for_each() -> None:
    plan = _plan("m >> a[do-db=x] >> end ; m >> b[do-db=y] >> end ; n >> end")
    channels = _channels(plan, "end")
    assert [channel.name for channel in channels] == ["a", "b", "n"]
    assert [channel.origin for channel in channels] == ["m-workload", "m-workload", "n-workload"]
    assert plan.origins == ("m-workload", "n-workload")


def test_a_topology_without_links_cannot_be_simulated() -> None:
    only_files = make_topology(parse_string("m >> web")["m-workload"])
    with pytest.raises(OptionError, match="no node reads over a link"):
        plan_topology(only_files)


def test_the_slaves_of_a_slaves_file_read_one_master(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("slaves") / "slaves.toml"
    path.write_text(
        """
        [[slave]]
        name = "eu"
        count = 3
        rules = ["--replicate-do-db=shop"]
        link = { rate = "2mbit" }

        [[slave]]
        name = "us"
        server_id = 7
        """
    )
    plan = plan_slaves(load_slaves(path), "slaves")
    assert plan.links == ["master:eu-1", "master:eu-2", "master:eu-3", "master:us"]
    assert len(plan.filters) == 2, "equal filters are one, and the own server id is one"
    us = _channels(plan, "us")[0].legs[0]
    assert us.sent.origin == OriginFilter(own_server_id=7)


def test_a_topology_with_too_many_ways_to_a_node_is_refused() -> None:
    text = "s[server=mariadb] >> a0[server=mariadb], b0[server=mariadb]"
    for number in range(1, 30):
        text += f"; a{number - 1}, b{number - 1} >> a{number}[server=mariadb], b{number}[server=mariadb]"
    with pytest.raises(OptionError, match="16,384 ways lead from origins to a14, and the limit is 10,000"):
        _plan(text)


TIMES = st.floats(0, 1000)


@given(TIMES, TIMES, st.floats(0.01, 2), st.floats(0.01, 60), st.floats(0, 1))
def test_a_dump_goes_on_with_the_first_attempt_after_the_outage(
    start: float, length: float, first: float, longest: float, delay: float
) -> None:
    end = start + length
    retries = Retries(min(first, longest), longest, 3.0, 1000)
    again = retries.restart(start, end, LinkShape(16_000, delay)) - 6 * delay - 0.5
    assert end - 1e-6 <= again <= end + longest + 1e-6


def test_waits_double() -> None:
    retries = Retries(first=1, longest=8)
    # The attempts are at 1, 3, 7, 15, 23 … seconds.
    assert [retries.restart(0, end) for end in (0.5, 2, 6.5, 8, 16)] == [1, 3, 7, 15, 23]


def test_a_known_time_of_the_next_connection_replaces_the_waits() -> None:
    assert Retries(8, 8, 3.0, 1000).restart(0, 1, LinkShape(16_000, 0.1), connected=2.0) == 2.0 + 0.6 + 0.5


def test_the_option_of_a_node_sets_its_longest_wait() -> None:
    assert retries_of(slave("a", "m", options=["--connect-retry=8"])).longest == 6
    assert retries_of(slave("a", "m", options=["--connect_retry", "0.04"])) == Retries(0.03, 0.03)
    for alias in ("--master-connect-retry=8", "loose-Master_Connect_Retry=8"):
        assert retries_of(slave("a", "m", options=[alias])).longest == 6
    assert retries_of(server("a")).longest == 1
    assert retries_of(master("a", "db")).longest > 10


def test_a_wait_of_nothing_ends_with_the_outage() -> None:
    assert Retries(0, 0, 0.0, 0).restart(1, 5) == 5


def test_the_last_of_equal_options_counts_and_a_wrong_value_is_an_error_of_the_node() -> None:
    assert retries_of(slave("a", "m", options=["--connect-retry=8", "--connect-retry", "4"])).longest == 3
    for value in ("=soon", "=nan", "=-1", "=", ""):
        node = slave("a", "m", options=["--log-level=info", f"--connect-retry{value}"])
        with pytest.raises(
            OptionError, match=r"node a: options: --connect-retry=.*: give a number of 0 or more"
        ):
            retries_of(node)


@pytest.mark.parametrize("option", ["--ignore-server-ids=1", "--Filter_On=slave", "--do-domain-ids=0"])
def test_an_option_that_filters_and_is_not_modelled_is_refused(option: str) -> None:
    with pytest.raises(
        OptionError, match=r"node a: options: --[a-z-]*: a simulation does not know what it drops"
    ):
        plan_topology(parse_string(f"m >> a[option={option}]"))


def test_a_link_knows_when_any_reader_of_its_source_comes_back() -> None:
    topology = parse_string("m >> a[delay=0.5s]; m >> b[delay=1s]; a >> c")
    outages = {"m:a": (Outage(1, 5, connected=5), Outage(7, None)), "m:b": (Outage(2, 3, connected=4),)}
    plan = plan_topology(simulated(topology, outages))
    legs = [channel.legs[-1] for node in plan.nodes for channel in node.channels]
    first = Retries().restart(2, 3, LinkShape(delay=1), connected=4)
    second = Retries().restart(1, 5, LinkShape(delay=0.5), connected=5)
    assert {leg.link: leg.restarts for leg in legs} == {
        "m:a": (second, first),
        "m:b": (second, first),
        "a:c": (),
    }
