"""Reading of TOML configuration files into checked pydantic models. Errors name the file and the key."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from dumpfilter.errors import OptionError
from dumpfilter.options.small_file import read_small_file


class Model(BaseModel):
    """The base of models for the tables of a TOML file. Unknown keys are errors.

    Errors never show a value, because the value may be a password.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


_Model = TypeVar("_Model", bound=BaseModel)


def load_toml(path: Path, model: type[_Model]) -> _Model:
    """Read a TOML file into a model.

    Raises OptionError that names the file and the bad key, and never shows a value.
    """
    try:
        return model.model_validate(tomllib.loads(read_small_file(path).decode("utf-8")))
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    except RecursionError:
        raise OptionError(f"{path}: is nested too deeply") from None
    except tomllib.TOMLDecodeError as error:
        raise OptionError(f"{path}: {error}") from None
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        raise OptionError(f"{path}: {_key(first['loc'])}: {_reason(first['type'], first['msg'])}") from None


def _key(location: tuple[int | str, ...]) -> str:
    # Pydantic's location ("imposed", 1, "rules") becomes "imposed[2].rules", since people count tables from 1.
    return "".join(f"[{part + 1}]" if isinstance(part, int) else f".{part}" for part in location).lstrip(".")


def _reason(kind: str, message: str) -> str:
    reasons = {"extra_forbidden": "there is no such key", "missing": "is missing"}
    return reasons.get(kind, message[:1].lower() + message[1:])
