"""The declaration of command-line options as fields of frozen pydantic models (settings).

The field's type, default and docstring are the option's type, default and help. The function of a command has one
parameter for each class of settings, and gets the options' values as objects of these classes. Several commands can
have the same class.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self, get_args, get_type_hints

import typer
from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import PydanticUndefined

from dumpfilter.base.errors import OptionError
from dumpfilter.base.options.docstrings import attribute_texts

LARGEST_NUMBER = 2**63 - 1
"""The largest number that an option takes. Larger ones fit neither numpy's arrays nor the messages of gRPC. Infinity
is larger, too.
"""


class Settings(BaseModel):
    """The base class of settings: pydantic models whose fields declare the options of a command line. A string literal
    after a field is the option's help.

    Most fields declare one option. The default :func:`setting` gives a field further properties: other names, a
    positional argument, or a value that no option sets. The default :func:`repeated` declares several options, each of
    which may be given several times. ``panel`` is the heading of the options in ``--help``.
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
        """Yield the function parameters (of ``inspect``) from which Typer makes the command-line options and positional
        arguments that this class declares. Their order is that of the fields.

        A field that only the program sets (``is_option=False``) has no parameter. A field with the default
        :func:`repeated` has one parameter for each of its options.
        """
        hints, texts = get_type_hints(cls, include_extras=True), _texts(cls)
        for name, field in cls.model_fields.items():
            extra = texts[name] | _properties(field)
            if not extra.pop("is_option", True):
                continue
            if repeated := extra.pop("repeated", None):
                for option, (_, help, metavar) in repeated.items():
                    extra |= {"help": f"{help} Repeatable.", "metavar": metavar}
                    info = typer.Option(*(f"--{name}" for name in option.split()), **extra)
                    yield _parameter(_python_name(option), Annotated[list[str] | None, info], None)
                continue
            hint, default = hints[name], Parameter.empty if field.is_required() else field.default
            if extra.pop("parse", None):
                default = extra.pop("text")
                hint = str | None if default is None else type(default)
            if Path in (hint, *get_args(hint)) or hint == list[Path] | None:
                extra["parser"] = _path
                if "is_argument" not in extra:
                    extra.setdefault("metavar", "<path>")
            names = extra.pop("names", ())
            if not names and hint is bool and default is False:
                names = (cls.option_of(name),)
            is_argument = extra.pop("is_argument", False)
            info = typer.Argument(**extra) if is_argument else typer.Option(*names, **extra)
            yield _parameter(name, Annotated[hint, info], default)

    @classmethod
    def option_of(cls, field: str) -> str:
        """Return the first spelling of the command-line option that the field ``field`` declares, such as
        ``--server-id``.
        """
        names = _properties(cls.model_fields[field]).get("names")
        return str(names[0]).partition("/")[0] if names else f"--{field.replace('_', '-')}"

    def refuse(self, fields: Iterable[str], why: str) -> None:
        """Raise OptionError if the user has set one of ``fields``. The error names the option, and its text ends with
        ``why``.
        """
        for name in fields:
            value = getattr(self, name)
            if value not in (type(self).model_fields[name].default, []):
                option = self.option_of(name)
                raise OptionError(f"{option.replace('--', '--no-') if value is False else option} {why}")

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Self:
        """Return a settings object with the values that Typer has parsed from the command line. ``values`` has an item
        for each parameter that :meth:`parameters` yields, and may have others.

        A field that only the program sets keeps its default. Raises OptionError for a value that the option's ``parse``
        function refuses, and for a number above :data:`LARGEST_NUMBER`.
        """
        members: dict[str, Any] = {}
        for name, field in cls.model_fields.items():
            properties = _properties(field)
            if repeated := properties.get("repeated"):
                given = {key: values[_python_name(option)] for option, (key, *_) in repeated.items()}
                members[name] = {key: texts for key, texts in given.items() if texts}
            elif properties.get("is_option", True):
                members[name] = value = values[name]
                # A comparison with "not a number" is false.
                if isinstance(value, int | float) and not value <= LARGEST_NUMBER:
                    raise OptionError(
                        f"{cls.option_of(name)}={value}: give a number of at most {LARGEST_NUMBER}"
                    )
                if (parse := properties.get("parse")) and value is not None:
                    members[name] = parse(value, option=cls.option_of(name))
        return cls(**members)


