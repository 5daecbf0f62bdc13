"""The filter of the server that writes a binlog: ``--binlog-do-db`` and ``--binlog-ignore-db`` keep events out of it.

The filter does what the servers' ``binlog_filter`` does with ``Rpl_filter::db_ok`` (``MYSQL_BIN_LOG::write_event``,
MariaDB's ``MYSQL_BIN_LOG::write``, ``THD::decide_logging_format``). The default database decides about a statement, and
the table's database decides about row events. The named database decides about CREATE, ALTER and DROP DATABASE, because
a server logs the named database as their default database. The answers of real servers are in
tests/oracle/data/recordings/{mysql,mariadb}-write-*. docs/filters.md describes them in words.
"""

from __future__ import annotations

from collections.abc import Iterable

from dumpfilter.base.errors import OptionError
from dumpfilter.binlog.format import DEFAULT_NAMES, NameRules
from dumpfilter.filter.base import RuleFilter
from dumpfilter.filter.decision import Decision, Step, Verdict
from dumpfilter.filter.rules import (
    BaseRuleKind,
    Rule,
    WriteRuleKind,
    WriteSemantics,
    option_list,
    parse_write_option,
)
from dumpfilter.index.subjects import Subject, TableSubject


class WriteFilter(RuleFilter):
    """An immutable set of the rules by which a server keeps events out of its own binlog, for all slaves. A changed
    filter is a new object.

    The filter decides about each event itself (the verdict is never UNDECIDED), because the rules need only the event's
    database. A comma is part of a name, so ``a,b`` is one database. ``semantics`` is the treatment of statements
    without a default database.
    """

    _parse = staticmethod(parse_write_option)

    def __init__(
        self,
        rules: Iterable[Rule] = (),
        *,
        semantics: WriteSemantics = WriteSemantics.SERVER,
        names: NameRules = DEFAULT_NAMES,
    ) -> None:
        super().__init__(rules, names=names)
        self.semantics = semantics
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
        key = self._collation.database_rule
        self._do_db = self._keyed(WriteRuleKind.DO_DB, key)
        self._ignore_db = self._keyed(WriteRuleKind.IGNORE_DB, key)

    @property
    def is_on(self) -> bool:
        """Whether the filter could drop any event. A filter without rules drops nothing."""
        return bool(self.rules)

    def decide(self, subject: Subject) -> Decision:
        if isinstance(subject, TableSubject):
            return self._db(subject.database)
        current = subject.current_database
        if current is None and subject.kind.is_database:
            current = subject.database
        if self.is_on and current is None:
            if self.semantics is WriteSemantics.WORKLOG:
                return Decision(Verdict.IGNORE, Step.BINLOG_NO_DB)
            if self.names.family == "mysql":
                return Decision(Verdict.EXECUTE, Step.BINLOG_NO_DB)
        return self._db(current or "")

    def hits(self, subject: Subject) -> tuple[BaseRuleKind, ...]:
        """Return an empty tuple, since servers count hits (matches) only for a slave's rules and not for
        binlog rules.
        """
        return ()

    def _db(self, name: str) -> Decision:
        # As in Rpl_filter::db_ok, a server with --binlog-do-db rules does not ask its --binlog-ignore-db rules.
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
