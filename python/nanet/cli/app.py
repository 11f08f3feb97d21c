# SPDX-License-Identifier: Apache-2.0
"""Entry point of the `nanet` command line: imports only the requested command, maps errors to exit statuses.

Exit status 0: done; 1: the run failed its own checks; 2: bad usage, configuration or environment, with one
sentence on standard error.
"""

from __future__ import annotations

import importlib
import inspect
import math
import os
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from nanet import __version__
from nanet.cli.examples import epilog
from nanet.errors import DataWarning, UsageError, describe_os_error, near
from nanet.report import log

# Name -> one line of help. The function `name` of nanet.cli.<name> is the command ("-" is "_" there).
COMMANDS: dict[str, str] = {
    "demo": "The whole chain on this machine: boards, trigger, L0TP; with live view and report.",
    "trigger": "The trigger processor: MGP packets in, primitives out, until stopped.",
    "readout": "Emulated readout boards: generated or recorded events, sent as MGP packets.",
    "l0tp": "Emulated L0 trigger processor: receives primitives, checks them, measures the latency.",
    "generate": "Toy Monte Carlo of the RICH: MGP packets in a pcap, and the truth.",
    "replay": "Recorded traffic through the trigger, as fast as possible.",
    "evaluate": "Found rings compared with the truth: efficiency, fakes, resolutions.",
    "quality": "All ring algorithms on the same generated events: tables and figures.",
    "export": "Captures, rings and truth as ROOT trees or Parquet tables.",
    "show": "One event of a capture, drawn in the terminal and as SVG or PNG.",
    "detector": "Detector files: check one and draw it.",
    "build-algorithm": "Build a header with a user algorithm into a plug-in for --algorithm.",
    "mpirun": "An unmodified MPI program over the fabric.",
    "dissector": "Wireshark dissectors for MGP and MTP: location and installation.",
    "torus": "Model of a 3D torus: latency against load, curves of APEnet+, lattice-QCD balance.",
    "bench": "Benchmarks of this machine, each with a peer or a limit.",
    "doctor": "Real-time fitness of this host, with remedies.",
    "schema": "JSON schema of the configuration file, for editors.",
    "tune": "Kernel settings of a trigger host: applied as far as permitted, and restored.",
}


# Panels of the help, in this order.
PANELS: dict[str, tuple[str, ...]] = {
    "Chain": ("demo", "trigger", "readout", "l0tp"),
    "Data": ("generate", "replay", "evaluate", "quality", "export", "show"),
    "Host": ("doctor", "tune", "bench"),
}
OTHER_PANEL = "More"

# Commands whose last argument is another command line.
LAUNCHERS = {"mpirun"}

# Options of nanet itself, which precede the command.
LEADING = {"-v": "-v", "--verbose": "-v", "-q": "-q", "--quiet": "-q", "--log": "--log FILE"}


def _version(value: bool) -> None:
    if value:
        typer.echo(f"nanet {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    more: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show the configuration in effect on standard error.")
    ] = False,
    less: Annotated[bool, typer.Option("--quiet", "-q", help="Show errors and requested data only.")] = False,
    log_file: Annotated[
        str | None,
        typer.Option("--log", metavar="FILE", help="Append messages and results as lines of JSON."),
    ] = None,
) -> None:
    """Network -> trigger -> network in microseconds: the NA62 RICH level-0 trigger as open software.

    `nanet help COMMAND` is `nanet COMMAND --help`. Options of this page precede the command.
    """
    log.configure(log_file, more=more, less=less)
    log.line("info", "start", arguments=sys.argv[1:], version=__version__, process=os.getpid())


def _panel(name: str) -> str:
    """Panel of a command in the help."""
    return next((panel for panel, names in PANELS.items() if name in names), OTHER_PANEL)


class _Flags:
    """A command that shows options without a value as flags: the help names no type."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Parameters, the help option included."""
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for option in params:
            if getattr(option, "is_flag", False):
                option.metavar = ""
        return params


class _Command(_Flags, TyperCommand):
    def invoke(self, ctx: Any) -> Any:
        """Runs the command. UsageError for a number that is not finite: NaN passes every range."""
        for option in self.params:
            value = ctx.params.get(option.name)
            if isinstance(value, float) and not math.isfinite(value):
                raise UsageError(f"{option.opts[0]} {value:g}: give a finite number")
        return super().invoke(ctx)


