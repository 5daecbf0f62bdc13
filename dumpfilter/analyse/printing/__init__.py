"""The printing of binlogs as SQL text that the client programs ``mysql`` and ``mariadb`` can run."""
