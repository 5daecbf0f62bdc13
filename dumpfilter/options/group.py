"""Option groups: the function of a command has one parameter for each group, and gets its values as one object.

Several commands can have the same group. Most groups are settings (:mod:`dumpfilter.options.settings`).
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from inspect import Parameter, Signature, signature
from typing import Any, Self, TypeVar

T = TypeVar("T")


class OptionGroup:
    """Options that the function of a command gets as one object."""

    @classmethod
    def parameters(cls) -> Iterator[Parameter]:
        """Yield the group's options in the order of ``--help``, as parameters of a function for Typer."""
        raise NotImplementedError

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Self:
        """Return a group object for the values that Typer parsed, by parameter name."""
        return cls(**values)


def option(name: str, annotation: object, default: object = None) -> Parameter:
    """Return the function parameter that makes Typer offer one option.

    ``annotation`` is ``Annotated[…, typer.Option(…)]``. The parameter can be given by name only.
    """
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


_resources: ContextVar[contextlib.ExitStack] = ContextVar("resources of a command")


def until_end_of_command(resource: AbstractContextManager[T]) -> T:
    """Enter a context manager that the end of the running command exits, and return what the manager yields."""
    return _resources.get().enter_context(resource)


def with_option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Wrap the function of a command so that Typer sees every option of its groups as a parameter.

    The returned function collects the option values of each group into one object, and calls ``command`` with these
    objects. Parameters of ``command`` that are not groups stay as they are.
    """
    parameters: list[Parameter] = []
    groups: dict[str, tuple[type[OptionGroup], list[str]]] = {}
    for parameter in signature(command, eval_str=True).parameters.values():
        if isinstance(parameter.annotation, type) and issubclass(parameter.annotation, OptionGroup):
            options = list(parameter.annotation.parameters())
            groups[parameter.name] = parameter.annotation, [each.name for each in options]
            parameters += options
        else:
            parameters.append(parameter.replace(kind=Parameter.KEYWORD_ONLY))

    def expanded(**values: Any) -> None:
        for name, (group, options) in groups.items():
            values[name] = group.from_values({each: values.pop(each) for each in options})
        with contextlib.ExitStack() as resources:
            token = _resources.set(resources)
            try:
                command(**values)
            finally:
                _resources.reset(token)

    functools.update_wrapper(expanded, command)
    del expanded.__wrapped__  # type: ignore[attr-defined]  # Typer would follow it to the parameters of ``command``
    expanded.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    expanded.__annotations__ = {each.name: each.annotation for each in parameters}
    return expanded
