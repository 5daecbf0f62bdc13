"""Filters of channels agree with the answers of MySQL 9.7 and with a plain model."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.base.errors import OptionError
from dumpfilter.filter.channels import (
    GROUP_REPLICATION_CHANNELS,
    ChannelFilters,
    ConfiguredBy,
    Setting,
    UnknownChannel,
    fold_channel,
    split_channel,
)
from dumpfilter.filter.rules import (
    BaseRuleKind,
    EffectiveRuleKind,
    FilterClause,
    FilterSemantics,
    Rule,
    RuleKind,
    make_rule,
    parse_option,
)

START = datetime(2016, 12, 2, 11, 53, 45, 113410, tzinfo=UTC)
DO_DB, IGNORE_DB, WILD_DO = RuleKind.DO_DB, RuleKind.IGNORE_DB, RuleKind.WILD_DO_TABLE
STARTUP, CHANGED = ConfiguredBy.STARTUP_OPTIONS, ConfiguredBy.CHANGE_REPLICATION_FILTER
STARTUP_CHANNEL = ConfiguredBy.STARTUP_OPTIONS_FOR_CHANNEL
CHANGED_CHANNEL = ConfiguredBy.CHANGE_REPLICATION_FILTER_FOR_CHANNEL


class Clock:
    """A clock that goes on by a second at each call."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now


def clause(kind: BaseRuleKind, *values: str) -> FilterClause:
    return FilterClause(kind, tuple(make_rule(kind, value) for value in values))


def started(*options: str, existing: tuple[str, ...] = ("",)) -> tuple[ChannelFilters, list[str]]:
    filters = ChannelFilters(Clock())
    for option in options:
        rule = parse_option(option)
        channel, value = split_channel(rule.value)
        filters.startup(channel, [make_rule(rule.kind, value)])
    return filters, filters.finish_startup(existing)


def rows(filters: ChannelFilters) -> list[tuple[str, str, str, str]]:
    return [(name, *row) for name in filters.channels for row in shown(filters.settings(name))]


def shown(settings: list[Setting]) -> list[tuple[str, str, str]]:
    return [(setting.kind.sql_name, setting.rule_text, setting.configured_by.value) for setting in settings]


def doesnt_exist(channel: str) -> str:
    return (
        f"There are per-channel replication filter(s) configured for channel '{channel}' which does not exist. "
        "The filter(s) have been discarded."
    )


def test_the_first_example_of_wl7361() -> None:
    filters, warnings = started(
        "--replicate-do-db=db1",
        "--replicate-do-db=ch1:db2",
        "--replicate-do-db=db3",
        "--replicate-ignore-db=db4",
        "--replicate-ignore-db=:db5",
        existing=("", "ch1"),
    )
    assert warnings == []
    assert shown(filters.settings(None)) == [
        ("REPLICATE_DO_DB", "db1,db3", STARTUP),
        ("REPLICATE_IGNORE_DB", "db4", STARTUP),
    ]
    assert rows(filters) == [
        ("", "REPLICATE_DO_DB", "db1,db3", STARTUP),
        ("", "REPLICATE_IGNORE_DB", "db5", STARTUP_CHANNEL),
        ("ch1", "REPLICATE_DO_DB", "db2", STARTUP_CHANNEL),
        ("ch1", "REPLICATE_IGNORE_DB", "db4", STARTUP),
    ]


