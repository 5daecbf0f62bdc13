"""The check for rules without effect, because the server never evaluates them or another rule decides first."""

from __future__ import annotations

from collections.abc import Iterator

from dumpfilter.analyse.lint.findings import Code
from dumpfilter.analyse.lint.items import Item, few, listed
from dumpfilter.analyse.lint.knowledge import SetKnowledge
from dumpfilter.analyse.lint.reasons import wild_rules
from dumpfilter.analyse.lint.rule_names import Name, RuleAlone, RuleNames, compared, shown
from dumpfilter.filter import Decision, Filter, ReplicationFilter, Rule, RuleKind, Step
from dumpfilter.filter.rules import ValueForm
from dumpfilter.index.subjects import Subject, TableSubject, numbers_on_tables

_MOST_DECISIONS = 300_000
"""The maximum number of decisions that the search for rules without effect makes. The search is skipped if it needs
more.
"""

_DO = (RuleKind.DO_DB, RuleKind.DO_TABLE, RuleKind.WILD_DO_TABLE)
_TABLE_DO = (RuleKind.DO_TABLE, RuleKind.WILD_DO_TABLE)
_TABLE_FORMS = (ValueForm.TABLE, ValueForm.WILD_TABLE)
_BY_DATABASE = (Step.NO_DO_DB, Step.IGNORE_DB)


Decisions = dict[Subject, Decision]
"""A filter's decision about each table and statement of a binlog set."""


def decisions_of(rule_filter: ReplicationFilter, knowledge: SetKnowledge) -> Decisions:
    """Return a filter's decisions about all tables and statements of a set."""
    subjects = [event.subject for event in knowledge.events]
    subjects += [TableSubject(*table) for table in knowledge.tables]
    return {subject: rule_filter.decide(subject) for subject in dict.fromkeys(subjects)}


def void_rules(
    rule_filter: Filter, knowledge: SetKnowledge, names: RuleNames, decisions: Decisions
) -> Iterator[Item]:
    """Yield a fault for each rule of a classic (``--replicate-*``) filter that has no effect because of other rules.
    Also yield one if the filter drops everything.
    """
    yield from _unasked(rule_filter, names)
    deciding = {decision.rule for decision in decisions.values()}
    undecided, notes = compared(
        [rule for rule in rule_filter.rules if rule.kind.form in _TABLE_FORMS and rule not in deciding], names
    )
    yield from notes
    for rule in undecided:
        yield from _preceded(rule_filter, rule, names)
    yield from _without_effect(rule_filter, decisions, deciding)
    yield from _nothing_passes(rule_filter, knowledge, decisions)


def _unasked(rule_filter: Filter, names: RuleNames) -> Iterator[Item]:
    do_rules = [rule for rule in rule_filter.rules if rule.kind is RuleKind.DO_DB]
    if not do_rules:
        return
    for rule in rule_filter.rules:
        if rule.kind is not RuleKind.IGNORE_DB:
            continue
        both = any(rule.value == other.value for other in do_rules)
        cure = f"Remove --{RuleKind.DO_DB.option}={rule.value}" if both else f"Remove {rule}"
        yield Item(
            Code.NOT_ASKED,
            (rule, *few(do_rules)),
            "with a do-db rule the server asks no ignore-db rule",
            cure,
            events=shown(names.databases.get(rule.value)),
        )


