"""The command ``dumpfilter``, with one sub-command for each task.

A sub-command's modules are imported only when the sub-command runs, so that ``--help`` answers at once.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import importlib
import inspect
import os
import sys
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any, NoReturn, TextIO

import typer

from dumpfilter import __version__
from dumpfilter.base import logs
from dumpfilter.base.endings import ending_at_signals, lost_interrupts_again
from dumpfilter.base.errors import DumpfilterError
from dumpfilter.base.printable import for_terminal, printable
from dumpfilter.commands.sub_command import CommandGroup, SubCommand

INTERRUPTED = 130
"""The exit code after Ctrl-C, as shells report SIGINT."""

READER_GONE = 141
"""The exit code when the reader of the output went away (``| head``), as shells report SIGPIPE."""

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""The numbers of the system's errors for a write to a full file system."""

EXTRAS = {"pyarrow": "analysis", "pandas": "spark"}
"""The large packages that only some commands need, with the extra that installs each."""

COMMANDS = (
    "master",
    "slave",
    "fetch",
    "split",
    "manifest",
    "purge",
    "bandwidth",
    "suggest",
    "simulate",
    "inspect",
    "generate",
    "binlog",
    "export",
    "explain",
    "lint",
    "status",
    "sql",
    "password-hash",
    "systemd-unit",
    "demo",
    "topology",
)
"""The sub-commands in the order of ``--help``. Each has a module of its name in ``dumpfilter.commands``, with a
function ``NAME_command``.
"""


class Dumpfilter(CommandGroup):
    """The top-level command ``dumpfilter``. The module of a sub-command is imported when the sub-command is first
    used.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands: dict[str, Any] = dict.fromkeys(COMMANDS)

    def get_command(self, ctx: Any, name: str) -> Any:
        """Return the sub-command ``name``, or None if there is no such command."""
        if self.commands.get(name) is None and name in COMMANDS:
            self.commands[name] = _made(name)
        return self.commands.get(name)

    def help_of(self, ctx: Any, name: str) -> tuple[str, str]:
        """Return two texts about the command ``name`` for ``--help``: the heading of its group of commands, and its
        description.

        The command's module is not imported. The description is the docstring of the command's function.
        """
        module = name.replace("-", "_")
        text = Path(__file__).with_name("commands").joinpath(f"{module}.py").read_text("utf-8")
        # To parse the modules would take as long as all else. The docstring of a group of commands is its module's.
        after = text.partition(f"\ndef {module}_command(")[2] or text
        return "Commands", inspect.cleandoc(after.split('"""', 2)[1])


@functools.cache
def _made(name: str) -> Any:
    from typer.main import get_command

    from dumpfilter.base.options.arguments import WITH_OPTION_FILES
    from dumpfilter.base.options.settings import with_settings
    from dumpfilter.commands.option_files import OptionFileCommand

    module = importlib.import_module(f"dumpfilter.commands.{name.replace('-', '_')}")
    if name == "topology":
        group = get_command(module.topology_app)
        group.name, group.help = name, inspect.getdoc(module)
        return group
    alone = typer.Typer(add_completion=False, rich_markup_mode="rich")
    function = getattr(module, f"{name.replace('-', '_')}_command")
    alone.command(name, cls=OptionFileCommand if name in WITH_OPTION_FILES else SubCommand)(
        with_settings(function)
    )
    return get_command(alone)


def preload(*names: str) -> None:
    """Import in advance the modules of the sub-commands ``names`` and of the log. Also build the sub-commands' options
    and the pydantic models whose construction was deferred. The forks of this process then start faster.
    """
    import cryptography.hazmat.backends.openssl.backend  # noqa: F401
    import structlog.stdlib  # noqa: F401
    from pydantic import BaseModel

    for name in names:
        for option in _made(name).params:
            option.get_runtime_param()
    models = [BaseModel]
    for model in models:
        models += model.__subclasses__()
        if model.__module__.startswith("dumpfilter."):
            model.model_rebuild(raise_errors=False)


app = typer.Typer(
    name="dumpfilter",
    cls=Dumpfilter,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Filters a MySQL or MariaDB binlog on the master, per slave, and shows what that saves.",
)


class HiddenPandas:
    """An import finder that hides pandas from a process without Spark.

    pyarrow imports pandas, where it is installed, before it makes its first array. That takes 0.3 seconds, and only
    Spark needs pandas.
    """

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        if fullname == "pandas" and "pyspark" not in sys.modules:
            raise ModuleNotFoundError("pandas is hidden", name=fullname)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dumpfilter {__version__}")
        raise typer.Exit