def test_the_long_example_of_wl7361() -> None:
    """The answers are MySQL 9.7's. The worklog's last table has dbA, nothing and db1 where the server has dbB."""
    filters, warnings = started(
        "--replicate-do-db=db1",
        "--replicate-do-db=:db1",
        "--replicate-do-db=:db2",
        "--replicate-do-db=ch_1:db4",
        "--replicate-do-db=ch_1:db5",
        "--replicate-do-db=ch_3:db6",
        "--replicate-wild-do-table=db.t1%",
        "--replicate-wild-ignore-table=ch_1:db.t2%",
        existing=("", "ch_1", "ch_2"),
    )
    assert warnings == [doesnt_exist("ch_3")]
    assert rows(filters) == [
        ("", "REPLICATE_DO_DB", "db1,db2", STARTUP_CHANNEL),
        ("", "REPLICATE_WILD_DO_TABLE", "db.t1%", STARTUP),
        ("ch_1", "REPLICATE_DO_DB", "db4,db5", STARTUP_CHANNEL),
        ("ch_1", "REPLICATE_WILD_DO_TABLE", "db.t1%", STARTUP),
        ("ch_1", "REPLICATE_WILD_IGNORE_TABLE", "db.t2%", STARTUP_CHANNEL),
        ("ch_2", "REPLICATE_DO_DB", "db1", STARTUP),
        ("ch_2", "REPLICATE_WILD_DO_TABLE", "db.t1%", STARTUP),
    ]
    filters.add_channel("ch_3")
    filters.change([clause(DO_DB, "dbA")], "")
    filters.change([clause(DO_DB)], "ch_1")
    assert [row for row in rows(filters) if row[1] == "REPLICATE_DO_DB"] == [
        ("", "REPLICATE_DO_DB", "dbA", CHANGED_CHANNEL),
        ("ch_1", "REPLICATE_DO_DB", "", CHANGED_CHANNEL),
        ("ch_2", "REPLICATE_DO_DB", "db1", STARTUP),
        ("ch_3", "REPLICATE_DO_DB", "db1", STARTUP),
    ]
    filters.change([clause(DO_DB, "dbB")], None)
    assert rows(filters) == [
        ("", "REPLICATE_DO_DB", "dbB", CHANGED),
        ("", "REPLICATE_WILD_DO_TABLE", "db.t1%", STARTUP),
        ("ch_1", "REPLICATE_DO_DB", "dbB", CHANGED),
        ("ch_1", "REPLICATE_WILD_DO_TABLE", "db.t1%", STARTUP),
        ("ch_1", "REPLICATE_WILD_IGNORE_TABLE", "db.t2%", STARTUP_CHANNEL),
        ("ch_2", "REPLICATE_DO_DB", "dbB", CHANGED),
        ("ch_2", "REPLICATE_WILD_DO_TABLE", "db.t1%", STARTUP),
        ("ch_3", "REPLICATE_DO_DB", "dbB", CHANGED),
        ("ch_3", "REPLICATE_WILD_DO_TABLE", "db.t1%", STARTUP),
    ]
    assert shown(filters.settings(None)) == [
        ("REPLICATE_DO_DB", "dbB", CHANGED),
        ("REPLICATE_WILD_DO_TABLE", "db.t1%", STARTUP),
    ]


def test_the_filter_of_one_channel_as_in_wl7361() -> None:
    filters, _ = started(
        *(f"--replicate-do-db=ch_1:my_db{n}" for n in (1, 2, 3)),
        *(f"--replicate-ignore-db=ch_1:my_db{n}" for n in (4, 5, 6)),
        existing=("ch_1",),
    )
    filters.change([clause(RuleKind.IGNORE_TABLE, "db3.initfilet3")], "ch_1")
    filters.change([clause(WILD_DO, "initfiled%.t%")], "ch_1")
    filters.change(
        [
            clause(DO_DB, "db1", "db2", "db32", "db,3"),
            clause(DO_DB, "my_db3", "my_db4"),
            clause(IGNORE_DB, "my_initfiledb3"),
        ],
        "ch_1",
    )
    assert shown(filters.settings("ch_1")) == [
        ("REPLICATE_DO_DB", "my_db3,my_db4", CHANGED_CHANNEL),
        ("REPLICATE_IGNORE_DB", "my_initfiledb3", CHANGED_CHANNEL),
        ("REPLICATE_IGNORE_TABLE", "db3.initfilet3", CHANGED_CHANNEL),
        ("REPLICATE_WILD_DO_TABLE", "initfiled%.t%", CHANGED_CHANNEL),
    ]
    assert filters.current("ch_1").rules == (
        make_rule(DO_DB, "my_db3"),
        make_rule(DO_DB, "my_db4"),
        make_rule(IGNORE_DB, "my_initfiledb3"),
        make_rule(RuleKind.IGNORE_TABLE, "db3.initfilet3"),
        make_rule(WILD_DO, "initfiled%.t%"),
    )


