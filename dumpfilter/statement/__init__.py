"""What a statement touches: kind, current database, the databases of what it changes."""

from dumpfilter.statement.head import database_statement, object_databases
from dumpfilter.statement.statement import Statement, StatementKind

__all__ = ["Statement", "StatementKind", "database_statement", "object_databases"]
