"""What all commands share: their options, the examples under their help, errors in one line, exit codes."""

from __future__ import annotations

import inspect
import os
import re
import signal
import sys
import tomllib
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from gbgnn.cli import screen
from gbgnn.errors import GBGNNError, GBGNNWarning
from gbgnn.runs import catch_termination

HELP: dict[str, Any] = tomllib.loads(Path(__file__).with_name("help.toml").read_text(encoding="utf-8"))
"""Examples and parameters of every command, and the options of a model that no part describes."""

ERROR, USAGE, BROKEN_PIPE = 1, 2, 141

_ASKED = re.compile(r"allocate ([\d.]+) ([KMGTP]?i?B|bytes)")


class UsageError(GBGNNError):
    """Options that do not go together."""


class GuardedGroup(TyperGroup):
    """The commands of an application, with every expected failure of theirs one line and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for."""
        with guarded():
            try:
                return super().invoke(ctx)
            except Exception as error:  # of typer's: what it says of a wrong option has the option in it
                message = getattr(error, "message", None)
                if isinstance(message, str):
                    vars(error)["message"] = screen.tamed(message)
                raise


def register(
    app: typer.Typer, function: Callable[..., None], *, cls: type[TyperCommand] | None = None
) -> None:
    """Add a command, its docstring as help and its examples below."""
    app.command(cls=cls, help=read_help(function), epilog=epilog(function.__name__))(with_help(function))


def with_help(function: Callable[..., None]) -> Callable[..., None]:
    """Give the parameters of a command what :data:`HELP` says of them, but for those that typer knows.

    A parameter that is a dataclass of options stands for its fields.
    """
    told = HELP["parameters"]["shared"] | HELP["parameters"].get(function.__name__, {})
    function = _unfolded(function)
    signature = inspect.signature(function, eval_str=True)
    parameters = []
    for each in signature.parameters.values():
        if each.annotation is not typer.Context and not hasattr(each.annotation, "__metadata__"):
            flags = [f"--{each.name.replace('_', '-')}"] if each.default is False else []  # and no --no-
            made = make_option({"flags": flags} | told[each.name])
            each = each.replace(annotation=Annotated[each.annotation, made])
        parameters.append(each)
    function.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return function


def _unfolded(function: Callable[..., None]) -> Callable[..., None]:
    """Return a command whose dataclasses of options are taken field by field."""
    signature = inspect.signature(function, eval_str=True)
    groups: dict[str, Any] = {
        each.name: each.annotation for each in signature.parameters.values() if is_dataclass(each.annotation)
    }
    if not groups:
        return function

    def call(**values: Any) -> None:
        made = {
            name: kind(**{each.name: values.pop(each.name) for each in fields(kind)})
            for name, kind in groups.items()
        }
        function(**values, **made)

    parameters: list[inspect.Parameter] = []
    for each in signature.parameters.values():
        if each.name in groups:
            parameters += inspect.signature(groups[each.name], eval_str=True).parameters.values()
        else:
            parameters.append(each.replace(kind=inspect.Parameter.KEYWORD_ONLY))
    call.__name__, call.__doc__ = function.__name__, function.__doc__
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return call


def make_option(told: Mapping[str, Any]) -> Any:
    """Return a table of :data:`HELP` as an option, or an argument, of typer's."""
    kind = typer.Argument if told.get("argument") else typer.Option
    known = {key: value for key, value in told.items() if key not in ("argument", "flags", "panel")}
    return kind(*told.get("flags", ()), rich_help_panel=HELP["panels"].get(told.get("panel")), **known)


