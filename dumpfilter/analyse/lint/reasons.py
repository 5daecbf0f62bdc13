"""Texts for the reason of a filter's decision about a statement, and for the remedy."""

from __future__ import annotations

from collections.abc import Iterable

from dumpfilter.analyse.lint.findings import few
from dumpfilter.binlog.statement import Statement
from dumpfilter.filter import Decision, ReplicationFilter, Rule, RuleKind, Step

_RULES = {
    Step.NO_DO_DB: (RuleKind.DO_DB,),
    Step.NO_IGNORE_DB: (RuleKind.IGNORE_DB,),
    Step.NO_TABLE_MATCHED_DO: (RuleKind.DO_TABLE, RuleKind.WILD_DO_TABLE),
    Step.DB_NO_WILD_DO: (RuleKind.WILD_DO_TABLE,),
    Step.NO_TABLE_RULES: (RuleKind.DO_DB, RuleKind.IGNORE_DB),
}
"""The kinds of rules behind each decision in which no single rule matched."""


def rules_of(rule_filter: ReplicationFilter, decision: Decision) -> tuple[Rule, ...]:
    """Return the rules behind a decision: the rule that matched, or the first few of the rules that failed to match."""
    if decision.rule is not None:
        return (decision.rule,)
    kinds = _RULES.get(decision.step, ())
    return few(rule for rule in rule_filter.rules if rule.kind in kinds)


def reason_of(decision: Decision, statement: Statement) -> str:
    """Return the reason of a decision about a statement, worded as the end of a sentence after "because"."""
    has_database = statement.current_database is not None
    if decision.step is Step.NO_DO_DB:
        if has_database:
            return "no do-db rule names its current database"
        return "it has no current database, which no do-db rule matches"
    if decision.step is Step.IGNORE_DB:
        return "an ignore-db rule names its current database"
    if decision.step in (Step.DO_DB, Step.NO_IGNORE_DB, Step.NO_TABLE_RULES, Step.NO_RULES):
        if has_database:
            return "database rules look at its current database only"
        return "it has no current database, which no ignore-db rule matches"
    if decision.step is Step.NO_TABLE_MATCHED:
        return "its current database passes, and no table rule matches its tables"
    if decision.step in (Step.WILD_IGNORE_TABLE, Step.WILD_DO_TABLE) and decision.rule is not None:
        # The table's name would make a warning of its own for each table that the rule matches.
        return f"its first table with a rule matches {decision.rule.value}, and this table decides the whole statement"
    if decision.step in (Step.IGNORE_TABLE, Step.WILD_IGNORE_TABLE, Step.DO_TABLE, Step.WILD_DO_TABLE):
        return f"its first table with a rule is {decision.name}, and this table decides the whole statement"
    if decision.step is Step.NO_TABLE_MATCHED_DO:
        return "no do rule matches its tables"
    if decision.step in (Step.DB_NO_WILD_DO, Step.DB_WILD_IGNORE):
        return f"wild rules are compared with the text {decision.name!r}, without a table"
    text = str(decision.step.value)
    return text[0].lower() + text[1:]


def cure_of(rule_filter: ReplicationFilter, decision: Decision) -> str:
    """Return a remedy, as a sentence, for a filter's unwanted decision about a statement.

    If the statement's default database decided, the remedy is to use table rules instead of the database rules.
    """
    if decision.step in (Step.NO_DO_DB, Step.DO_DB):
        rules = [rule for rule in rule_filter.rules if rule.kind is RuleKind.DO_DB]
        return f"Use {wild_rules(RuleKind.WILD_DO_TABLE, rules)} instead of the do-db rules"
    if decision.step in (Step.IGNORE_DB, Step.NO_IGNORE_DB):
        rules = [rule for rule in rule_filter.rules if rule.kind is RuleKind.IGNORE_DB]
        return f"Use {wild_rules(RuleKind.WILD_IGNORE_TABLE, rules)} instead of the ignore-db rules"
    if decision.step in (Step.DB_NO_WILD_DO, Step.DB_WILD_IGNORE):
        database = (decision.name or "").rstrip(".")
        return (
            f"Create the database {database!r} on the replica, or add a rule that matches {decision.name!r}"
        )
    return "Change the tables in statements of their own, or give them the same rule"


def database_cure(rule_filter: ReplicationFilter, decision: Decision, database: str) -> str:
    """Return a remedy, as a sentence, for a filter that drops CREATE DATABASE of ``database``.

    If possible, the remedy is a rule that passes this statement and still drops the database's tables. Otherwise it is
    to create the database on the replica. The server compares CREATE DATABASE hr with wild rules as the text "hr.",
    which "hr._%" does not match.
    """
    do, ignore = RuleKind.WILD_DO_TABLE.option, RuleKind.WILD_IGNORE_TABLE.option
    added = f"--{do}={escaped(database)}. for the database without its tables"
    if decision.step is Step.DB_NO_WILD_DO:
        return f"Add {added}"
    if decision.step is Step.NO_DO_DB:
        return f"{cure_of(rule_filter, decision)}, and add {added}"
    if decision.step is Step.IGNORE_DB:
        return f"Use --{ignore}={escaped(database)}._% instead of --{RuleKind.IGNORE_DB.option}={database}"
    if decision.rule is not None and decision.rule.value.endswith(".%"):
        return f"Use --{ignore}={decision.rule.value[:-1]}_% instead of {decision.rule}"
    return f"Create the database {database!r} on the replica"


def wild_rules(kind: RuleKind, rules: Iterable[Rule]) -> str:
    """Return rules that match all tables of databases, as options such as ``--replicate-wild-do-table=shop.%``.

    There is one option of the given ``kind`` for each of the first three database rules in ``rules``.
    """
    return " ".join(f"--{kind.option}={escaped(rule.value)}.%" for rule in few(rules))


def escaped(name: str) -> str:
    r"""Return a LIKE pattern that matches only ``name``.

    >>> escaped("a_b"), escaped("shop")
    ('a\\_b', 'shop')
    """
    return "".join(f"\\{character}" if character in "\\%_" else character for character in name)
