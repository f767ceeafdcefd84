"""What a results folder does not say: how the configuration calls its experiments and runs."""

from pathlib import Path
from typing import TYPE_CHECKING

from fedatlas.plan.places import shipped_configuration
from fedatlas.projects import projects

if TYPE_CHECKING:
    from fedatlas.store.atlas import Atlas


def described(traces: Path, config: Path | None) -> "Atlas":
    """The atlas; a results folder with the titles of the configuration."""
    from fedatlas.store.reading import open_atlas

    if not (traces / "experiments").is_dir():
        return open_atlas(traces)
    from fedatlas.plan.build import build_plan
    from fedatlas.store.results_atlas import ResultsAtlas

    held = {folder.name for folder in (traces / "experiments").iterdir()}
    plan = build_plan(config or shipped_configuration(), *projects(), names=held)
    titles = {
        name: experiment.model_dump(mode="json", include={"title", "source", "notes", "dataset"})
        | {"runs": plan.run_titles(name)}
        for name, experiment in plan.experiments.items()
    }
    # A folder from elsewhere is no older state of this configuration.
    ours = traces.resolve().parent == Path.cwd() or not held.isdisjoint(titles)
    return ResultsAtlas(traces, titles, plan if ours else None)