@pytest.mark.parametrize(
    ("kind", "values", "text"),
    [
        (IGNORE_DB, ["z", "b", "a`q", "c,d", "b"], "z,b,a`q,c,d,b"),
        (RuleKind.DO_TABLE, ["z.t", "a.t1", "m.x.y.z", "b.t", "c.t", "a.t1"], "a.t1,b.t,c.t,m.x.y.z,z.t"),
        (RuleKind.IGNORE_TABLE, ["é.x", "z.t1", "z.t-", "Z.T", "a.b", "_.x"], "Z.T,_.x,a.b,z.t-,z.t1,é.x"),
        (WILD_DO, ["z%.t%", "a\\_b.t", "it's.x", "z%.t%"], "z%.t%,a\\_b.t,it's.x,z%.t%"),
        (RuleKind.REWRITE_DB, ["b->c", "a->d", "b->e", "x,y->p)q"], "(b,c),(a,d),(b,e),(x,y,p)q)"),
        (EffectiveRuleKind.DO, ["b.%", "a.%"], "b.%,a.%"),
        (EffectiveRuleKind.REWRITE, ["b.%->c.%"], "(b.%,c.%)"),
    ],
)
def test_rules_are_shown_as_a_real_mysql_shows_them(kind: BaseRuleKind, values: list[str], text: str) -> None:
    rules = tuple(make_rule(kind, value) for value in values)
    assert Setting(kind, rules, CHANGED, START).rule_text == text


def test_warnings_are_one_a_channel_and_in_the_servers_order() -> None:
    filters, warnings = started(
        "--replicate-do-db=ch_3:db6",
        "--replicate-ignore-db=ch_3:db6",
        "--replicate-do-db=group_replication_recovery:x",
        "--replicate-do-db= ch_2:x",
        "--replicate-do-db=CH_9:x",
        "--replicate-do-db=:x",
        "--replicate-do-db=group_replication_applier:x",
        f"--replicate-do-db={'é' * 100}:x",
        existing=("ch_1", "ch_2"),
    )
    assert warnings == [
        *(
            f"There are per-channel replication filter(s) configured for group replication channel '{name}' which is "
            "disallowed. The filter(s) have been discarded."
            for name in ("group_replication_applier", "group_replication_recovery")
        ),
        *map(doesnt_exist, ["", " ch_2", "ch_3", "ch_9", "é" * 96]),
    ]
    assert filters.channels == ["ch_1", "ch_2"]
    assert rows(filters) == []
    filters.add_channel("ch_3")
    assert filters.settings("ch_3") == []  # discarded for good


def test_active_since() -> None:
    filters, _ = started(
        "--replicate-do-db=a", "--replicate-do-db=b", "--replicate-ignore-db=ch1:c", existing=("ch1",)
    )
    second = timedelta(seconds=1)
    assert [setting.active_since - START for setting in filters.settings(None)] == [2 * second]
    assert [setting.active_since - START for setting in filters.settings("ch1")] == [4 * second, 3 * second]
    filters.add_channel("ch2")
    assert [setting.active_since - START for setting in filters.settings("ch2")] == [5 * second]
    filters.change([clause(IGNORE_DB, "x"), clause(WILD_DO, "x.y")], None)
    assert [setting.active_since - START for setting in filters.settings("ch2")] == [
        5 * second,
        6 * second,
        6 * second,
    ]
    assert [setting.active_since - START for setting in filters.settings(None)] == [
        2 * second,
        6 * second,
        6 * second,
    ]


def test_a_new_channel_copies_what_has_rules() -> None:
    filters, _ = started("--replicate-do-db=a")
    filters.change([clause(DO_DB), clause(IGNORE_DB, "x")], None)
    filters.count("", {IGNORE_DB: 5})
    filters.add_channel("ch1")
    assert shown(filters.settings("ch1")) == [("REPLICATE_IGNORE_DB", "x", CHANGED)]
    assert filters.settings("ch1")[0].counter == 0
    assert shown(filters.settings("")) == [
        ("REPLICATE_DO_DB", "", CHANGED),
        ("REPLICATE_IGNORE_DB", "x", CHANGED),
    ]


def test_a_channel_added_twice_keeps_its_filter_and_one_removed_does_not() -> None:
    filters, _ = started("--replicate-do-db=a", existing=())
    filters.add_channel("ch1")
    filters.change([clause(DO_DB, "b")], "ch1")
    filters.add_channel("CH1")
    assert filters.current("ch1").rules == (make_rule(DO_DB, "b"),)
    filters.remove_channel("Ch1")
    assert filters.channels == []
    filters.change([clause(IGNORE_DB, "c")], None)
    filters.add_channel("ch1")
    assert shown(filters.settings("ch1")) == [
        ("REPLICATE_DO_DB", "a", STARTUP),
        ("REPLICATE_IGNORE_DB", "c", CHANGED),
    ]


def test_channels_compare_without_case_with_accents_and_are_shown_in_lower_case() -> None:
    filters, _ = started(existing=())
    for name in ("b2", "CH_B", "B1", "É1", "e1", "b_0", "", "Ch_b"):
        filters.add_channel(name)
    assert filters.channels == ["", "b1", "b2", "b_0", "ch_b", "e1", "é1"]
    filters.change([clause(DO_DB, "x")], "cH_b")
    assert filters.current("ch_B").rules == (make_rule(DO_DB, "x"),)
    assert filters.current("e1").rules == ()


