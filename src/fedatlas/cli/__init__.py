"""The command line: commands for people, and `fedatlas step` for the workflow.

Heavy libraries are imported inside commands and steps, so that each loads only what it needs.
"""

import gc
import logging
import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from fedatlas import __version__
from fedatlas.cli import conform, looking, model, new, published, rederive, run, step, suite
from fedatlas.errors import FedatlasError, RunFailedError, first_line, shortage_in
from fedatlas.extensions import describe_place, open_projects
from fedatlas.files import OF_DISKS, explained_failure, file_of
from fedatlas.plain_text import printable, say
from fedatlas.plan.places import find_projects

#: Commands by purpose, as --help groups them.
WANTED: dict[str, tuple[Callable[..., None], ...]] = {
    "Run": (run.run, new.new),
    "Look": (
        *(looking.list_experiments, looking.summary, looking.power),
        *(published.compare, published.profile),
    ),
    "Share": (
        *(published.import_runs, published.publish, published.export, model.export_model),
        *(published.data_card, published.coverage),
    ),
    "Check": (
        *(looking.rehearse, conform.conform, looking.verify, rederive.rederive),
        *(looking.diff, looking.spec),
    ),
}
# Names that Python has a meaning for itself.
NAMES: dict[Callable[..., None], str] = {
    looking.list_experiments: "list",
    published.import_runs: "import",
}
app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
for panel, commands in WANTED.items():
    for command in commands:
        app.command(NAMES.get(command), rich_help_panel=panel)(command)
app.add_typer(suite.app, name="suite", rich_help_panel="Run")
app.command(rich_help_panel="Workflow", epilog=step.TABLE)(step.step)

#: Python collects garbage after this many new objects; its default is 700. Loading modules leaves
#: hardly any garbage, so collecting less often saves a tenth of a short job.
NEW_OBJECTS = 5_000
# The exit status after SIGTERM.
_ENDED = 128 + signal.SIGTERM


class LogLines(logging.Formatter):
    """Formats lines of the log, without control characters that a terminal would obey."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


def _print_version(asked: bool) -> None:
    if asked:
        say(f"fedatlas {__version__}")
        raise typer.Exit


@app.callback()
def configure(
    verbose: Annotated[bool, typer.Option("--verbose", help="Log debugging details.")] = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """fedatlas reproduces papers on federated and distributed optimisation, and judges claims."""
    logging.basicConfig(level=logging.DEBUG if verbose else logging.INFO, stream=sys.stderr)
    for handler in logging.getLogger().handlers:
        handler.setFormatter(LogLines("%(asctime)s %(levelname)s %(message)s"))
    # Details of these libraries would hide those of fedatlas.
    for name in ("numba", "matplotlib", "urllib3", "fontTools"):
        logging.getLogger(name).setLevel(logging.WARNING)
    if found := find_projects([Path.cwd()]):
        open_projects(found)


def _start_with_one_hash_seed() -> None:
    """Restart commands that train with a fixed hash seed, as the workflow starts its jobs.

    The hash seed decides the order of sets of names. Without a fixed one, a method that goes
    through such a set would give other numbers at every start.
    """
    words = [word for word in sys.argv[1:] if not word.startswith("-")]
    needed = {}
    if words[:2] in (["step", "train_run"], ["step", "train_alone"]):
        needed = {"PYTHONHASHSEED": "0"}
    if words[:1] in (["export-model"], ["rederive"]):  # as many threads as a job of the workflow
        threads = os.environ.get("OMP_NUM_THREADS", "1")
        needed = {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": threads}
    if not needed.items() <= os.environ.items():
        os.environ.update(needed)
        os.execv(sys.executable, [sys.executable, "-P", "-m", "fedatlas", *sys.argv[1:]])


def main() -> None:
    """Run the command line; errors that users can act on are printed without a traceback."""
    _start_with_one_hash_seed()
    ended = False

    def end(*_: object) -> None:
        """Clean up on SIGTERM, which clusters send, as on any exit; Python's default is not to."""
        nonlocal ended
        ended = True
        sys.exit(_ENDED)

    signal.signal(signal.SIGTERM, end)
    gc.set_threshold(NEW_OBJECTS)
    # Figures are files. A notebook tells its children to draw by a package that may not be here.
    os.environ["MPLBACKEND"] = "agg"
    try:
        app()
    except Exception as error:
        if ended:  # pydantic turns the exit into an error while it builds a model
            sys.exit(_ENDED)
        if isinstance(error, FedatlasError):
            say(f"error: {error}", to_errors=True)
            sys.exit(1)
        if short := shortage_in(error):
            advice = "Give the process more memory"
            say(f"error: ran out of memory: {first_line(short)}. {advice}", to_errors=True)
            sys.exit(1)
        file = file_of(error)
        if file is not None and isinstance(error, OSError) and error.errno in OF_DISKS:
            say(f"error: {explained_failure(error, file)}", to_errors=True)
            sys.exit(1)
        # The author of a method looks for its line, not for those of the loop that called it.
        message = str(error) if isinstance(error, RunFailedError) else describe_place(error)
        if message is None:
            raise
        say(f"error: {message}\n\nThe calls that led there:", to_errors=True)
        cause = error.__cause__ if isinstance(error, RunFailedError) else error
        say("".join(traceback.format_exception(cause)).rstrip(), to_errors=True)
        sys.exit(1)
    finally:
        # Skip the last garbage collection, which takes half a second. The work is done: a signal
        # while the interpreter and torch shut down must not make it a failure.
        gc.freeze()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
