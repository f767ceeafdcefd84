"""Configuration, the plan, and the functions by which rules look things up in it."""

import atexit
import gc
import re
from functools import cache
from pathlib import Path

from snakemake.exceptions import WorkflowError

from fedatlas.atlas.page import SOURCES as EXPLORER_SOURCES
from fedatlas.atlas.scope import read_scope
from fedatlas.schema.papers import OURS
from fedatlas.plan.closure import import_closure
from fedatlas.schema.config import export_to_jobs, load_config
from fedatlas.errors import FedatlasError
from fedatlas.files import canonical_json, text_digest
from fedatlas.plan.build import build_plan, group_of

# A graph of jobs is very many objects and hardly any garbage. Looking for it takes Python a fifth of
# a run with nothing to do, and as long once more at the end.
gc.freeze()
gc.set_threshold(50_000)
atexit.register(gc.freeze)

if Path("results").exists() and not Path("results").is_dir():
    raise WorkflowError("results is a file, but must be a folder: move it away")

try:
    CONFIG = load_config(config)
    PLAN = build_plan(Path("config"))
    SELECTED = PLAN.select(CONFIG.experiments)
    SCOPE = read_scope(PLAN, SELECTED)
except FedatlasError as error:
    raise WorkflowError(str(error)) from None

export_to_jobs(CONFIG)

RAW_FILES = PLAN.catalogue.raw_files()


wildcard_constraints:
    collection=r"[a-z0-9-]+",
    dataset=r"[A-Za-z0-9.-]+",
    experiment=r"[a-z0-9-]+",
    partition=r"[A-Za-z0-9._-]+",
    point=r"[A-Za-z0-9._+-]+",
    run=r"[A-Za-z0-9._+-]+",
    split=r"[A-Za-z0-9.-]+",


def from_here(paths):
    """Source files as inputs, relative to the working directory where they lie in it."""
    here = Path.cwd()
    return [str(path.relative_to(here) if path.is_relative_to(here) else path) for path in paths]


@cache
def code_of(*modules):
    """Source files that a step depends on."""
    return from_here(import_closure(*modules))


def traces_of(experiment):
    """All traces of an experiment, in the order of its file."""
    trained = PLAN.experiments[experiment].trained
    return [
        f"results/experiments/{spec.experiment}/traces/{spec.run}/{spec.point}.nc"
        for spec in (PLAN.runs_of(experiment) if trained else [])
    ]


def experiment_files(experiment):
    """What is made of every experiment; its traces too, so that a lost one is made again."""
    names = ["selection.json", "claims.csv"]
    if PLAN.experiments[experiment].trained:
        names += ["figure.svg", "figure.png", "table.csv"]
    if PLAN.experiments[experiment].budgets:
        names += ["budgets.nc", "budgets.svg", "budgets.png", "conditions.csv"]
    if PLAN.experiments[experiment].graphs and not PLAN.experiments[experiment].runs_of:
        names += ["graphs.svg", "graphs.png"]
    if PLAN.experiments[experiment].privacy_audit:
        names += ["privacy-audit.csv"]
    if PLAN.experiments[experiment].audit:
        names += ["leaks.csv", "trees.svg", "trees.png"]
    if PLAN.experiments[experiment].landscape:
        names += ["landscape.json", "landscape.svg", "landscape.png"]
    files = [f"results/experiments/{experiment}/{name}" for name in names]
    return files + traces_of(experiment)


def experiment_results(experiments):
    """What is made of the given experiments."""
    return [file for experiment in experiments for file in experiment_files(experiment)]


def members(*groups):
    """The selected experiments of the given groups."""
    return [name for name in SELECTED if group_of(name) in groups]