class _Group(_Flags, TyperGroup):
    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The named command. UsageError for an unknown name, with the nearest one."""
        if args[0] not in self.commands and not ctx.resilient_parsing:
            raise UsageError(f"{args[0]}: no such command{near(args[0], self.commands)}")
        return super().resolve_command(ctx, args)


def _stub() -> None:
    """Placeholder of a command in the help; main() registers the real one."""


def command_function(name: str) -> Callable[..., None]:
    """Function of a command; imports its module."""
    module = name.replace("-", "_")
    return getattr(importlib.import_module(f"nanet.cli.{module}"), module)


def _help_text(function: Callable[..., None]) -> str:
    """Docstring of a command, each paragraph in one line, which the terminal's width wraps."""
    return "\n\n".join(" ".join(part.split()) for part in (inspect.getdoc(function) or "").split("\n\n"))


def make_app(arguments: Sequence[str]) -> typer.Typer:
    """Application with the command named in the arguments, or with all command names for the help."""
    app = typer.Typer(
        name="nanet",
        cls=_Group,
        no_args_is_help=True,
        add_completion=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    values = {at + 1 for at, argument in enumerate(arguments) if argument == "--log"}
    words = (a for at, a in enumerate(arguments) if not a.startswith("-") and at not in values)
    wanted = next(words, None)
    panels = [*PANELS, OTHER_PANEL]
    for name, summary in sorted(COMMANDS.items(), key=lambda item: panels.index(_panel(item[0]))):
        if name == wanted:
            settings = {"allow_interspersed_args": name not in LAUNCHERS}
            function = command_function(name)
            register = app.command(
                name, cls=_Command, help=_help_text(function), short_help=summary, epilog=epilog(name),
                context_settings=settings, rich_help_panel=_panel(name),
            )  # fmt: skip
            register(function)
        else:
            app.command(name, help=summary, rich_help_panel=_panel(name))(_stub)
    return app


def _complain(message: str) -> int:
    log.line("error", "error", message=message)
    print(f"nanet: {message}", file=sys.stderr)
    return 2


def _warn_as(usual: Callable[..., None]) -> Callable[..., None]:
    """A replacement of warnings.showwarning that prints a DataWarning without its line of code."""

    def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if issubclass(category, DataWarning):
            log.line("warning", "message", message=str(message))
            print(f"nanet: {message}", file=sys.stderr)
        else:
            usual(message, category, *where, **more)

    return show


def _being_completed() -> list[str]:
    """Words of the command line that the shell completes; empty in any other call."""
    if "_NANET_COMPLETE" not in os.environ:
        return []
    words = os.environ.get("_TYPER_COMPLETE_ARGS") or os.environ.get("COMP_WORDS", "")
    return words.split()[1:]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status (entry point of the `nanet` script)."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:], "--help"]
    began, status = time.monotonic(), 1
    try:
        status = _with_warnings(arguments)
        return status
    finally:
        log.line("info", "end", status=status, elapsed_s=time.monotonic() - began)
        log.close()


def _with_warnings(arguments: list[str]) -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("always", DataWarning)
        warnings.showwarning = _warn_as(warnings.showwarning)
        return _main(arguments)


def _unusable_simd() -> str:
    """Why NANET_SIMD cannot be used; empty if it is unset or names a CPU variant that runs here."""
    if not os.environ.get("NANET_SIMD"):
        return ""
    from nanet import _core

    try:
        _core.simd_variant()
    except ValueError as error:
        return str(error)
    return ""


def _main(arguments: list[str]) -> int:
    if trouble := _unusable_simd():
        return _complain(trouble)
    try:
        status = make_app(arguments or _being_completed())(
            args=arguments, prog_name="nanet", standalone_mode=False
        )
        sys.stdout.flush()
        return status if isinstance(status, int) else 0
    except UsageError as error:
        return _complain(str(error))
    except BrokenPipeError:  # the reader of standard output has closed it: end without a message
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        return _complain(describe_os_error(error))
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except Exception as error:
        # Usage errors of typer: their class lives in click or in typer's copy of it, by version.
        if hasattr(error, "format_message") and hasattr(error, "exit_code"):
            message = error.format_message().strip()
            if not message:  # `nanet` without arguments: the help has been printed
                return 2
            context = getattr(error, "ctx", None)
            option = getattr(error, "option_name", None)
            if context is not None and option in LEADING:
                return _complain(
                    f"{option} precedes the command: nanet {LEADING[option]} {context.info_name} …"
                )
            hint = f" Try '{context.command_path} --help'." if context is not None else ""
            return _complain(f"{message}{'' if message.endswith(('.', '?', ')')) else '.'}{hint}")
        raise


if __name__ == "__main__":
    sys.exit(main())
