"""The write side's filter: ``--binlog-do-db`` and ``--binlog-ignore-db`` keep events out of a binlog.

``Rpl_filter::db_ok`` as ``binlog_filter`` has it (``MYSQL_BIN_LOG::write_event``, MariaDB's ``MYSQL_BIN_LOG::write``,
``THD::decide_logging_format``). Statements go by the current database, row events by the table's database. CREATE,
ALTER and DROP DATABASE go by the database they name, which a server logs as their current database. Servers' answers
are in tests/oracle/data/recordings/{mysql,mariadb}-write-*. docs/filters.md tells them in words.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

from dumpfilter.binlog.format import DEFAULT_NAMES, NameRules
from dumpfilter.errors import OptionError
from dumpfilter.filter.base import ReplicationFilter
from dumpfilter.filter.collation import collation_of
from dumpfilter.filter.decision import Decision, Step, Verdict
from dumpfilter.filter.rules import (
    BaseRuleKind,
    Rule,
    WriteRuleKind,
    WriteSemantics,
    option_list,
    parse_write_option,
    unique,
)
from dumpfilter.statement import Statement


class WriteFilter(ReplicationFilter):
    """An immutable set of write-side rules. The verdict is never UNDECIDED.

    Parameters:
        rules: in any order. Values are whole names: ``a,b`` is one database.
        semantics: see :class:`WriteSemantics`.
        names: the master's server. Its behaviour counts where MySQL and MariaDB differ.

    Raises OptionError for rules of another kind, or a setting that does not exist.
    """

    def __init__(
        self,
        rules: Iterable[Rule] = (),
        *,
        semantics: WriteSemantics = WriteSemantics.SERVER,
        names: NameRules = DEFAULT_NAMES,
    ) -> None:
        self.rules = unique(rules)
        self.semantics = semantics
        self.names = names
        self._collation = collation_of(names)
        if semantics is WriteSemantics.EFFECTIVE:
            raise OptionError(
                "effective semantics: the binlog's rules are --binlog-do and --binlog-ignore of dumpfilter master"
            )
        for rule in self.rules:
            if not isinstance(rule.kind, WriteRuleKind):
                raise OptionError(
                    f"unknown option '--binlog-{rule.kind.option.removeprefix('binlog-')}' in {semantics} semantics; "
                    f"the binlog's are: {option_list(WriteRuleKind)}"
                )
        self._do_db, self._ignore_db = self._keyed(WriteRuleKind.DO_DB), self._keyed(WriteRuleKind.IGNORE_DB)

    def _keyed(self, kind: WriteRuleKind) -> dict[Hashable, Rule]:
        # the first of several equal rules is named as the rule that decided
        return {
            self._collation.database_rule(rule.value): rule
            for rule in reversed(self.rules)
            if rule.kind is kind
        }

    @classmethod
    def from_options(
        cls,
        options: Sequence[str],
        *,
        semantics: WriteSemantics = WriteSemantics.SERVER,
        names: NameRules = DEFAULT_NAMES,
    ) -> WriteFilter:
        """Return a filter from options in the server's spelling. Raises OptionError that names the first bad option.

        >>> WriteFilter.from_options(["--binlog-ignore-db=logs"]).rows_ok("logs", "audit")
        False
        """
        return cls(
            [parse_write_option(option) for option in options],
            semantics=semantics,
            names=names,
        )

    @property
    def is_on(self) -> bool:
        """Whether there is any rule."""
        return bool(self.rules)

    def decide_rows(self, database: str, table: str) -> Decision:
        return self._db(database)

    def decide_statement(self, statement: Statement) -> Decision:
        current = statement.current_database
        if current is None and statement.kind.is_database:
            current = statement.database
        if self.is_on and current is None:
            if self.semantics is WriteSemantics.WORKLOG:
                return Decision(Verdict.IGNORE, Step.BINLOG_NO_DB)
            if self.names.family == "mysql":
                return Decision(Verdict.EXECUTE, Step.BINLOG_NO_DB)
        return self._db(current or "")

    def hits_rows(self, database: str, table: str) -> tuple[BaseRuleKind, ...]:
        """Return no hits. Servers count the hits of a slave's rules only."""
        return ()

    def hits_statement(self, statement: Statement) -> tuple[BaseRuleKind, ...]:
        """Return no hits. Servers count the hits of a slave's rules only."""
        return ()

    def _db(self, name: str) -> Decision:
        """Decide a database as ``Rpl_filter::db_ok`` does. With a do rule the ignore rules are not asked."""
        key = self._collation.database(name)
        if self._do_db:
            if (rule := self._do_db.get(key)) is not None:
                return Decision(Verdict.EXECUTE, Step.BINLOG_DO_DB, rule, name)
            return Decision(Verdict.IGNORE, Step.BINLOG_NO_DO_DB, None, name)
        if self._ignore_db:
            if (rule := self._ignore_db.get(key)) is not None:
                return Decision(Verdict.IGNORE, Step.BINLOG_IGNORE_DB, rule, name)
            return Decision(Verdict.EXECUTE, Step.BINLOG_NO_IGNORE_DB, None, name)
        return Decision(Verdict.EXECUTE, Step.NO_RULES, None, name)
