"""Configuration files: option files (``my.cnf``), TOML files and files with a password. Errors name the file, and the
line or key.

**Option files** are read as the servers read them. The manuals' pages "Using Option Files" (MySQL) and "Configuring
MariaDB with Option Files" describe the format. Where the pages are silent, the reader does what ``my_print_defaults``
of MySQL 9.7 and MariaDB 10.11 do, which agree. :func:`parse` reads the text of one file, without I/O.
:func:`read_options_file` also reads included files.

Servers ignore some problems with a warning. Here these problems are errors, since a start without a filter is worse
than no start. The problems are a missing included file, includes nested too deep, an unknown ``!`` directive, and a
world-writable file.

**TOML files** are read into checked pydantic models (:func:`load_toml`).
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from dumpfilter.base.errors import OptionError
from dumpfilter.base.options.values import did_you_mean

MAX_SIZE = 16 << 20
"""The largest configuration file that is read, bytes. Without a limit, /dev/zero would take all memory."""


def read_small_file(path: Path) -> bytes:
    """Return the content of a file of at most 16 MiB (``MAX_SIZE``). Raises OptionError for a larger file, and OSError
    for a file that cannot be read.
    """
    with open(path, "rb") as file:
        data = file.read(MAX_SIZE + 1)
    if len(data) > MAX_SIZE:
        raise OptionError(f"{path}: has more than the limit of {MAX_SIZE} bytes; name the right file")
    return data


def read_password(path: Path | None, variable: str = "") -> str:
    """Return the password in the first line of the file ``path`` or, with None for ``path``, in the environment
    variable ``variable``.

    The password is empty if the file is empty or the variable is not set. No option takes a password itself, because
    other users of the machine can see command lines. Raises OptionError for a file that cannot be read, and for a
    password that is not UTF-8.
    """
    try:
        if path is None:
            return os.fsencode(os.environ.get(variable, "")).decode("utf-8")
        lines = read_small_file(path).decode("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise OptionError(f"{path or variable}: the password cannot be read: {reason}") from None
    return lines[0] if lines else ""


MAX_DEPTH = 10
"""The limit of option files that include each other with ``!include``, levels, as in the servers."""

_SPACE = " \t\n\v\f\r"
_INCLUDES = ("!include", "!includedir")
_BEFORE_COMMENT = re.compile(r"""(?:"(?:\\.|[^"\\])*(?:"|\\?$)|'(?:\\.|[^'\\])*(?:'|\\?$)|[^#"'])*""")
"""The part of a line before a comment, which begins at the first "#" outside quotes. A backslash escapes a quote only
inside quotes.
"""
_ESCAPE = re.compile(r"""\\([ntrbs"'\\])""")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "s": " "}


class UnknownOption(OptionError):
    """An error about an option that does not exist. The text names a similar option, if there is one."""


class GivenOption(NamedTuple):
    """One option that a user has given, in an option file or on the command line.

    ``value`` is None for a name without an equals sign. :meth:`OptionNames.find` returns the option with its name in
    dumpfilter, and with the value True or False for a flag.

    A line ``!include PATH`` or ``!includedir PATH`` of an option file is an option, too. Such an option has the name
    ``!include`` or ``!includedir``, the path as value, and no section. As in the servers, relative paths begin at the
    working directory.
    """

    name: str
    value: str | bool | None
    section: str = ""
    file: str = ""
    """The path of the option file; empty for the command line."""
    line: int = 0

    def error(self, what: str, kind: type[OptionError] = OptionError) -> OptionError:
        """Return an error with the text ``what`` about the option. The error names the line of the option file."""
        return kind(f"{self.file}:{self.line}: {what}" if self.file else what)