def paper_results(*papers):
    """What is made of the papers' selected experiments, and the papers' verdicts."""

    def files(wildcards):
        chosen = members(*papers)
        if not chosen:
            raise WorkflowError(
                f"no experiment of {', '.join(papers)} is selected: put behind the target "
                f"--configfile config/paper.yaml, or --config 'experiments=[\"{papers[0]}-*\"]'"
            )
        groups = sorted({group_of(name) for name in chosen})
        claims = [f"results/claims/{group}.{kind}" for group in groups for kind in ("csv", "html")]
        return experiment_results(chosen) + claims

    return files


def one_of(names):
    """A wildcard constraint that admits these names only."""
    return "|".join(re.escape(name) for name in sorted(names)) or "(?!)"


def run_spec(wildcards):
    """A training job's specification."""
    return PLAN.run(wildcards.experiment, wildcards.run, wildcards.point)


def claims_files(experiments):
    """The verdicts of the given experiments."""
    return [f"results/experiments/{experiment}/claims.csv" for experiment in experiments]


def identity_of(wildcards):
    """What makes a raw file the one it is; urls and the mirror do not, its checksum does."""
    kept = {"path", "checksum", "decompress", "unpack", "member"}
    return canonical_json(RAW_FILES[wildcards.file].model_dump(mode="json", include=kept))


def split_files(wildcards):
    """Raw files of a split; none for data that come with a library."""
    split = PLAN.catalogue[wildcards.dataset].split(wildcards.split)
    return [f"results/raw/{file.local_path}" for file in split.files]


def scaling_split(wildcards):
    """The split by whose statistics the others are scaled."""
    scaled = PLAN.catalogue[wildcards.dataset].scaled_by_train
    needed = scaled and wildcards.split != "train"
    return f"results/data/{wildcards.dataset}/train.parquet" if needed else []


def reading_code(wildcards):
    """Source files that preparing depends on: of the readers only that of the format."""
    dataset = PLAN.catalogue[wildcards.dataset]
    return code_of("fedatlas.data.prepare", f"fedatlas.data.formats.{dataset.format}")


def reading_of(wildcards):
    """What decides how a data set's raw files are read; titles and licences do not."""
    prose = {"title", "homepage", "licence", "citation", "note", "splits"}
    dataset = PLAN.catalogue[wildcards.dataset]
    rows = dataset.split(wildcards.split).rows
    return canonical_json({**dataset.model_dump(mode="json", exclude=prose), "rows": rows})


def silos_of(dataset, split, partition):
    """The shard files of a partition, in order."""
    return [
        f"results/shards/{dataset}/{split}/{partition.slug}/silo-{number}.parquet"
        for number in range(partition.silos)
    ]


def split_of_run(wildcards):
    """The data set and split of a training job, as folders are named."""
    spec = run_spec(wildcards)
    return f"{spec.dataset}/{spec.split}"


def trials_of(wildcards):
    """The partitions of a training job's trials, each once."""
    spec = run_spec(wildcards)
    trials = [spec.partition.of_trial(seed) for seed in spec.seeds]
    return list({partition.slug: partition for partition in trials}.values())


def shards_of(wildcards):
    """All shard files that a training job reads."""
    spec = run_spec(wildcards)
    return [
        file
        for partition in trials_of(wildcards)
        for file in silos_of(spec.dataset, spec.split, partition)
    ]


def manifests_of(wildcards):
    """What vouches for the shard files of a training job."""
    return sorted({str(Path(file).with_name("manifest.json")) for file in shards_of(wildcards)})


def optima_of(wildcards):
    """The optima that a training job measures sub-optimality against."""
    spec = run_spec(wildcards)
    folder = Path("results/optima") / spec.dataset / spec.split
    files = {spec.optimum_file(folder, seed) for seed in spec.seeds}
    return sorted(str(file) for file in files if file)


def rows_of_experiment(wildcards):
    """Shard files of the first trial of an experiment."""
    experiment = PLAN.experiments[wildcards.experiment]
    partition = experiment.partition.of_trial(experiment.seeds[0])
    return silos_of(experiment.dataset, experiment.split, partition)


