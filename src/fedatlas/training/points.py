"""Training of several points in one process, which reads, compiles and loads once."""

import logging
from collections.abc import Sequence
from pathlib import Path

from fedatlas.federations.context import open_context
from fedatlas.files import canonical_json, require_writable
from fedatlas.schema.models import read_json
from fedatlas.schema.runs import RunSpec
from fedatlas.training.failing import explaining_memory, naming_run
from fedatlas.training.loop import seed_files, train_in
from fedatlas.training.optimum import read_optima
from fedatlas.training.rehearsal import rehearse_once
from fedatlas.training.seeds import SeedPolicy

log = logging.getLogger(__name__)

# What a setting does not depend on.
_OF_THE_METHOD = {
    "paper",
    "experiment",
    "run",
    "point",
    "algorithm",
    "hyper_parameters",
    "tuned_in",
}


def train_points(
    specs: Sequence[RunSpec], results: Path, seeds: Path, *, device: str, checkpoint_every: float
) -> None:
    """Train runs one after the other, each with all its seeds, and write their traces.

    Before a method trains it is rehearsed, once for its code and options; see `rehearsal`.

    results: has shards, optima, selections and traces where the workflow keeps them. seeds: the
    folder of results of seeds; a seed that has one is not trained again, see `seeds`.
    device, checkpoint_every: see `train`.
    What is raised names the run that failed; see `naming_run`.
    """
    setting, opened = None, ""
    for number, spec in enumerate(specs, 1):
        with naming_run(spec.name):
            # The last such line says which run a job that was killed was at.
            log.info("%s: run %d of %d of this job", spec.name, number, len(specs))
            if spec.tuned_in is not None:
                selection = results / "experiments" / spec.tuned_in / "selection.json"
                spec = spec.tuned(read_json(selection))
            trace = spec.trace_file(results)
            require_writable(trace)
            split = Path(spec.dataset, spec.split)
            shared = canonical_json(spec.model_dump(mode="json", exclude=_OF_THE_METHOD))
            if setting is None or opened != shared:
                setting = None  # before the next is read: memory holds one
                setting, opened = open_context(spec, results / "shards" / split, device), shared
            best = read_optima(spec, results / "optima" / split)
            files = seed_files(setting, spec, best, SeedPolicy(seeds, checkpoint_every))
            if files.missing:
                rehearse_once(spec, results / "shards" / split, results / "rehearsals")
            with explaining_memory(spec.name, device):
                train_in(setting, spec, best, files, trace)