def setting(
    default: Any = PydanticUndefined, *names: str, parse: Callable[..., Any] | None = None, **properties: Any
) -> Any:
    """Return the default of a settings field, together with further properties of the command-line option that the
    field declares.

    ``names`` are the option's spellings, if they are not the field's name with dashes. ``properties`` are keyword
    arguments of ``typer.Option``, such as ``metavar``, ``min``, ``max`` and ``rich_help_panel``. ``is_argument=True``
    declares a positional argument instead, and ``is_option=False`` a field that only the program sets.

    With ``parse`` the user's value is a text or number, of the type of ``default``, and the field has the result of
    ``parse(value, option=…)``. The function gets the option's name for its errors, such as ``--size``.
    """
    extra: dict[str, Any] = {**({"names": names} if names else {}), **properties}
    if parse is not None:
        extra |= {"parse": parse, "text": default}
        default = None if default is None else parse(default)
    return Field(default, json_schema_extra=extra)


def repeated(options: Mapping[str, tuple[Any, str, str]]) -> Any:
    """Return the default of a settings field that declares several repeatable options, such as ``--do-db``, and
    collects their values in a mapping.

    ``options`` has the key, the help and the metavar of each option, by the option's name without dashes in front.
    Several names of an option are separated by spaces. The field maps each option's key to the list of its values. An
    option that is not given has no item.
    """
    return Field({}, json_schema_extra={"repeated": dict(options)})  # type: ignore[arg-type]


def _python_name(option: str) -> str:
    return option.split()[0].replace("-", "_")


def with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Return a wrapper of a command's function in which every option is one parameter, as Typer requires.

    ``command`` has one parameter for each class of settings (group of options). The wrapper makes these settings
    objects from the options' values, and calls ``command`` with them.
    """
    parameters = signature(command, eval_str=True).parameters
    groups: dict[str, type[Settings]] = {name: one.annotation for name, one in parameters.items()}

    def expanded(**values: Any) -> None:
        command(**{name: group.from_values(values) for name, group in groups.items()})

    functools.update_wrapper(expanded, command)
    del expanded.__wrapped__  # type: ignore[attr-defined]  # Typer would follow it to the parameters of ``command``
    options = [each for group in groups.values() for each in group.parameters()]
    expanded.__signature__ = Signature(options)  # type: ignore[attr-defined]
    expanded.__annotations__ = {each.name: each.annotation for each in options}
    return expanded


def _parameter(name: str, annotation: object, default: object) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _path(text: str) -> Path:
    """Return the path ``text``. Raises BadParameter for an empty text, which a script writes for an unset variable, and
    which :class:`Path` would take for the working directory.
    """
    if not text:
        raise typer.BadParameter("the value is empty; name a path, such as . for the working directory")
    return Path(text)


def _properties(field: Any) -> dict[str, Any]:
    return dict(field.json_schema_extra or {})


@functools.cache
def _texts(cls: type[Settings]) -> dict[str, dict[str, str | None]]:
    """Return the help and the panel (heading in ``--help``) of each option field of a class and its bases, by field, as
    keyword arguments of ``typer.Option``.
    """
    found: dict[str, dict[str, str | None]] = {}
    for one in reversed(cls.__mro__):
        if issubclass(one, Settings) and one is not Settings:
            texts = attribute_texts(one)
            for name in one.__annotations__:
                found[name] = {"help": texts.get(name), "rich_help_panel": one.panel}
    return found