def parse(text: str, file: str) -> Iterator[GivenOption]:
    r"""Yield the options and ``!include`` lines of an option file's text, in order.

    ``file`` is the file's name for errors. Raises OptionError, with the file and the line, for an unknown directive, a
    section without ``]``, and an option before the first section.

    >>> [(o.name, o.value) for o in parse("[mysqld]\nskip_x\ny = 'a # b' # c\nz = a\\sb", "my.cnf")]
    [('skip_x', None), ('y', 'a # b'), ('z', 'a b')]
    """
    section: str | None = None
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.strip(_SPACE)
        if not line or line[0] in "#;":
            continue
        here = GivenOption("", None, section or "", file, number)
        code = str(_BEFORE_COMMENT.match(line)[0])  # type: ignore[index]
        if line[0] == "!":
            keyword, *path = re.split(rf"[{_SPACE}]+", code.rstrip(_SPACE), maxsplit=1)
            if keyword not in _INCLUDES:
                raise here.error(f"unknown directive {keyword}: there are !include and !includedir")
            if not path:
                raise here.error(f"wrong {keyword} directive: the path is missing")
            yield here._replace(section="", name=keyword, value=path[0])
        elif line[0] == "[":
            name, bracket, _ = line[1:].partition("]")
            if not bracket:
                raise here.error("wrong group definition: no ']'")
            section = name.rstrip(_SPACE)
        elif section is None:
            raise here.error("found option without preceding group")
        else:
            name, equals, value = code.partition("=")
            yield here._replace(name=name.rstrip(_SPACE), value=_value(value) if equals else None)


def read_options_file(path: str | os.PathLike[str]) -> list[GivenOption]:
    """Return all options of an option file, in order. The options of an included file stand in place of its
    ``!include`` line.

    ``!includedir`` reads the files that end in ``.cnf`` in the order of their names' bytes, as the servers do on Unix.
    Raises OptionError for a file that cannot be read, is malformed or world-writable, and for includes nested too
    deeply.
    """
    return list(_read(os.fspath(path), None, 0))


def _read(path: str, included: GivenOption | None, depth: int) -> Iterator[GivenOption]:
    try:
        mode = os.stat(path).st_mode
        text = read_small_file(Path(path)).decode("utf-8", "surrogateescape")
    except OSError as error:
        what = f"{path}: cannot read the option file: {error.strerror}"
        raise (included.error(what) if included else OptionError(what)) from None
    if stat.S_ISREG(mode) and mode & stat.S_IWOTH:
        raise OptionError(f"{path}: anybody may write to this option file: chmod o-w")
    for item in parse(text, path):
        if item.name not in _INCLUDES:
            yield item
            continue
        if depth == MAX_DEPTH:
            raise item.error(f"includes are nested more than {MAX_DEPTH} deep")
        paths = [str(item.value)]
        if item.name == "!includedir":
            try:
                names = sorted(os.listdir(*paths), key=os.fsencode)
            except OSError as error:
                raise item.error(f"{item.value}: cannot read the directory: {error.strerror}") from None
            files = (os.path.join(*paths, name) for name in names if name.endswith(".cnf"))
            paths = [file for file in files if not os.path.isdir(file)]
        for one in paths:
            yield from _read(one, item, depth + 1)


def _value(text: str) -> str:
    value = text.strip(_SPACE)
    if len(value) > 1 and value[0] in "'\"" and value[-1] == value[0]:
        value = value[1:-1]
    return _ESCAPE.sub(lambda match: _ESCAPED.get(match[1], match[1]), value)


class Model(BaseModel):
    """The base class of pydantic models that check TOML configuration files, one model for each TOML table. Unknown
    keys are errors.

    Errors never show a value, because the value may be a password.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


_Model = TypeVar("_Model", bound=BaseModel)

WRITTEN = "written"
"""The pydantic validation context for a file that a person wrote, in which a size or time needs its unit."""

MAX_TOML = 4 << 20
"""The largest TOML file that is read, bytes. The largest useful one has the rules of some thousand slaves."""
MAX_NESTING = 16
"""The limit of tables and lists nested in one another. The deepest useful nesting is three."""

_DEEP_KEY = re.compile(rf"""(?<![\w"'-])(?:["']?[\w-]++["']?[ \t]*+\.[ \t]*+){{{MAX_NESTING}}}""", re.ASCII)
"""The pattern of a dotted key with too many parts. TOML's parser would take time quadratic in the number of parts."""


def parse_toml(text: str, where: str) -> dict[str, Any]:
    """Parse a TOML text, and return its content as nested dictionaries.

    Raises OptionError for a text that is longer than :data:`MAX_TOML` characters, nested too deeply or invalid. The
    error's text begins with ``where``, such as the file's name.
    """
    import tomllib  # Most commands read no TOML file.

    if len(text) > MAX_TOML:
        raise OptionError(f"{where}: has more than the limit of {MAX_TOML} characters; name the right file")
    deep = f"{where}: is nested too deeply; the limit is {MAX_NESTING} tables and lists within one another"
    if _DEEP_KEY.search(text):
        raise OptionError(deep)
    try:
        tables = tomllib.loads(text)
    except RecursionError:
        raise OptionError(deep) from None
    except tomllib.TOMLDecodeError as error:
        raise OptionError(f"{where}: {error}") from None
    level: list[Any] = [tables]
    for _ in range(MAX_NESTING):
        inner = (value for one in level for value in (one.values() if isinstance(one, dict) else one))
        level = [value for value in inner if isinstance(value, dict | list)]
    if level:
        raise OptionError(deep)
    return tables


