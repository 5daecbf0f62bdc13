"""Reading of TOML configuration files into checked pydantic models. Errors name the file and the key."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from dumpfilter.base.errors import OptionError
from dumpfilter.base.options.near import did_you_mean
from dumpfilter.base.options.small_file import read_small_file


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
MAX_DEPTH = 16
"""The limit of tables and lists nested in one another. The deepest useful nesting is three."""

_UNKNOWN = ("extra_forbidden", "unexpected_keyword_argument")
"""The types of pydantic's errors about a key that a model, or a dataclass, does not have."""

_DEEP_KEY = re.compile(rf"""(?<![\w"'-])(?:["']?[\w-]++["']?[ \t]*+\.[ \t]*+){{{MAX_DEPTH}}}""", re.ASCII)
"""The pattern of a dotted key with too many parts. TOML's parser would take time quadratic in the number of parts."""


def parse_toml(text: str, where: str) -> dict[str, Any]:
    """Parse a TOML text, and return its content as nested dictionaries.

    Raises OptionError for a text that is longer than :data:`MAX_TOML` characters, nested too deeply or invalid. The
    error's text begins with ``where``, such as the file's name.
    """
    if len(text) > MAX_TOML:
        raise OptionError(f"{where}: has more than the limit of {MAX_TOML} characters; name the right file")
    deep = f"{where}: is nested too deeply; the limit is {MAX_DEPTH} tables and lists within one another"
    if _DEEP_KEY.search(text):
        raise OptionError(deep)
    try:
        tables = tomllib.loads(text)
    except RecursionError:
        raise OptionError(deep) from None
    except tomllib.TOMLDecodeError as error:
        raise OptionError(f"{where}: {error}") from None
    level: list[object] = [tables]
    for _ in range(MAX_DEPTH):
        level = [inner for one in level for inner in _within(one)]
    if level:
        raise OptionError(deep)
    return tables


def read_toml(path: Path) -> dict[str, Any]:
    """Return the content of a TOML file as nested dictionaries. Raises OptionError that names the file."""
    try:
        return parse_toml(read_small_file(path).decode("utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None


def _within(value: object) -> Iterable[object]:
    values = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [inner for inner in values if isinstance(inner, dict | list)]


def load_toml(path: Path, model: type[_Model], context: Any = WRITTEN) -> _Model:
    """Read a TOML file, check its content with the pydantic class ``model``, and return an object of this class.

    ``context`` is passed to the validators of the class. By default it says that a person wrote the file. Raises
    OptionError that names the file and the bad key, and never shows a value.
    """
    try:
        return model.model_validate(read_toml(path), context=context)
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
    # A misspelt key is often the reason why another key is missing.
    first = next((each for each in errors if each["type"] in _UNKNOWN), errors[0])
    return _key(first["loc"]), f"{_reason(first)}{_near(model, first)}"


def _key(location: tuple[int | str, ...]) -> str:
    # Pydantic's location ("imposed", 1, "rules") becomes "imposed[2].rules", since people count tables from 1.
    return "".join(f"[{part + 1}]" if isinstance(part, int) else f".{part}" for part in location).lstrip(".")


def _reason(error: ErrorDetails) -> str:
    match error["type"]:
        case "extra_forbidden" | "unexpected_keyword_argument":
            return "there is no such key"
        case "missing":
            return "is missing"
        case "tuple_type" | "frozen_set_type":
            return "must be a list, as in ['one', 'two']"
        case "value_error":
            return str(error["ctx"]["error"])
        case "wrong":
            return str(error["ctx"]["reason"])
        case "literal_error":
            return f"is not one of {error['ctx']['expected']}"
    return error["msg"][:1].lower() + error["msg"][1:]


def _near(model: type, error: ErrorDetails) -> str:
    """Return the hint "did you mean …" for an error about an unknown key; an empty text for other errors."""
    if error["type"] not in _UNKNOWN:
        return ""
    *tables, key = (part for part in error["loc"] if isinstance(part, str))
    for table in tables:
        field = _fields(model).get(table)
        within = _models(field.annotation) if field else []
        if not within:
            return ""
        model = within[0]
    return did_you_mean(key, _fields(model))


def _fields(model: type) -> dict[str, FieldInfo]:
    """Return the fields of a pydantic model or dataclass, by the keys that a person writes."""
    fields: dict[str, FieldInfo] = getattr(model, "__pydantic_fields__", {})
    return {field.alias or name: field for name, field in fields.items() if not field.exclude}


def _models(annotation: Any) -> list[type]:
    """Return the pydantic models in a type annotation such as ``tuple[Model, ...]``."""
    if hasattr(annotation, "__pydantic_fields__"):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models(part)]
