"""Options of a command, made of the fields of a dataclass."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields
from typing import Annotated, Any, TypeVar

import typer

from gbgnn.cli.options import key_values
from gbgnn_lab.experiments.options import Flag, read_flags

KEYWORD_ONLY = inspect.Parameter.KEYWORD_ONLY
T = TypeVar("T")


def with_options(kind: type[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that gives a command an option for every flag of ``kind``.

    The command itself takes them as ``**given``, for :func:`read_options`.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command, eval_str=True).parameters.values()
        parameters = [each.replace(kind=KEYWORD_ONLY) for each in own if each.name != "given"]
        flags = read_flags(kind)
        made = [_make_parameter(each, flags[each.name]) for each in fields(kind) if each.name in flags]
        # After the command's own arguments, and before its own options.
        n_arguments = sum(each.default is inspect.Parameter.empty for each in parameters)
        parameters[n_arguments:n_arguments] = made
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return command

    return decorate


def read_options(kind: type[T], given: Mapping[str, Any]) -> T:
    """Return the options of a command as a ``kind``; what was not given has its default."""
    asked = {name: value for name, value in given.items() if value is not None}
    asked["data_options"] = key_values(asked.get("data_options"), "--data-option")
    several = {name: tuple(value) for name, value in asked.items() if isinstance(value, list)}
    return kind(**asked | several)


def _make_parameter(field: Field[Any], flag: Flag) -> inspect.Parameter:
    """Return what typer reads: the type of a field, and how it is asked for."""
    default = None if flag.is_many or field.default is MISSING else field.default
    known: dict[str, Any] = {"help": flag.help, "show_default": default not in (None, False)}
    known["metavar"] = flag.metavar or {bool: None, int: "N", str: "NAME"}[flag.type]
    kind: Any = list[flag.type] if flag.is_many else flag.type  # type: ignore[name-defined]
    if flag.is_argument:
        given: Any = Annotated[kind, typer.Argument(**known)]
        return inspect.Parameter(field.name, KEYWORD_ONLY, annotation=given)
    info = typer.Option(*flag.names, rich_help_panel=flag.panel, **known)
    given = Annotated[kind if default is not None else kind | None, info]
    return inspect.Parameter(field.name, KEYWORD_ONLY, default=default, annotation=given)