def read_toml(path: Path) -> dict[str, Any]:
    """Return the content of a TOML file as nested dictionaries. Raises OptionError, which names the file, for a file
    that cannot be read or is no valid TOML.
    """
    try:
        return parse_toml(read_small_file(path).decode("utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None


def load_toml(path: Path, model: type[_Model], context: Any = WRITTEN) -> _Model:
    """Read a TOML file, check its content with the pydantic class ``model``, and return an object of this class.

    ``context`` is passed to the validators of the class. By default it says that a person wrote the file. Raises
    OptionError that names the file and the bad key, and never shows a value.
    """
    try:
        # A model that Python fills by the fields' names takes their keys alone from a file.
        return model.model_validate(read_toml(path), context=context, by_name=False)
    except ValidationError as error:
        key, reason = reason_of(error, model)
        raise OptionError(f"{path}: {key}: {reason}") from None


def wrong(reason: str, *location: str | int) -> ValidationError:
    """Return the error that a validator of a pydantic model raises to reject a key of a TOML file.

    ``reason`` is the error's text, and ``location`` the path to the key within the model, such as ``"imposed", 1,
    "rules"``.
    """
    kind = PydanticCustomError("wrong", "{reason}", {"reason": reason})
    return ValidationError.from_exception_data(
        "wrong", [InitErrorDetails(type=kind, loc=location, input=None)]
    )


def reason_of(error: ValidationError, model: type) -> tuple[str, str]:
    """Return the key and the reason of the most useful error that pydantic has found in a TOML file.

    The key is a text such as ``imposed[2].rules``, and the reason shows no value. ``model`` is the pydantic model of
    the file, whose keys give the hint for a misspelt key. An error about an unknown key comes first, because a misspelt
    key is often the reason for a missing one.
    """
    errors = error.errors(include_input=False, include_url=False)
    first = next((each for each in errors if each["type"] == "extra_forbidden"), errors[0])
    location = first["loc"]
    # Pydantic's location ("imposed", 1, "rules") becomes "imposed[2].rules", since people count tables from 1.
    key = "".join(f"[{part + 1}]" if isinstance(part, int) else f".{part}" for part in location).lstrip(".")
    return key, _reason(model, location, first)


def _reason(model: type, location: tuple[int | str, ...], error: ErrorDetails) -> str:
    match error["type"]:
        case "extra_forbidden":
            *tables, key = (part for part in location if isinstance(part, str))
            fields = _fields(model)
            for table in tables:
                # Another name, such as that of a link, is a key of the table before.
                if table in fields:
                    within = _models(fields[table].annotation)
                    fields = _fields(within[0]) if within else {}
            return f"there is no such key{did_you_mean(key, fields)}"
        case "missing":
            return "is missing"
        case "tuple_type" if len(location) == 1 and _models(_fields(model)[str(location[0])].annotation):
            return f"is a list of tables: write [[{location[0]}]] above each of them"
        case "tuple_type" | "frozen_set_type":
            return "must be a list, as in ['one', 'two']"
        case "model_type" | "dict_type":
            return 'must be a table, as in { key = "value" }'
        case "path_type":
            return "must be the path of a file or directory, as a text"
        case "value_error":
            return str(error["ctx"]["error"])
        case "wrong":
            return str(error["ctx"]["reason"])
        case "literal_error":
            return f"is not one of {error['ctx']['expected']}"
    return error["msg"][:1].lower() + error["msg"][1:]


def _fields(model: type) -> dict[str, FieldInfo]:
    """Return the fields of a pydantic model, by the keys under which a TOML file sets the fields.

    Fields that only the program sets are left out.
    """
    fields: dict[str, FieldInfo] = getattr(model, "__pydantic_fields__", {})
    return {field.alias or name: field for name, field in fields.items() if not field.exclude}


def _models(annotation: Any) -> list[type]:
    """Return the pydantic models in a type annotation such as ``tuple[Model, ...]``."""
    if hasattr(annotation, "__pydantic_fields__"):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models(part)]