def test_what_there_is_not() -> None:
    filters, _ = started("--replicate-do-db=a")
    for act in (
        lambda: filters.change([clause(DO_DB, "x")], "nosuch"),
        lambda: filters.remove_channel("nosuch"),
        lambda: filters.settings("nosuch"),
        lambda: filters.current("nosuch").rules,
        lambda: filters.count("nosuch", {}),
    ):
        with pytest.raises(UnknownChannel, match="nosuch"):
            act()
    for name in GROUP_REPLICATION_CHANNELS:
        with pytest.raises(OptionError, match=name):
            filters.change([clause(DO_DB, "x")], name.upper())
        with pytest.raises(OptionError, match=name):
            filters.add_channel(name.upper())
    assert rows(filters) == [("", "REPLICATE_DO_DB", "a", STARTUP)]


def test_a_change_is_made_whole_or_not_at_all() -> None:
    filters, _ = started("--replicate-do-db=a", existing=("", "ch1"))
    before = rows(filters), filters.settings(None)
    broken = FilterClause(WILD_DO, (Rule(WILD_DO, "nodot"),))
    for channel in (None, "", "ch1"):
        with pytest.raises(OptionError, match=r"db_pattern\.table_pattern"):
            filters.change([clause(DO_DB, "good"), broken], channel)
    assert (rows(filters), filters.settings(None)) == before


def test_a_wrong_rule_is_told_before_a_wrong_channel() -> None:
    filters, _ = started()
    for channel in ("nosuch", *GROUP_REPLICATION_CHANNELS):
        with pytest.raises(OptionError, match=r"db_pattern\.table_pattern"):
            filters.change([FilterClause(WILD_DO, (Rule(WILD_DO, "nodot"),))], channel)


def test_rules_of_both_semantics_are_refused_wherever_they_would_meet() -> None:
    filters, _ = started("--replicate-do-db=ch1:a", existing=("", "ch1"))
    do = clause(EffectiveRuleKind.DO, "a.%")
    with pytest.raises(OptionError, match=r"channel 'ch1': .*classic --replicate-do-db; effective --do"):
        filters.change([do], None)
    assert filters.settings(None) == []
    filters.change([do], "")
    assert filters.current("").semantics is FilterSemantics.EFFECTIVE
    assert filters.current("ch1").semantics is FilterSemantics.CLASSIC
    filters.change([clause(DO_DB), do], "ch1")  # in one go
    assert filters.current("ch1").semantics is FilterSemantics.EFFECTIVE
    assert shown(filters.settings("ch1")) == [
        ("REPLICATE_DO_DB", "", CHANGED_CHANNEL),
        ("DO", "a.%", CHANGED_CHANNEL),
    ]
    filters.change([clause(EffectiveRuleKind.DO)], "ch1")
    assert filters.current("ch1").semantics is FilterSemantics.CLASSIC


def test_rules_of_both_semantics_are_refused_at_the_start() -> None:
    filters = ChannelFilters()
    filters.startup(None, [make_rule(EffectiveRuleKind.IGNORE, "a.%")])
    filters.startup("ch1", [make_rule(DO_DB, "a")])
    with pytest.raises(OptionError, match="'ch1'"):
        filters.finish_startup(["", "ch1"])
    assert filters.channels == []
    filters.startup(None, [make_rule(IGNORE_DB, "a")])
    with pytest.raises(OptionError, match="global"):
        filters.finish_startup([])


def test_counters() -> None:
    filters, _ = started("--replicate-do-db=a", "--replicate-ignore-db=b", existing=("", "ch1"))
    filters.count("", {DO_DB: 2, IGNORE_DB: 3, WILD_DO: 9})
    filters.count("", {DO_DB: 1})
    assert [setting.counter for setting in filters.settings("")] == [3, 3]
    assert [setting.counter for setting in filters.settings("ch1")] == [0, 0]
    filters.change([clause(DO_DB, "c")], "")
    assert [setting.counter for setting in filters.settings("")] == [0, 3]
    filters.count("", {DO_DB: 5, IGNORE_DB: 5})
    assert [setting.counter for setting in filters.settings("")] == [5, 8]
    assert [setting.counter for setting in filters.settings(None)] == [0, 0]


