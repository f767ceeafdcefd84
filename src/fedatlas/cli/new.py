"""Command: write commented starting files of methods, data sets, experiments and projects."""

import re
from enum import StrEnum
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Annotated, NamedTuple

import typer

from fedatlas.errors import FedatlasError
from fedatlas.files import write_text
from fedatlas.plain_text import say
from fedatlas.plan.places import catalogue_files, is_shipped, project_around, repository

#: Files of a new project, each with its template.
_PROJECT = {
    "Snakefile": "Snakefile",
    "config/config.yaml": "config",
    "README.md": "README",
    "CITATION.cff": "citation",
    ".gitignore": "gitignore",
    "experiments/first.yaml": "experiment",
}
_HEAD_OF_DATASETS = (
    "# docs/adding/dataset.md of fedatlas explains the keys, and formats besides libsvm.\n"
)
#: The workflow's settings of Snakemake; a project needs them, too.
_PROFILE = "profiles/default/config.yaml"


class Kind(StrEnum):
    """What the command can create."""

    METHOD = "method"
    DATASET = "dataset"
    EXPERIMENT = "experiment"
    PROJECT = "project"


class Start(NamedTuple):
    """How a kind is created.

    form, words: what its name looks like, as a pattern and in words. file: where it is written.
    message: names the file, and the next commands.
    """

    form: str
    words: str
    file: str
    message: str


_STARTS = {
    Kind.METHOD: Start(
        r"[a-z][a-z0-9_]*",
        "lower-case letters, digits and underscores, a letter first",
        "methods/{name}.py",
        """{file}: a method that works; change it into yours.
experiments/{slug}.yaml: runs it beside another method, on bundled data.
Next: fedatlas rehearse {name}, which checks what a method promises,
  and fedatlas run project-{slug}""",
    ),
    Kind.DATASET: Start(
        r"[A-Za-z0-9][A-Za-z0-9.-]*",
        "letters, digits, dots and hyphens",
        "datasets.yaml",
        """{file}: an entry '{name}'; fill it in.
Next: put the file at DIR/{name}/train.libsvm,
  write `dataset: "{name}"` in an experiment,
  and fedatlas run that experiment with --mirror DIR""",
    ),
    Kind.EXPERIMENT: Start(
        r"[a-z0-9][a-z0-9-]*",
        "lower-case letters, digits and hyphens",
        "experiments/{name}.yaml",
        """{file}: the experiment project-{name}, with two methods on bundled data.
Next: fedatlas run project-{name}""",
    ),
    Kind.PROJECT: Start(
        r"[A-Za-z0-9][A-Za-z0-9._-]*",
        "letters, digits, dots, hyphens and underscores",
        "{name}",
        """{file}: a project with an experiment, experiments/first.yaml.
Next: cd {name}, and fedatlas run 'project-*'; or fedatlas new method NAME there.""",
    ),
}


#: Separates a method's template from that of its experiment.
_EXPERIMENT = "\n---\n"


def _federations() -> list[str]:
    """The federations for which a template of a method exists, by their folders' names."""
    found = (file.name for file in (files("fedatlas") / "templates").iterdir())
    return sorted(name[7:-9] for name in found if name.startswith("method-"))


def new(
    kind: Annotated[str, typer.Argument(help=f"What to create: {', '.join(Kind)}.")],
    name: Annotated[str, typer.Argument(help="Its name; a project becomes a folder of that name.")],
    federation: Annotated[
        str | None,
        typer.Option(
            "--kind",
            help=f"A method's federation: {', '.join(_federations())}.",
            show_default="horizontal",
        ),
    ] = None,
) -> None:
    """Write a commented first version of a method, data set, experiment or project.

    Methods, data sets and experiments become part of the project in the working directory. A
    method comes with an experiment that runs it.
    """
    if kind not in list(Kind):
        raise FedatlasError(f"'{kind}' cannot be created; these can: {', '.join(Kind)}")
    kind = Kind(kind)
    start = _STARTS[kind]
    if not re.fullmatch(start.form, name):
        raise FedatlasError(f"{kind} '{name}': a name consists of {start.words}")
    if kind is not Kind.PROJECT and is_shipped(Path("config")):
        raise FedatlasError(
            f"{Path.cwd()} is the repository of fedatlas: begin a project elsewhere (fedatlas new "
            "project NAME) and go there; docs/adding.md says how to add to the repository itself"
        )
    if kind is not Kind.PROJECT and (project := project_around(Path.cwd())):
        raise FedatlasError(
            f"{Path.cwd()} is a part of the project {project}: go to {project} and call it there"
        )
    file = Path(start.file.format(name=name))
    if federation is not None and kind is not Kind.METHOD:
        raise FedatlasError(f"option '--kind', value '{federation}': is for methods: remove it")
    slug = name.replace("_", "-")
    if kind is Kind.PROJECT:
        _begin_project(file)
    elif kind is Kind.DATASET:
        _begin_dataset(file, name)
    elif kind is Kind.METHOD:
        _begin_method(file, name, slug, federation or "horizontal")
    else:
        _write(file, _filled(kind, name=name))
    say(start.message.format(file=file, name=name, slug=slug))


def _begin_method(file: Path, name: str, slug: str, federation: str) -> None:
    from fedatlas.algorithms import algorithm_names

    if federation not in _federations():
        raise FedatlasError(
            f"option '--kind', value '{federation}': must be one of {', '.join(_federations())}"
        )
    if name in algorithm_names() and not file.exists():
        raise FedatlasError(f"{file}: there is a method '{name}' elsewhere: use another name")
    class_name = "".join(part.capitalize() for part in name.split("_"))
    whole = _filled(f"method-{federation}", name=name, class_name=class_name)
    method, _, experiment = whole.partition(_EXPERIMENT)
    begun = Path("experiments", f"{slug}.yaml")
    if begun.exists():
        raise FedatlasError(f"{begun}: exists; it is left as it is. Use another name")
    _write(file, method)
    _write(begun, experiment)


def _begin_project(folder: Path) -> None:
    for file, template in _PROJECT.items():
        called = folder.name if template in ("README", "citation") else Path(file).stem
        _write(folder / file, _filled(template, name=called))
    _write(folder / _PROFILE, (repository() / _PROFILE).read_text(encoding="utf-8"))


def _begin_dataset(file: Path, name: str) -> None:
    from fedatlas.data.catalogue import load_catalogue

    for known in catalogue_files():
        if name in load_catalogue(known):
            raise FedatlasError(f"{known}: describes a data set '{name}': use another name")
    old = file.read_text(encoding="utf-8") if file.exists() else _HEAD_OF_DATASETS
    write_text(file, old + _filled("dataset", name=name))


def _filled(template: str, **names: str) -> str:
    text = (files("fedatlas") / "templates" / f"{template}.template").read_text(encoding="utf-8")
    return Template(text).substitute(names)


def _write(file: Path, text: str) -> None:
    if file.exists():
        raise FedatlasError(f"{file}: exists; it is left as it is. Use another name")
    write_text(file, text)
