"""Option files (``my.cnf``), read as the servers read them.

The manuals' pages "Using Option Files" (MySQL) and "Configuring MariaDB with Option Files" describe the format. Where
the pages are silent, the reader does what ``my_print_defaults`` of MySQL 9.7 and MariaDB 10.11 do, which agree.

Servers ignore some problems with a warning. They are errors here, since a start without a filter is worse than no
start. The problems are a missing included file, includes nested too deep, an unknown ``!`` directive, and a
world-writable file.

:func:`parse` reads the text of one file, without I/O. :func:`read_options_file` also reads included files.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from dumpfilter.base.errors import OptionError
from dumpfilter.base.options.small_file import read_small_file

MAX_DEPTH = 10
"""The most levels of option files that include each other with ``!include``, as in the servers."""

_SPACE = " \t\n\v\f\r"
_INCLUDES = ("!include", "!includedir")
_ESCAPE = re.compile(r"""\\([ntrbs"'\\])""")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "s": " "}


class OptionFileError(OptionError):
    """An error about an option file that cannot be read, or about a bad line in the file. The text names both."""

    def __init__(self, what: str, *, file: str, line: int | None = None) -> None:
        self.what = what
        self.file = file
        self.line = line
        super().__init__(f"{file}:{line}: {what}" if line is not None else f"{file}: {what}")


class FileOption(NamedTuple):
    """One option as an option file spells it, with its section, file and line (from 1).

    ``value`` is None for a name without an equals sign. A line ``!include`` or ``!includedir`` is an option of this
    name, without a section, whose value is the path. As in the servers, relative paths begin at the working directory.
    """

    section: str
    name: str
    value: str | None
    file: str
    line: int

    def error(self, what: str) -> OptionFileError:
        """Return an error about this option. It has the text ``what`` and the option's file and line."""
        return OptionFileError(what, file=self.file, line=self.line)


def parse(text: str, file: str) -> Iterator[FileOption]:
    r"""Yield the options and ``!include`` lines of an option file's text, in order.

    ``file`` is the file's name for errors. Raises OptionFileError with the file and the line.

    >>> [(o.name, o.value) for o in parse("[mysqld]\nskip_x\ny = 'a # b' # c\nz = a\\sb", "my.cnf")]
    [('skip_x', None), ('y', 'a # b'), ('z', 'a b')]
    """
    section: str | None = None
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.strip(_SPACE)
        if not line or line[0] in "#;":
            continue
        if line[0] == "!":
            yield _directive(line, file, number)
        elif line[0] == "[":
            name, bracket, _ = line[1:].partition("]")
            if not bracket:
                raise OptionFileError("wrong group definition: no ']'", file=file, line=number)
            section = name.rstrip(_SPACE)
        elif section is None:
            raise OptionFileError("found option without preceding group", file=file, line=number)
        else:
            name, equals, value = _without_comment(line).partition("=")
            yield FileOption(section, name.rstrip(_SPACE), _value(value) if equals else None, file, number)


def read_options_file(path: str | os.PathLike[str]) -> list[FileOption]:
    """Return all options of an option file, in order. The options of an included file stand in place of its
    ``!include`` line.

    ``!includedir`` reads the files that end in ``.cnf`` in the order of their names' bytes, as the servers do on Unix.
    Raises OptionFileError.
    """
    return list(_read(os.fspath(path), None, 0))


def _read(path: str, included: FileOption | None, depth: int) -> Iterator[FileOption]:
    for item in parse(_text(path, included), path):
        if item.name not in _INCLUDES:
            yield item
            continue
        if depth == MAX_DEPTH:
            raise item.error(f"includes are nested more than {MAX_DEPTH} deep")
        path_or_directory = item.value or ""
        for file in _files(item, path_or_directory) if item.name == "!includedir" else [path_or_directory]:
            yield from _read(file, item, depth + 1)


def _text(path: str, included: FileOption | None) -> str:
    try:
        file = Path(path)
        mode = file.stat().st_mode
        text = read_small_file(file).decode("utf-8", "surrogateescape")
    except OSError as error:
        what = f"cannot read the option file: {error.strerror}"
        raise included.error(f"{path}: {what}") if included else OptionFileError(what, file=path) from None
    if stat.S_ISREG(mode) and mode & stat.S_IWOTH:
        raise OptionFileError("anybody may write to this option file: chmod o-w", file=path)
    return text


def _files(include: FileOption, directory: str) -> list[str]:
    try:
        names = os.listdir(directory)
    except OSError as error:
        raise include.error(f"{directory}: cannot read the directory: {error.strerror}") from None
    paths = (
        os.path.join(directory, name) for name in sorted(names, key=os.fsencode) if name.endswith(".cnf")
    )
    return [path for path in paths if not os.path.isdir(path)]


def _directive(line: str, file: str, number: int) -> FileOption:
    keyword, *path = re.split(rf"[{_SPACE}]+", _without_comment(line).rstrip(_SPACE), maxsplit=1)
    found = FileOption("", keyword, "".join(path), file, number)
    if keyword not in _INCLUDES:
        raise found.error(f"unknown directive {keyword}: there are !include and !includedir")
    if not found.value:
        raise found.error(f"wrong {keyword} directive: the path is missing")
    return found


def _without_comment(line: str) -> str:
    # A comment begins at the first "#" outside quotes. A backslash escapes a quote only inside quotes.
    quote, escaped = "", False
    for at, character in enumerate(line):
        if character in "'\"" and not escaped and quote in ("", character):
            quote = "" if quote else character
        elif character == "#" and not quote:
            return line[:at]
        escaped = bool(quote) and character == "\\" and not escaped
    return line


def _value(text: str) -> str:
    value = text.strip(_SPACE)
    if len(value) > 1 and value[0] in "'\"" and value[-1] == value[0]:
        value = value[1:-1]
    return _ESCAPE.sub(lambda match: _ESCAPED.get(match[1], match[1]), value)
