"""The errors and warnings that a console (a port for MySQL clients) sends to its clients, with the names, numbers and
texts of MySQL 9.7.

The file ``server_errors.tsv`` lists them.

>>> str(MESSAGES["ER_REPLICA_CHANNEL_DOES_NOT_EXIST"]("ch1"))
"ERROR 3074 (HY000): Replica channel 'ch1' does not exist."
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import resources

from dumpfilter.base.errors import DumpfilterError
from dumpfilter.console.sql.result import Note


class SqlError(DumpfilterError):
    """The error that ends a client's SQL statement. A client shows it as ``ERROR number (sqlstate): message``."""

    def __init__(self, number: int, sqlstate: str, message: str) -> None:
        super().__init__(message)
        self.number = number
        self.sqlstate = sqlstate
        self.message = message

    def __str__(self) -> str:
        return f"ERROR {self.number} ({self.sqlstate}): {self.message}"


@dataclass(frozen=True)
class Message:
    """The template of an error message of a MySQL server: its number, SQLSTATE, and text with placeholders. Calling the
    object with values for the placeholders returns the SqlError to raise.
    """

    number: int
    sqlstate: str
    text: str
    """The server's text with C's placeholders, such as ``%d`` and ``%.64s`` (at most 64 bytes)."""

    def __call__(self, *values: object) -> SqlError:
        """Return the error as an exception, which the caller raises. ``values`` replace the placeholders of
        :attr:`text`, such as ``%s``, in order.
        """
        return SqlError(self.number, self.sqlstate, self._format(values))

    def note(self, *values: object) -> Note:
        """Return the message as a row of SHOW WARNINGS with the level Note. ``values`` replace the placeholders of
        :attr:`text`, such as ``%s``, in order.
        """
        return Note("Note", self.number, self._format(values))

    def warning(self, *values: object) -> Note:
        """Return the message as a row of SHOW WARNINGS with the level Warning. ``values`` replace the placeholders of
        :attr:`text`, such as ``%s``, in order.
        """
        return Note("Warning", self.number, self._format(values))

    def _format(self, values: tuple[object, ...]) -> str:
        # The precision in "%.64s" counts bytes in the server's texts, but characters in Python's.
        limits = [int(precision or 0) for precision in _CONVERSION.findall(self.text)]
        cut = [
            _first_bytes(str(value), limit) if limit else value
            for value, limit in zip(values, limits, strict=True)
        ]
        return self.text % tuple(cut)


_CONVERSION = re.compile(r"%(?:\.([0-9]+))?[sd]")


def _first_bytes(text: str, limit: int) -> str:
    # The server handles the text as a C string, which ends at its first NUL. Where the server cuts a character of
    # several bytes in two, it sends each byte of the first half as a character.
    text, _, _ = text[:limit].partition("\0")
    data = text.encode("utf-8", "surrogatepass")[:limit]
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as half:
        return data[: half.start].decode("utf-8", "surrogatepass") + data[half.start :].decode("latin-1")


_TABLE = resources.files("dumpfilter.console.sql").joinpath("server_errors.tsv").read_text("utf-8")
_ROWS = (line.split("\t") for line in _TABLE.splitlines() if not line.startswith("#"))
MESSAGES = {name: Message(int(number), state, text) for number, state, name, text in _ROWS}
"""The messages by their names, such as ``ER_PARSE_ERROR``. Each is an attribute of this module, too."""


def __getattr__(name: str) -> Message:
    try:
        return MESSAGES[name]
    except KeyError:
        raise AttributeError(name) from None


_CHECK_THE_MANUAL = (
    "You have an error in your SQL syntax; check the manual that corresponds to your MySQL server version for the "
    "right syntax to use"
)


def too_long(most: int) -> SqlError:
    """Return the error for a statement of more than ``most`` characters, which the console does not parse.

    A server raises the same error when a statement exceeds its parser's memory limit.
    """
    return MESSAGES["ER_CAPACITY_EXCEEDED"](most, "parser_max_mem_size", "Parser bailed out for this query.")


def syntax_error(text: str, position: int) -> SqlError:
    """Return the server's syntax error (ER_PARSE_ERROR) for the statement ``text``.

    ``position`` is the index of the first character that the grammar does not allow. The message quotes the statement
    from this character on, and gives the number of its line, counted from 1.
    """
    return MESSAGES["ER_PARSE_ERROR"](_CHECK_THE_MANUAL, text[position:], text.count("\n", 0, position) + 1)