def read_help(function: Callable[..., None]) -> str:
    """Return the docstring with its paragraphs unfolded, so that the terminal decides where lines end."""
    paragraphs = inspect.cleandoc(function.__doc__ or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def epilog(command: str) -> str:
    """Return the foot of a help page: the examples of :data:`HELP`, each with what it does."""
    examples = HELP["examples"][command].items()
    blocks = [f"[bold]$ {line}[/bold]\n    [dim]{meaning}[/dim]" for line, meaning in examples]
    return "\n\n".join(["Examples", *blocks])


@contextmanager
def guarded() -> Iterator[None]:
    """Turn expected failures, with the notes that were added to them, into one line and an exit code."""
    try:
        with _warnings_in_one_line(), catch_termination():
            yield
        sys.stdout.flush()
    except BrokenPipeError:
        with suppress(OSError, ValueError):  # a stdout that is no file, as in tests
            # Point stdout at nothing, so that the flush at exit has nowhere to fail.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(BROKEN_PIPE) from None
    except KeyboardInterrupt as error:  # or another signal that ends a process, which has a code of its own
        screen.note(" ".join(getattr(error, "__notes__", ["interrupted."])))
        raise typer.Exit(128 + getattr(error, "signum", signal.SIGINT)) from None
    except (GBGNNError, OSError) as error:
        screen.error(" ".join([_in_options(error), *getattr(error, "__notes__", [])]))
        raise typer.Exit(USAGE if isinstance(error, UsageError) else ERROR) from None
    except (MemoryError, RuntimeError) as error:
        told = describe_shortage(error)
        if told is None:
            raise
        screen.error(" ".join([told, *getattr(error, "__notes__", [])]))
        raise typer.Exit(ERROR) from None


def _in_options(error: Exception) -> str:
    """Return an expected failure as a sentence that speaks of options."""
    from gbgnn.cli.model_options import make_options
    from gbgnn.cli.words import in_options

    flags = {option.name: option.opts[0] for option in make_options()}
    return in_options(describe_error(error), flags)


def describe_error(error: Exception) -> str:
    """Return an expected failure as a sentence."""
    if isinstance(error, OSError) and error.filename and not isinstance(error, GBGNNError):
        return f"{error.filename}: {error.strerror}."
    return str(error)


def describe_shortage(error: BaseException) -> str | None:
    """Return a lack of memory as a sentence: what was asked for, and what would help; None for all else."""
    text = str(error)
    is_gpu = "CUDA out of memory" in text or "CUDA error: out of memory" in text
    is_torch = "not enough memory" in text or "can't allocate memory" in text  # as the system words it
    if not (is_gpu or is_torch or isinstance(error, MemoryError)):
        return None
    found = _ASKED.search(text)
    asked = "more was asked for than there is"
    if found:
        size, unit = found[1], found[2]
        asked = f"{size} {unit}" if unit != "bytes" else f"{int(size) / 2**30:,.2f} GiB"
        asked += " more were asked for than there are"
    less = "--dtype float32, fewer --units, or fewer features (--features, --drop) need less"
    if is_gpu:
        return f"the GPU has not enough memory: {asked}; --device cpu has the machine's own. {less}."
    return f"not enough memory: {asked}; {less}, and so does --no-keep-learners over many rounds."


@contextmanager
def _warnings_in_one_line() -> Iterator[None]:
    """Show the library's own warnings as one line each; all others stay as they are."""
    with warnings.catch_warnings():
        usual = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *rest: object) -> None:
            if issubclass(category, GBGNNWarning):
                screen.warn(str(message))
            else:
                usual(message, category, *rest)  # type: ignore[arg-type]

        warnings.showwarning = show  # type: ignore[assignment]
        yield


def key_values(pairs: list[str] | None, flag: str) -> dict[str, Any]:
    """Return ``NAME=VALUE`` words as a dictionary, values read as in a TOML file; bare words are strings."""
    result = {}
    for pair in pairs or []:
        name, equals, text = pair.partition("=")
        if not equals or not name.isidentifier():
            raise UsageError(f"{flag} must look like NAME=VALUE; got {pair!r}.")
        try:
            result[name] = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            result[name] = text
    return result


def as_split(text: str | None) -> str | int | None:
    """Return the number of a fold as a number, any other word as it is."""
    return int(text) if text is not None and text.isdecimal() else text