def landscape_code(wildcards):
    """Source files that a landscape depends on."""
    model = PLAN.experiments[wildcards.experiment].objective.model
    return code_of("fedatlas.studies.landscape", f"fedatlas.architectures.{model}")


def landscape_spec(wildcards):
    """What a landscape depends on besides samples."""
    experiment = PLAN.experiments[wildcards.experiment].model_dump(mode="json")
    return canonical_json({key: experiment[key] for key in ("objective", "landscape")})


def made_for(key, name):
    """A file that an experiment's claims may be about, if the experiment has the key."""

    def file(wildcards):
        wanted = getattr(PLAN.experiments[wildcards.experiment], key)
        return f"results/experiments/{wildcards.experiment}/{name}" if wanted else []

    return file


def option(name):
    """The option of a command that takes the input of that name, if there is one."""

    def text(wildcards, input):
        file = getattr(input, name)
        return f"--{name} {file}" if file else ""

    return text


def privacy_spec(study):
    """What is computed of all runs of an experiment by its key `study` depends on."""

    def spec(wildcards):
        key = getattr(PLAN.experiments[wildcards.experiment], study).model_dump(mode="json")
        runs = [spec.model_dump(mode="json") for spec in PLAN.runs_of(wildcards.experiment)]
        return canonical_json({study: key, "runs": runs})

    return spec


def budgets_code(wildcards):
    """Source files that privacy budgets depend on."""
    methods = {spec.algorithm for spec in PLAN.runs_of(wildcards.experiment)}
    return code_of(
        "fedatlas.studies.budgets", *(f"fedatlas.algorithms.{name}" for name in sorted(methods))
    )


def budgets_titles(wildcards):
    """What a figure of budgets says."""
    runs = PLAN.run_titles(wildcards.experiment)
    return canonical_json({"title": figure_title(wildcards), "runs": runs})


def graphs_spec(wildcards):
    """What a drawing of an experiment's graphs depends on."""
    experiment = PLAN.experiments[wildcards.experiment]
    return canonical_json(
        {
            "title": figure_title(wildcards),
            "graphs": experiment.graphs.model_dump(mode="json"),
            "agents": PLAN.agents_of(wildcards.experiment),
        }
    )


def training_code(wildcards):
    """Source files that a training job depends on."""
    return code_of(*run_spec(wildcards).code)


def tuning_of(wildcards):
    """The selection from which a training job takes its hyper-parameters, if it is tuned elsewhere."""
    tuned_in = run_spec(wildcards).tuned_in
    return f"results/experiments/{tuned_in}/selection.json" if tuned_in else []


def test_split_of(wildcards):
    """The prepared split that a partition keeps for testing, if it names one."""
    split = getattr(PLAN.partitions[wildcards.partition], "test_split", None)
    return f"results/data/{wildcards.dataset}/{split}.parquet" if split else []


def sharding_code(wildcards):
    """Source files that sharding depends on."""
    writers = {
        "horizontal": "fedatlas.shards.clients",
        "vertical": "fedatlas.shards.parties",
        "tiered": "fedatlas.shards.silos",
    }
    return code_of(writers[PLAN.partitions[wildcards.partition].kind])


def claims_spec(wildcards):
    """What verdicts depend on besides traces and the selection."""
    experiment = PLAN.experiments[wildcards.experiment].model_dump(mode="json")
    kept = {key: experiment[key] for key in ("paper", "claims")}
    return canonical_json({"experiment": wildcards.experiment, **kept})


def figure_title(wildcards):
    """What stands above an experiment's figures."""
    experiment = PLAN.experiments[wildcards.experiment]
    return f"{experiment.title} — {experiment.source}"


