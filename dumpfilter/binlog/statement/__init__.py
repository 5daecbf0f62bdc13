"""Parsing of binlogged statements: from a text, the kind of statement and the databases and tables that it names."""
