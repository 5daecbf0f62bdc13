"""Settings: an option of the command line is declared once, as a field of a frozen pydantic model.

The field's type, default and docstring are the option's type, default and help.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from inspect import Parameter
from typing import Annotated, Any, ClassVar, get_type_hints

import typer
from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import PydanticUndefined

from dumpfilter.options.docstrings import attribute_texts
from dumpfilter.options.group import OptionGroup, option


class Settings(BaseModel, OptionGroup):
    """The base of option groups whose fields are options. A string literal after a field is the option's help.

    ``panel`` is the heading of the options in ``--help``. A field with further properties has :func:`setting` as its
    default.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        defer_build=True,
        hide_input_in_errors=True,
        arbitrary_types_allowed=True,
    )
    panel: ClassVar[str | None] = None

    def __init_subclass__(cls, *, panel: str | None = None, **more: Any) -> None:
        super().__init_subclass__(**more)
        cls.panel = panel or cls.panel

    @classmethod
    def parameters(cls) -> Iterator[Parameter]:
        """Yield the group's options in the order of ``--help``, as parameters of a function for Typer."""
        hints, told = get_type_hints(cls, include_extras=True), _told(cls)
        for name, field in cls.model_fields.items():
            extra: dict[str, Any] = {
                **told[name],
                **(field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}),
            }
            if not extra.pop("is_option", True):
                continue
            names = extra.pop("names", ())
            if not names and hints[name] is bool and field.default is False:
                names = (f"--{name.replace('_', '-')}",)
            make = (
                typer.Argument if extra.pop("is_argument", False) else functools.partial(typer.Option, *names)
            )
            default = Parameter.empty if field.default is PydanticUndefined else field.default
            yield option(name, Annotated[hints[name], make(**extra)], default)


def setting(default: Any = PydanticUndefined, *names: str, **properties: Any) -> Any:
    """Return the default of a field of settings with further properties of its option.

    ``names`` are the spellings, if they are not the field's name with dashes. ``properties`` are those of
    ``typer.Option``, such as ``metavar``, ``min``, ``max`` and ``rich_help_panel``. ``is_argument`` makes an argument,
    and ``is_option=False`` a field that only the program sets.
    """
    extra: dict[str, Any] = {**({"names": names} if names else {}), **properties}
    return Field(default, json_schema_extra=extra)


@functools.cache
def _told(cls: type[Settings]) -> dict[str, dict[str, str | None]]:
    """Return the panel of each field of a class and of its bases, and the text that stands after the field."""
    found: dict[str, dict[str, str | None]] = {}
    for one in reversed(cls.__mro__):
        if issubclass(one, Settings) and one is not Settings:
            for name, text in attribute_texts(one).items():
                found[name] = {"help": text, "rich_help_panel": one.panel}
    return found
