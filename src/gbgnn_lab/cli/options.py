"""Options of a command, made of the fields of a dataclass."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, fields
from typing import Annotated, Any

import typer

from gbgnn.cli.options import key_values
from gbgnn_lab.experiments.options import Flag, read_flags

KEYWORD_ONLY = inspect.Parameter.KEYWORD_ONLY


def with_options(kind: type[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that gives a command an option for every flag of ``kind``.

    The command itself takes them as one argument, ``options``, a ``kind``.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        flags = read_flags(kind)

        @functools.wraps(command)
        def run(**given: Any) -> None:
            asked = {name: value for name in flags if (value := given.pop(name)) is not None}
            asked["data_options"] = key_values(asked.get("data_options"), "--data-option")
            several = {name: tuple(value) for name, value in asked.items() if isinstance(value, list)}
            command(options=kind(**asked | several), **given)

        own = inspect.signature(command, eval_str=True).parameters.values()
        parameters = [each.replace(kind=KEYWORD_ONLY) for each in own if each.name != "options"]
        # After the command's own arguments, and before its own options.
        n_arguments = sum(each.default is inspect.Parameter.empty for each in parameters)
        parameters[n_arguments:n_arguments] = [
            _make_parameter(each, flags[each.name]) for each in fields(kind) if each.name in flags
        ]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return run

    return decorate


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