def test_threads_lose_no_hit_and_see_no_half_change() -> None:
    filters, _ = started("--replicate-ignore-db=b", existing=("", "ch1"))
    pair = [(clause(DO_DB, str(n)), clause(WILD_DO, f"{n}.t")) for n in range(200)]
    torn: list[tuple[Rule, ...]] = []

    def change() -> None:
        for clauses in pair:
            filters.change(clauses, None)

    def count() -> None:
        for _ in range(500):
            filters.count("ch1", {IGNORE_DB: 1})
            rules = filters.current("ch1").rules
            databases = [rule.value for rule in rules if rule.kind is DO_DB]
            tables = [rule.value.removesuffix(".t") for rule in rules if rule.kind is WILD_DO]
            if databases != tables:
                torn.append(rules)

    threads = [threading.Thread(target=target) for target in (change, change, count, count, count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert torn == []
    assert next(s for s in filters.settings("ch1") if s.kind is IGNORE_DB).counter == 1500


NAMES = ["", "ch1", "ch2", "ch3"]
CLAUSES = st.lists(
    st.builds(
        lambda kind, names: clause(kind, *names),
        st.sampled_from([DO_DB, IGNORE_DB]),
        st.lists(st.sampled_from("abc"), max_size=2),
    ),
    min_size=1,
    max_size=3,
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("change"), CLAUSES, st.sampled_from([None, *NAMES])),
        st.tuples(st.just("add"), st.sampled_from(NAMES)),
        st.tuples(st.just("remove"), st.sampled_from(NAMES)),
        st.tuples(st.just("count"), st.sampled_from(NAMES), st.sampled_from([DO_DB, IGNORE_DB])),
    ),
    max_size=30,
)


@given(
    startup=st.lists(st.tuples(st.sampled_from([None, *NAMES]), st.sampled_from("abc")), max_size=5),
    existing=st.sets(st.sampled_from(NAMES)),
    steps=STEPS,
)
def test_any_history_is_what_a_plain_model_says(
    startup: list[tuple[str | None, str]], existing: set[str], steps: list[tuple[object, ...]]
) -> None:
    filters = ChannelFilters(Clock())
    for channel, value in startup:
        filters.startup(channel, [make_rule(DO_DB, value)])
    filters.finish_startup(existing)

    def names(of: str | None) -> list[str]:
        return [value for channel, value in startup if channel == of]

    # name -> kind -> [names, configured by, counter]; None is the global filter
    Model = dict[BaseRuleKind, list[object]]
    model: dict[str | None, Model] = {None: {DO_DB: [names(None), STARTUP, 0]} if names(None) else {}}

    def copied() -> Model:
        return {kind: [row[0], row[1], 0] for kind, row in model[None].items() if row[0]}

    for name in existing:
        model[name] = copied() | ({DO_DB: [names(name), STARTUP_CHANNEL, 0]} if names(name) else {})
    for what, *arguments in steps:
        if what == "change":
            clauses, channel = arguments
            if channel is not None and channel not in model:
                with pytest.raises(UnknownChannel):
                    filters.change(clauses, channel)
                continue
            filters.change(clauses, channel)
            changed = set(model) if channel is None else {channel}
            for each in clauses:
                for name in changed:
                    by = CHANGED if channel is None else CHANGED_CHANNEL
                    model[name][each.kind] = [[rule.value for rule in each.rules], by, 0]
        elif what == "add":
            filters.add_channel(arguments[0])
            model.setdefault(arguments[0], copied())
        elif arguments[0] not in model:
            continue
        elif what == "remove":
            filters.remove_channel(arguments[0])
            del model[arguments[0]]
        else:
            filters.count(arguments[0], {arguments[1]: 1})
            if arguments[1] in model[arguments[0]]:
                model[arguments[0]][arguments[1]][2] += 1
    assert set(filters.channels) == set(model) - {None}
    for name in model:
        settings = filters.settings(name)
        assert {s.kind: [[r.value for r in s.rules], s.configured_by, s.counter] for s in settings} == model[
            name
        ]


@given(st.text())
def test_folding_a_channel_keeps_its_length_and_is_done_once(name: str) -> None:
    folded = fold_channel(name)
    assert len(folded) == len(name)
    assert fold_channel(folded) == folded


@given(st.text(), st.text())
def test_splitting_at_the_first_colon(channel: str, rule: str) -> None:
    first, rest = f"{channel}:{rule}".split(":", 1)
    assert split_channel(f"{channel}:{rule}") == (fold_channel(first), rest)
    assert ":" in channel or split_channel(channel) == (None, channel)
