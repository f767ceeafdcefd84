"""Steps that bring all papers together; see `fedatlas.steps`."""

from pathlib import Path

from fedatlas.evaluation.steps import read_choices
from fedatlas.plain_text import say
from fedatlas.store import joining


def join_traces(paper: joining.JoinedPaper, experiments: Path, output: Path) -> None:
    """Join a paper's traces into one file. experiments: the folder of their results."""
    runs = [run for experiment in paper.experiments for run in experiment.runs]
    chosen = {
        (name, run): choice.point
        for name in {run.selected_in for run in runs}
        for run, choice in read_choices(experiments / name / "selection.json").items()
    }
    joining.join_traces(paper, chosen, experiments, output)


def join_papers(papers: list[Path], kept: dict[str, bool], output: Path, contents: Path) -> None:
    """Join papers' files into the atlas, which keeps runs of earlier selections.

    kept: experiment/run that the atlas keeps → whether it is stale. contents: the list of the
    atlas's runs with their code.
    """
    joined = joining.join_papers(papers, output, kept, contents)
    say(f"{output}: {joined.told()}")
