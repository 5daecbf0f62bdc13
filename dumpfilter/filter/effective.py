"""The effective filter, with rules DO, IGNORE and REWRITE (called "new semantics" in WL#2516).

The rules are about the databases and tables that an event changes, never about the default database of the session. The
worklog leaves some cases open, and docs/filters.md describes how this filter decides them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain

from dumpfilter.binlog.format import DEFAULT_NAMES, NameRules
from dumpfilter.binlog.query import TableName
from dumpfilter.binlog.statement.statement import StatementKind
from dumpfilter.filter.base import Decision, RuleFilter, Step, Verdict, WildRules, of_involved
from dumpfilter.filter.collation import Collation, as_parsed
from dumpfilter.filter.rules import (
    BaseRuleKind,
    EffectiveRuleKind,
    FilterSemantics,
    Rule,
    rewrite_literals,
    split_expression,
)
from dumpfilter.index.subjects import Subject, TableSubject

_SEPARATOR = "\0"
"""The character between database and table when a name is matched with a pattern. This character stands for the dot.

Names may hold dots, but no name holds a NUL character. So a ``%`` in the pattern for the database never matches a part
of the table's name.
"""
_UNTOLD_TABLES = StatementKind.SELECT
"""The kind of the logged statements SELECT and DO, which may change tables that their text does not name.