def _preceded(rule_filter: Filter, rule: Rule, names: RuleNames) -> Iterator[Item]:
    """Yield the fault of a table rule that matches names of the set but never decides, because another rule decides
    first.
    """
    alone = RuleAlone(rule_filter, rule)
    matched = [name for name in names.tables if alone.matches_table(name)]
    if not matched:
        return
    # The names are those after rewriting, so that the filter must not rewrite them again.
    asked = Filter(
        [each for each in rule_filter.rules if each.kind is not RuleKind.REWRITE_DB], names=rule_filter.names
    )
    decisions = {name: asked.decide(TableSubject(*name)) for name in matched}
    if all(decision.step in _BY_DATABASE for decision in decisions.values()):
        if rule.kind in _TABLE_DO:
            yield _blocked(rule_filter, rule, matched, names)
        return
    earlier = dict.fromkeys(decision.rule for decision in decisions.values() if decision.rule is not None)
    if rule.kind in _DO:
        others = [each for each in earlier if each.kind not in _DO]
        cure = f"Remove {others[0]}, or {rule}" if others else ""
    else:
        others = [each for each in earlier if each.kind in _TABLE_DO]
        cure = (
            "Use rules that do not match the same tables. The order is do-table, ignore-table, wild-do-table, "
            "wild-ignore-table"
        )
    if others:
        yield Item(
            Code.NOT_ASKED,
            (rule, *few(others)),
            f"{_listed(matched)} matches {others[0]} first, and the first match decides",
            cure,
            events=shown(names.tables[matched[0]]),
        )


def _blocked(rule_filter: Filter, rule: Rule, matched: list[Name], names: RuleNames) -> Item:
    others = [each for each in rule_filter.rules if each.kind.form is ValueForm.DATABASE]
    databases = list(dict.fromkeys(database for database, _ in matched))
    if any(each.kind is RuleKind.DO_DB for each in others):
        others = [each for each in others if each.kind is RuleKind.DO_DB]
        wild = wild_rules(RuleKind.WILD_DO_TABLE, others)
        cure = f"Use {wild} instead of the do-db rules, or add --{RuleKind.DO_DB.option}={databases[0]}"
    else:
        others = [each for each in others if each.value in databases] or others
        cure = f"Remove {others[0]}, or {rule}"
    return Item(
        Code.BLOCKED,
        (rule, *few(others)),
        f"database rules drop the rows of {_listed(matched)} before a table rule is asked",
        cure,
        events=shown(names.tables[matched[0]]),
    )


def _without_effect(rule_filter: Filter, decisions: Decisions, deciding: set[Rule | None]) -> Iterator[Item]:
    """Yield a fault for each rule that decides about some events but whose removal would change no decision."""
    has_table_do = any(rule.kind in _TABLE_DO for rule in rule_filter.rules)
    candidates = [
        rule
        for rule in rule_filter.rules
        if rule in deciding and rule.kind.form in _TABLE_FORMS and (has_table_do or rule.kind not in _DO)
    ]
    if len(candidates) * len(decisions) > _MOST_DECISIONS or len(rule_filter.rules) < 2:
        return
    for rule in candidates:
        rest = [each for each in rule_filter.rules if each != rule]
        if rule.kind in _DO and not any(each.kind in _TABLE_DO for each in rest):
            continue
        without = Filter(rest, names=rule_filter.names)
        if all(without.verdict(subject) is decision.verdict for subject, decision in decisions.items()):
            yield Item(
                Code.NO_EFFECT,
                (rule,),
                "without this rule every event of the set is decided alike",
                "Remove the rule, unless it is meant for events to come",
            )


def _nothing_passes(rule_filter: Filter, knowledge: SetKnowledge, decisions: Decisions) -> Iterator[Item]:
    # The names of tables alone do not count, since a dropped statement may name a table whose rows would pass.
    subjects = list(dict.fromkeys(event.subject for event in knowledge.events))
    asked = [subjects[number] for number in numbers_on_tables(subjects)]
    if not asked or not knowledge.is_whole or any(decisions[each].verdict.passes for each in asked):
        return
    rules = [rule for rule in rule_filter.rules if rule.kind is not RuleKind.REWRITE_DB]
    yield Item(
        Code.NOTHING_PASSES,
        few(rules),
        "no row and no statement on a table passes",
        "Check the names in the rules",
        events=tuple(event for event in knowledge.events if event.subject == asked[0])[:1],
    )


def _listed(names: list[Name]) -> str:
    return listed([".".join(name) for name in names])
