"""What a statement touches: kind, current database, the tables it updates, the databases of what it changes."""

from dumpfilter.statement.head import database_statement, object_databases
from dumpfilter.statement.statement import Statement, StatementKind, TableName

__all__ = ["Statement", "StatementKind", "TableName", "database_statement", "object_databases"]
