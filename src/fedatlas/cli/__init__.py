"""The command line: one command per step of the workflow, each also usable by hand.

Heavy libraries are imported inside the commands, so that a step loads only what it needs.
"""

import gc
import logging
import signal
import sys
import traceback
from typing import Annotated

import typer

from fedatlas.cli import (
    atlas,
    data,
    evaluation,
    figures,
    provenance,
    published,
    studies,
    training,
)
from fedatlas.errors import FedatlasError
from fedatlas.extensions import place_told

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
for stage in (data, training, evaluation, studies, figures, atlas, published, provenance):
    for command in stage.COMMANDS:
        app.command()(command)

#: New objects after which Python collects garbage; its default is 700. Loading modules leaves
#: hardly any garbage: collecting less often saves a tenth of a short job.
NEW_OBJECTS = 5_000


@app.callback()
def configure(verbose: Annotated[bool, typer.Option(help="Log details.")] = False) -> None:
    """fedatlas: convergence of federated and distributed optimisation, reproduced and judged."""
    logging.basicConfig(
        level=logging.DEBUG if verbose else logging.INFO,
        format="%(asctime)s %(levelname)s %(message)s",
        stream=sys.stderr,
    )
    # Details of these libraries would hide ours.
    for name in ("numba", "matplotlib", "urllib3"):
        logging.getLogger(name).setLevel(logging.WARNING)


def main() -> None:
    """Run the command line; errors that users can act on are printed without a traceback."""
    # A cluster's SIGTERM must clean up like any exit; by default Python just ends.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    gc.set_threshold(NEW_OBJECTS)
    try:
        app()
    except FedatlasError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
    except Exception as error:
        # Whoever wrote the method looks for its line, not for those of the loop that called it.
        place = place_told(error)
        if place is None:
            raise
        print(f"error: {place}\n\nThe way there:", file=sys.stderr)
        traceback.print_exc()
        sys.exit(1)
    finally:
        # Skip the last garbage collection, which takes half a second. The work is done: a signal
        # while the interpreter and torch shut down must not make it a failure.
        gc.freeze()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
