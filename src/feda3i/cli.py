"""The command line: all commands under one name.

Each is declared where it is done, in ``commands/``, and imports the libraries that it needs when it
is called, so that ``feda3i --help`` is fast.
Exit codes: 0 fine, 1 failure, 2 wrong usage, 130 interrupted.
"""

import io
import signal
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from typing import Annotated

import typer

from feda3i import __version__
from feda3i.commands import deploy, noise
from feda3i.commands.app import new_app
from feda3i.commands.audit import audit
from feda3i.commands.bench import bench
from feda3i.commands.check import check
from feda3i.commands.demo import demo
from feda3i.commands.evaluate import evaluate
from feda3i.commands.explain import explain, list_names
from feda3i.commands.export import export
from feda3i.commands.predict import predict
from feda3i.commands.redraw import redraw
from feda3i.commands.report import report
from feda3i.commands.run import resume, run
from feda3i.commands.tables import tables
from feda3i.failures import Visible, message_of

app = new_app(name="feda3i", pretty_exceptions_enable=False)
app.add_typer(noise.app, name="noise")
app.add_typer(deploy.app, name="deploy")
COMMANDS: list[Callable[..., None]] = [
    *(demo, run, resume, bench, tables, evaluate, predict, export, report, audit, redraw),
    *(explain, check),
]
for command in COMMANDS:
    app.command()(command)
app.command("list")(list_names)


def _show_version(is_asked: bool) -> None:
    if is_asked:
        print(f"feda3i {__version__}")
        raise typer.Exit


@app.callback()
def start(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Show the version and exit.", callback=_show_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Federated medical image segmentation when the annotations are noisy."""


def main() -> None:
    """Run the command line; show errors as sentences, not as tracebacks."""
    for stream in (sys.stdout, sys.stderr):
        # File names need not be text; one that cannot be printed must not end a command.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:  # Slurm sends it before it kills
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    with redirect_stdout(Visible(sys.stdout)), redirect_stderr(Visible(sys.stderr)):
        try:
            app(prog_name="feda3i")
        except KeyboardInterrupt:
            _fail("interrupted", 130)
        except Exception as error:
            _fail(*message_of(error))


def _fail(text: str, code: int) -> None:
    print(f"feda3i: {text}", file=sys.stderr)
    sys.exit(code)
