"""What all commands share: examples under the help, errors in one line, exit codes."""

from __future__ import annotations

import functools
import inspect
import os
import sys
import tomllib
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ParamSpec

import typer
from typer.core import TyperCommand

from gbgnn.cli import screen
from gbgnn.errors import GBGNNError, GBGNNWarning
from gbgnn.runs import Terminated, catch_termination

P = ParamSpec("P")
HELP: dict[str, Any] = tomllib.loads(Path(__file__).with_name("help.toml").read_text(encoding="utf-8"))
"""Examples of every command, and the options of a model that no part describes."""

ERROR, USAGE, INTERRUPTED, BROKEN_PIPE = 1, 2, 130, 141


class UsageError(GBGNNError):
    """Options that do not go together."""


def register(
    app: typer.Typer,
    function: Callable[..., None],
    *,
    examples: Iterable[tuple[str, str]] | None = None,
    cls: type[TyperCommand] | None = None,
) -> None:
    """Add a command, its docstring as help and its examples below, those of :data:`HELP` by default."""
    given = HELP["examples"][function.__name__].items() if examples is None else examples
    app.command(cls=cls, help=read_help(function), epilog=epilog(given))(guarded(function))


def read_help(function: Callable[..., None]) -> str:
    """Return the docstring with its paragraphs unfolded, so that the terminal decides where lines end."""
    paragraphs = inspect.cleandoc(function.__doc__ or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def epilog(examples: Iterable[tuple[str, str]]) -> str:
    """Return the foot of a help page from pairs of a command line and what it does."""
    blocks = [f"[bold]$ {line}[/bold]\n    [dim]{meaning}[/dim]" for line, meaning in examples]
    return "\n\n".join(["Examples", *blocks])


def guarded(function: Callable[P, None]) -> Callable[P, None]:
    """Return the command with every expected failure turned into one line and an exit code."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            with _warnings_in_one_line(), catch_termination():
                function(*args, **kwargs)
            sys.stdout.flush()
        except BrokenPipeError:
            _forget_stdout()
            raise typer.Exit(BROKEN_PIPE) from None
        except KeyboardInterrupt as error:
            screen.note("interrupted.")
            raise exit_after(error) from None
        except (GBGNNError, OSError) as error:
            screen.error(describe_error(error))
            raise typer.Exit(USAGE if isinstance(error, UsageError) else ERROR) from None

    return run


def exit_after(error: KeyboardInterrupt) -> typer.Exit:
    """Return the exit after Ctrl-C, or after another signal that ends a process, with its usual code."""
    return typer.Exit(128 + error.signum if isinstance(error, Terminated) else INTERRUPTED)


def describe_error(error: Exception) -> str:
    """Return an expected failure as a sentence."""
    if isinstance(error, OSError) and error.filename and not isinstance(error, GBGNNError):
        return f"{error.filename}: {error.strerror}."
    return str(error)


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


def _forget_stdout() -> None:
    """Point stdout at nothing, so that the flush at exit has nowhere to fail."""
    with suppress(OSError, ValueError):  # a stdout that is no file, as in tests
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