def figure_spec(wildcards):
    """What a figure depends on besides traces."""
    experiment = PLAN.experiments[wildcards.experiment]
    return canonical_json(
        {
            "title": figure_title(wildcards),
            "figure": experiment.figure.model_dump(mode="json"),
            "runs": PLAN.run_titles(wildcards.experiment),
        }
    )


def report_labels(what):
    """Labels of a report item."""
    return {"experiment": "{experiment}", "item": what}


@cache
def joined_runs():
    """Runs that selected experiments show: owner → run → the experiment that chooses its point.

    The owner's selection goes before those of experiments that only show its runs.
    """
    joined = {}
    for name in SELECTED:
        experiment = PLAN.experiments[name]
        owner = experiment.runs_of or name
        for run in experiment.runs if experiment.trained else ():
            runs = joined.setdefault(owner, {})
            if owner == name or run not in runs:
                runs[run] = name
    return joined


@cache
def joined_papers():
    """Papers that have traces among the selected experiments."""
    return sorted({PLAN.experiments[owner].paper for owner in joined_runs()})


def joined_of(paper):
    """Of one paper: owner → run → the experiment that chooses its point."""
    joined = joined_runs()
    return {name: joined[name] for name in joined if PLAN.experiments[name].paper == paper}


def joined_traces(paper):
    """Traces of a paper in the atlas, each once."""
    return [
        file
        for owner, runs in joined_of(paper).items()
        for file in traces_of(owner)
        if Path(file).parent.name in runs
    ]


def joined_selections(paper):
    """The selections of a paper's runs in the atlas."""
    chosen = {name for runs in joined_of(paper).values() for name in runs.values()}
    return [f"results/experiments/{name}/selection.json" for name in sorted(chosen)]


def joined_spec(wildcards):
    """What a paper's part of the atlas holds; lists, since their order is kept."""
    experiments = []
    for owner, chosen_in in joined_of(wildcards.paper).items():
        points = {run: [] for run in chosen_in}
        for spec in PLAN.runs_of(owner):
            if spec.run in points:
                points[spec.run].append(spec.point)
        titles = PLAN.run_titles(owner)
        runs = [
            {
                "name": run,
                "title": titles[run],
                "selected_in": chosen_in[run],
                "points": points[run],
            }
            for run in titles
            if run in chosen_in
        ]
        kept = {"title", "source", "notes", "dataset"}
        stated = PLAN.experiments[owner].model_dump(mode="json", include=kept)
        experiments.append({"name": owner, **stated, "runs": runs})
    return canonical_json({"paper": wildcards.paper, "experiments": experiments})


def summary_scope(wildcards):
    """What the summary says of the configuration, too long for a command line: it reads it anew."""
    return text_digest(canonical_json([scope.model_dump(mode="json") for scope in SCOPE]))


def summarised(name):
    """A file of every selected experiment that has one."""
    files = experiment_results(SELECTED)
    return [file for file in files if Path(file).name == name]


def published_traces():
    """Traces of the selected experiments' runs for which papers print where they end."""
    files = []
    for name in SELECTED:
        experiment = PLAN.experiments[name]
        tests = [claim.test for claim in experiment.claims]
        runs = {test.run for test in tests if test.kind == "published_measurement"}
        runs |= set(experiment.figure.published)
        files += [file for file in traces_of(name) if Path(file).parent.name in runs]
    return sorted(set(files))


def runs_shown():
    """Selected experiments without runs of their own → the runs of others that they show."""
    experiments = {name: PLAN.experiments[name] for name in SELECTED}
    return canonical_json(
        {
            name: [f"{experiment.runs_of}/{run}" for run in experiment.runs]
            for name, experiment in experiments.items()
            if experiment.runs_of
        }
    )


def atlas_across_papers():
    """The atlas, if an experiment of no single paper is selected, whose runs it compares."""
    trained = [name for name in SELECTED if PLAN.experiments[name].trained]
    across = any(PLAN.experiments[name].paper == OURS for name in trained)
    return "results/atlas/atlas.nc" if across else []
