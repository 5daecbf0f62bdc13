"""Printing of binlogs as SQL text that the client program ``mysql`` or ``mariadb`` can run again."""