_VERSION = typer.Option(
    "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
)
_FORMAT = typer.Option(help="The form of every command's log: text, or json with one object a line.")
_LEVEL = typer.Option(
    help="The least level of every command's log. Without it warning, and info for processes that run long."
)


@app.callback()
def _options(
    version: Annotated[bool, _VERSION] = False,
    log_format: Annotated[logs.Format | None, _FORMAT] = None,
    log_level: Annotated[logs.Level | None, _LEVEL] = None,
) -> None:
    # A sub-command reads these options when it configures the log.
    pass


def main() -> None:
    """Run the sub-command that the command line names.

    A DumpfilterError becomes one line on standard error, and the process exits with the error's exit code. The exit
    code is 1 for an error of the operating system or a missing package, :data:`INTERRUPTED` after Ctrl-C, and
    :data:`READER_GONE` when the reader of the output went away.
    """
    _prepare_standard_streams()
    sys.meta_path.insert(0, HiddenPandas())
    try:
        with lost_interrupts_again(), ending_at_signals():
            _run()
    except DumpfilterError as error:
        _fail(str(error), error.exit_code)
    except ModuleNotFoundError as error:
        extra = EXTRAS.get((error.name or "").partition(".")[0])
        if extra is None:
            raise
        _fail(f"this needs {error.name}, which is not installed: pip install 'dumpfilter[{extra}]'", 1)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        _discard_output(sys.stdout, sys.stderr)
        sys.exit(READER_GONE)
    except UnicodeEncodeError as error:
        # Arrow takes names of files in UTF-8 only.
        _fail(f"{printable(error.object)}: the name is not UTF-8; choose another name", 2)
    except OSError as error:
        name = error.filename
        # An error of another output names a file.
        if name is None and error.errno in _FULL:
            name = "standard output"
            _discard_output(sys.stdout)
        where = f"{name}: " if name else ""
        _fail(f"{where}{error.strerror or error}", 1)


def _run() -> None:
    """Run the sub-command that the command line names. Before that, remove the environment variable COLUMNS if it is 0,
    because Rich would then print nothing.

    Raises BrokenPipeError when the reader of the output went away, and SystemExit otherwise.
    """
    if os.environ.get("COLUMNS") == "0":
        # Rich would print nothing. Other programs take 0 for an unknown width.
        del os.environ["COLUMNS"]
    try:
        # A shell's completion calls this name. It would be wrong for python -m dumpfilter otherwise.
        app(prog_name="dumpfilter")
    except SystemExit as ended:
        # Typer and Rich turn this error into the exit code 1.
        if isinstance(ended.__context__, BrokenPipeError):
            raise ended.__context__ from None
        sys.stdout.flush()
        raise


def _prepare_standard_streams() -> None:
    """Connect to ``/dev/null`` each standard stream that was closed when the process started. Let standard output
    escape the characters that its encoding lacks, and let standard input raise an error for bytes that are no text.

    If a standard stream stayed closed, the next opened file would get the stream's number. Output of libraries to the
    stream would then be written to this file.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w" if number else "r"))  # noqa: SIM115 - open until the end
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    if isinstance(sys.stdin, TextIOWrapper):
        # Without a locale, as in a container, Python would read such bytes as lone surrogates, which no server takes.
        sys.stdin.reconfigure(errors="strict")


def _discard_output(*streams: TextIO) -> None:
    """Redirect the ``streams``, such as standard output, to ``/dev/null``.

    Later writes, such as the interpreter's last flush, then cannot fail because the reader of the output went away, or
    because the file system is full.
    """
    with open(os.devnull, "wb") as nowhere:
        for stream in streams:
            # A stream that is no file of the system has no number.
            with contextlib.suppress(OSError, ValueError):
                os.dup2(nowhere.fileno(), stream.fileno())


def _fail(text: str, exit_code: int) -> NoReturn:
    """Print an error to standard error, or log it as a JSON line if ``--log-format`` is json. Then exit with
    ``exit_code``.
    """
    if logs.is_json():
        logs.logger("dumpfilter").error("ended by an error", error=text, exit_code=exit_code)
    else:
        # The text may quote another process, such as a master.
        typer.echo(for_terminal(f"dumpfilter: {text}"), err=True)
    sys.exit(exit_code)