Servers log a SELECT or DO when it calls a stored function that changes tables.
"""


class EffectiveFilter(RuleFilter):
    """An immutable set of DO, IGNORE and REWRITE rules, which WL#2516 proposes in place of ``--replicate-*``. A changed
    filter is a new object.

    The rules match the databases and tables that an event changes, never the session's default database. Each rule has
    an expression ``db.table`` of LIKE patterns. A DO rule that matches wins over every IGNORE rule, and names without a
    match pass. When several REWRITE rules match a name, the first wins.

    >>> rules = EffectiveFilter.from_options(["--do=abc.%", "--ignore=%.EFG", "--ignore=%.%"])
    >>> rules.rows_ok("abc", "EFG"), rules.rows_ok("xyz", "t")
    (True, False)
    """

    _KINDS = EffectiveRuleKind
    _PLACE = FilterSemantics.EFFECTIVE.place

    def __init__(self, rules: Iterable[Rule] = (), *, names: NameRules = DEFAULT_NAMES) -> None:
        super().__init__(rules, names=names)
        collation = self._collation
        self._do = WildRules(self._of(EffectiveRuleKind.DO), collation, _pattern)
        self._ignore = WildRules(self._of(EffectiveRuleKind.IGNORE), collation, _pattern)
        self._rewrites = [_Rewrite(*rule.pair, collation) for rule in self._of(EffectiveRuleKind.REWRITE)]

    @property
    def is_on(self) -> bool:
        """Whether the filter could drop any event, which only IGNORE rules do.

        DO rules make exceptions from IGNORE rules, and REWRITE rules rename.
        """
        return bool(self._ignore)

    def rewrite_db(self, database: str) -> str:
        """Return the name that a statement's default database has on the slave, after the REWRITE rules.

        Only rules that rename a whole database (``db1.%->db2.%``) count, and the first that matches wins. Other rules
        rename single tables, which the slave cannot replace in a statement's text.
        """
        names = (rewrite.database(database) for rewrite in self._rewrites if rewrite.whole_database)
        return next((name for name in names if name is not None), database)

    def rewrite_table(self, database: str, table: str) -> tuple[str, str]:
        names = (rewrite.names(database, table) for rewrite in self._rewrites)
        return next((name for name in names if name is not None), (database, table))

    def decide(self, subject: Subject) -> Decision:
        """Decide whether the row events of a table, or a statement, are sent to the slave.

        A statement has one list of updated tables, or two for a GRANT: the table, and the grant tables. The statement
        passes when each list has a table that passes the rules. So the slave never loses a wanted change, but it may
        get an unwanted change to another table of the same statement.

        If the updated tables are unknown, the event may still list all tables of the statement. The rules decide when
        they give the same verdict about all these tables. Otherwise the statement is UNDECIDED if there are IGNORE
        rules, and passes without such rules.
        """
        if isinstance(subject, TableSubject):
            return self._decide(*self.rewrite_table(subject.database, subject.table))
        statement = subject
        if not self.rules:
            return Decision(Verdict.EXECUTE, Step.NO_RULES)
        current = statement.current_database or ""
        if statement.kind.is_database:
            return self._decide_database(current if statement.database is None else statement.database)
        if statement.updated is None or statement.kind is _UNTOLD_TABLES:
            involved = [self._decide_named(name, current) for name in statement.involved]
            trigger = statement.dropped_trigger
            if trigger is not None and self._drops_all_of(self.named(trigger, current)[0]):
                return Decision(Verdict.IGNORE, Step.NO_TABLE_OF_DATABASE)
            if (decision := of_involved(statement, involved)) is not None:
                return decision
            if self.is_on:
                return Decision(Verdict.UNDECIDED, Step.UNKNOWN_TABLES)
            return Decision(Verdict.EXECUTE, Step.EFFECTIVE_NEITHER)
        if statement.kind in (StatementKind.ROUTINE, StatementKind.EVENT):
            return _written_if_any(self._decide_database(name) for name in statement.updated_databases or ())
        decisions = [
            _written_if_any(self._decide_named(name, current) for name in names)
            for names in statement.updated
        ]
        ignored = (decision for decision in decisions if not decision.verdict.passes)
        return next(chain(ignored, decisions), _NOTHING)

    def hits(self, subject: Subject) -> tuple[BaseRuleKind, ...]:
        """Return the kinds of the rules that match a table or a statement, for counting rule hits.

        REWRITE comes first if a rule renames the table, or the statement's default database. The kind of the deciding
        rule (DO or IGNORE) follows.
        """
        if isinstance(subject, TableSubject):
            names = subject.database, subject.table
            renamed = any(rewrite.names(*names) is not None for rewrite in self._rewrites)
        else:
            current = subject.current_database
            renamed = current is not None and self.rewrite_db(current) != current
        hits = super().hits(subject)
        return (EffectiveRuleKind.REWRITE, *hits) if renamed else hits

    def _decide_named(self, name: TableName, current: str) -> Decision:
        return self._decide(*self.rewrite_table(*self.named(name, current)))

    def _drops_all_of(self, database: str) -> bool:
        """Tell whether the rules drop every table of a database. If so, they drop a DROP TRIGGER in this database,
        although the statement does not name its table.
        """
        rewrite = next((each for each in self._rewrites if each.database(database) is not None), None)
        if rewrite is not None and not rewrite.whole_database:
            return False
        begin = self._collation.folded(f"{self.rewrite_db(database)}{_SEPARATOR}")
        return not self._do.may_match(begin) and self._ignore.matches_all(begin)

    def _decide_database(self, name: str) -> Decision:
        # For CREATE, ALTER and DROP DATABASE the filter matches the rules with the name "db.", which has no table after
        # the dot.
        return self._decide(self.rewrite_db(as_parsed(name, self.names.family)), "")

    def _decide(self, database: str, table: str) -> Decision:
        name = f"{database}.{table}"
        if not self.rules:
            return Decision(Verdict.EXECUTE, Step.NO_RULES, None, name)
        folded = self._collation.folded(f"{database}{_SEPARATOR}{table}")
        if (rule := self._do.rule(folded)) is not None:
            return Decision(Verdict.EXECUTE, Step.EFFECTIVE_DO, rule, name)
        if (rule := self._ignore.rule(folded)) is not None:
            return Decision(Verdict.IGNORE, Step.EFFECTIVE_IGNORE, rule, name)
        return Decision(Verdict.EXECUTE, Step.EFFECTIVE_NEITHER, None, name)


_NOTHING = Decision(Verdict.EXECUTE, Step.EFFECTIVE_NOTHING)


def _written_if_any(decisions: Iterable[Decision]) -> Decision:
    # A statement that changes no table passes the filter. Any other statement passes when one of its tables passes.
    made = list(decisions)
    written = (decision for decision in made if decision.verdict.passes)
    return next(chain(written, made), _NOTHING)


def _pattern(expression: str) -> str:
    # A separator that no name has stands for the dot, so that each pattern matches its own side alone.
    return _SEPARATOR.join(split_expression(expression) or ())


class _Rewrite:
    """One REWRITE rule ``FROM->TO``, which gives a new name to each table that matches the pattern FROM."""

    def __init__(self, source: str, target: str, collation: Collation) -> None:
        of, to = split_expression(source), split_expression(target)
        assert of is not None
        assert to is not None
        self.database = _renamer(of[0], to[0], collation)
        self._table = _renamer(of[1], to[1], collation)
        self.whole_database = of[1] == to[1] == "%"
        """Whether the rule renames a whole database and keeps the tables' names, as in ``db1.%->db2.%``."""

    def names(self, database: str, table: str) -> tuple[str, str] | None:
        """Return the new names of a database and a table. None when the names do not match the pattern FROM of the rule
        ``FROM->TO``.
        """
        new_database = self.database(database)
        if new_database is None:
            return None
        new_table = self._table(table)
        return None if new_table is None else (new_database, new_table)


def _renamer(source: str, target: str, collation: Collation) -> Callable[[str], str | None]:
    # In a REWRITE rule such as old_%.%->new_%.%, the patterns before the dots rename databases. The patterns after the
    # dots rename tables.

    def folded(name: str) -> str:
        # The collation replaces each character by exactly one character. So a position in the folded name is the same
        # position in the name.
        return "".join(map(collation.unit, name))

    head, *tails = (folded(literal) for literal in rewrite_literals(source))
    new = rewrite_literals(target)

    def renamed(name: str) -> str | None:
        seen = folded(name)
        if not tails:
            return new[0] if seen == head else None
        (tail,) = tails
        if len(seen) < len(head) + len(tail) or not (seen.startswith(head) and seen.endswith(tail)):
            return None
        return name[len(head) : len(name) - len(tail)].join(new)

    return renamed
