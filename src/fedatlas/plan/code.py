"""Files that change with the meaning of a step's code: the inputs by which Snakemake sees edits."""

from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

from fedatlas.errors import FedatlasError
from fedatlas.files import text_digest, write_text
from fedatlas.plan import data, results
from fedatlas.plan.build import Plan
from fedatlas.plan.closure import code_digest, files_digest
from fedatlas.plan.places import RESULTS

_READABLE = 100  # characters of a stamp's name that list modules


class Stamps:
    """Small files, each with a digest of some code; written when that changes.

    Equal lists of modules share a file, whichever step asks.
    """

    def __init__(self, results: Path, digest: Callable[..., str] = code_digest) -> None:
        """results: the folder of results. digest: of modules.

        Raises FedatlasError where a file is in the folder's place.
        """
        if results.exists() and not results.is_dir():
            raise FedatlasError(f"{results} is a file, but must be a folder: move it away")
        self._folder, self._digest = results / "code", digest
        self.of = cache(self._of)  # rules ask for each job

    def _of(self, *modules: str) -> str:
        """The file of these modules and of all that they import, as rules name it."""
        wanted = "+".join(module.partition(".")[2] for module in modules)
        if len(wanted) > _READABLE:
            wanted = f"{wanted[:_READABLE]}-{text_digest(wanted, 16)}"
        return self._written(wanted, self._digest(*modules))

    def of_files(self, name: str, files: Iterable[Path]) -> str:
        """The file of these files' bytes, as rules name it."""
        return self._written(name, files_digest(files))

    def write_all(self, plan: Plan) -> None:
        """Write the files of all steps whose code depends on what they work on.

        Snakemake lists a folder once, while it builds its graph: what is written later would count
        as missing.
        """
        found = {spec.code for spec in plan.runs.values()}
        found |= {(module,) for module in map(data.sharding_code, plan.partitions.values())}
        for name, experiment in plan.experiments.items():
            found.add(tuple(data.reading_code(plan.catalogue, experiment.dataset)))
            found.add(tuple(results.judging_code(plan, name)))
            found.add(tuple(results.drawing_code(plan, name)))
            if experiment.landscape is not None:
                found.add(tuple(results.landscape_code(plan, name)))
            if experiment.budgets is not None:
                found.add(tuple(results.budgets_code(plan, name)))
        for modules in found:
            self.of(*modules)

    def _written(self, name: str, digest: str) -> str:
        path, text = self._folder / f"{name}.txt", f"{digest}\n"
        try:
            same = path.read_text(encoding="utf-8") == text
        except FileNotFoundError:
            same = False
        if not same:
            write_text(path, text)
        return f"{RESULTS}/code/{path.name}"
