"""A plain second implementation of the write side by the manual's four steps (WL#2516, "Binlog filtering")."""

from __future__ import annotations

from collections.abc import Sequence

from tests.filter.plain import Names


def is_written(
    do_db: Sequence[str],
    ignore_db: Sequence[str],
    current_database: str | None,
    names: Names,
    *,
    worklog: bool,
) -> bool:
    """Tell whether an event is written. A statement goes by its current database (None: no database), a row event
    by its table's database."""
    # 1. Are there binlog-do-db or binlog-ignore-db rules?
    if not do_db and not ignore_db:
        return True
    # 2. Is there a current database?
    if current_database is None:
        if worklog:
            return False
        if names.family == "mysql":
            return True
        current_database = ""  # MariaDB goes on with the empty name, which no rule has
    # 3. Are there some binlog-do-db rules?
    if do_db:
        return any(names.databases(current_database, rule) for rule in do_db)
    # 4. Does the current database match any of the binlog-ignore-db rules?
    return not any(names.databases(current_database, rule) for rule in ignore_db)
