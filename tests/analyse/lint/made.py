"""Knowledge about sets that tests write as a few statements and tables."""

from __future__ import annotations

from dumpfilter.analyse.lint.knowledge import Evidence, SetEvent, SetKnowledge
from dumpfilter.analyse.lint.linting import lint
from dumpfilter.binlog.format import Family, NameRules
from dumpfilter.binlog.query import QueryEvent, StatusVariables
from dumpfilter.binlog.statement.facts import read_text, statement_facts
from dumpfilter.binlog.statement.parse import make_statement
from dumpfilter.filter.filter import Filter
from dumpfilter.index.subjects import TableSubject

ROWS = "rows of "


def query(text: str, database: str = "", *, flags2: int = 0, session: int = 1) -> QueryEvent:
    """Return a Query event with a statement."""
    return QueryEvent(
        thread_id=session,
        exec_time=0,
        error_code=0,
        db=database,
        status=StatusVariables(flags2=flags2),
        raw=text.encode(),
        text=text,
        has_certain_tokens=True,
        tables_info=None,
    )


def knowledge(*lines: str, family: Family = "mysql") -> SetKnowledge:
    """Return the knowledge about a set. A line is ``rows of DB.TABLE``, or ``DB: STATEMENT``.

    A statement without a current database begins with a colon.
    """
    found = SetKnowledge()
    for number, line in enumerate(lines):
        place = Evidence("bin.000001", 100 + number, line)
        if line.startswith(ROWS):
            database, _, table = line.removeprefix(ROWS).partition(".")
            event = SetEvent(TableSubject(database, table), place)
        else:
            database, _, text = (part.strip() for part in line.partition(":"))
            made = query(text, database)
            statement = make_statement(
                read_text(text, family=family), current_database=database or None, table_map_for_update=0b11
            )
            event = SetEvent(statement, place, statement_facts(made, family), made.thread_id)
        found.events.append(event)
        found.name(event)
    return found


def codes(known: SetKnowledge, *rules: str, names: NameRules | None = None) -> list[str]:
    """Return the codes of the warnings about a filter. Rules are written without ``--replicate-``."""
    options = [f"--replicate-{rule}" for rule in rules]
    rule_filter = Filter.from_options(options, names=names or NameRules())
    return [warning.code.value for warning in lint(rule_filter, known)]
