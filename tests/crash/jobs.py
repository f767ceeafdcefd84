"""A tiny run of everything, job after job: each finds what those before it made."""

import io
import json
import zipfile
from gzip import compress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from catalogue_entry import entry
from experiment_files import config_folder
from fedatlas.plan import jobs, results
from fedatlas.plan.build import build_plan
from fedatlas.plan.places import RESULTS
from fedatlas.schema.partitions import VerticalPartition

NAME = "demo-small"
METHOD = {"clients_per_round": 2, "local_steps": 2, "batch_size": 4, "local_step_size": 0.1}
EXPERIMENT: dict[str, Any] = {
    "paper": "ours",
    "title": "A small experiment",
    "source": "a test",
    "dataset": "tiny",
    "partition": {"kind": "horizontal", "clients": 4},
    "objective": {"name": "logistic_l2", "weight": 0.1},
    "rounds": 2,
    "record_every": 1,
    "seeds": [0, 1],
    "figure": {"measurement": "suboptimality", "costs": ["round"]},
    "runs": {
        name: {"algorithm": name, "hyper_parameters": METHOD} for name in ("scaffold", "fedavg")
    },
    "claims": [
        {
            "id": "order",
            "source": "a test",
            "statement": "SCAFFOLD beats FedAvg",
            "test": {
                "kind": "order", "first": "scaffold", "second": "fedavg", "relation": "faster"
            },
        }
    ],
}  # fmt: skip


class Job(NamedTuple):
    """A command. may_go: files that it takes away before it writes them.

    folder: of its result, if that is a whole folder. is_tried: at its points.
    """

    name: str
    arguments: list[str]
    may_go: tuple[str, ...] = ()
    folder: str = ""
    is_tried: bool = True


def _samples(seed: int) -> bytes:
    random = np.random.default_rng(seed)
    features = random.normal(size=(40, 3)).round(3)
    lines = (f"{n % 2} 1:{x} 2:{y} 3:{z}\n" for n, (x, y, z) in enumerate(features))
    return "".join(lines).encode()


def _archive(**members: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in members.items():
            archive.writestr(f"{name}/samples", content)
    return packed.getvalue()


def make_jobs(outside: Path, work: Path, address: str) -> list[Job]:
    """Jobs in their order. outside: gets what they read. work: the only folder that they change.

    address: under which the folder `outside` is served.
    """
    for number in (1, 2):
        mirror = outside / f"mirror-{number}"
        mirror.mkdir(parents=True)
        (mirror / "tiny.gz").write_bytes(compress(_samples(number), mtime=0))
        (mirror / "folder.zip").write_bytes(_archive(a=_samples(number), b=_samples(number)[:300]))
    (outside / "served.zip").write_bytes(_archive(c=_samples(3)))
    served = {"path": "served.zip", "urls": [f"{address}/served.zip"], "unpack": "zip"}
    files = {
        "tiny": {"path": "tiny.gz", "decompress": "gz"},
        "folder": {"path": "folder.zip", "unpack": "zip"},
        "member": {"path": "member", "archive": served, "member": "c/samples"},
    }
    catalogue = {
        name: entry(labels={0: -1, 1: 1}, splits={"train": {"files": [file]}})
        for name, file in files.items()
    }
    (outside / "config").mkdir()
    config = config_folder(outside / "config", catalogue, small=EXPERIMENT)
    (outside / "CITATION.cff").write_text(
        "title: Small\nlicense: MIT\nauthors: [{family-names: Doe, given-names: Jo}]\n"
    )
    plan, made = build_plan(config), str(work / "results")
    data, lock = {"catalogue": [str(config / "datasets.yaml")]}, str(work / "sums.json")
    specs, own = plan.runs_of(NAME), f"{made}/experiments/{NAME}"
    every = jobs.inputs(*specs)

    def step(name: str, arguments: dict[str, Any], job: str, **about: Any) -> Job:
        return Job(job, ["step", name, json.dumps(arguments).replace(RESULTS, made)], **about)

    def fetched(file: str, name: str, job: str, mirror: int = 1, **about: Any) -> Job:
        given = {"file": file, "output": f"{made}/raw/{name}", "archives": f"{made}/archives"}
        given |= {"mirror": str(outside / f"mirror-{mirror}"), "lock": lock}
        return step("download_file", data | given, job, **about)

    def prepared(name: str, job: str, **about: Any) -> Job:
        given = {"dataset": "tiny", "split": "train", "output": f"{made}/data/{name}/train.parquet"}
        given |= {"raw": [f"{made}/raw/{name}"], "lock": lock}
        return step("prepare_split", data | given, job, **about)

    def sharded(prepared: str, manifest: str, job: str, **about: Any) -> Job:
        manifest = manifest.replace(RESULTS, made)
        slug = manifest.split("/")[-2]
        cut = plan.partitions[slug]
        given = {"spec": cut.model_dump(mode="json"), "manifest": manifest}
        silos = jobs.shards("tiny", "train", cut)
        given |= {"silos": silos, "prepared": f"{made}/data/{prepared}/train.parquet"}
        return step("shard_split", given, job, **about)

    def published(day: int, **about: Any) -> Job:
        options = ["--config", str(config), "--citation", str(outside / "CITATION.cff")]
        options += ["--date", f"2026-01-0{day}", "--archive", f"{work}/small.zip"]
        return Job(arguments=["publish", made, f"{work}/published", *options], **about)

    first = every["manifests"][0]
    parties = VerticalPartition(parties=2, active=1, seed=0)
    plan.partitions[parties.slug] = parties
    columns = f"{RESULTS}/shards/tiny/train/{parties.slug}/manifest.json"
    chosen = {"traces": f"{own}/traces.nc", "selection": f"{own}/selection.json"}
    (objective,) = plan.objectives.values()
    found = {"objective": objective.model_dump(mode="json")}
    training = {"results": made, "seeds": f"{made}/seeds", "device": "cpu", "checkpoint_every": 0}
    # A rehearsal takes longer than all else, and writes one line.
    brief = specs[0].model_copy(update={"run": "brief", "rounds": 1, "seeds": (0,)})
    rows = [(slug, part, jobs.shards("tiny", "train", part)) for slug, part in plan.pooled.items()]
    cuts = {*every["manifests"], *(f"{Path(files[0]).parent}/manifest.json" for *_, files in rows)}
    optima = [
        step(
            "find_optimum",
            found | {"rows": files, "output": file},
            job="optimum" if not number else "another optimum",
            is_tried=not number,
        )
        for number, file in enumerate(every["optima"])
        for slug, _, files in rows
        if slug in file
    ]
    selected = results.selection_spec(plan, NAME)
    selected |= {"traces": results.trace_files(specs), "tuning": []}
    selected |= {"output": f"{own}/selection.json", "joined": f"{own}/traces.nc"}
    judged = chosen | results.claims_spec(plan, NAME) | {"output": f"{own}/claims.csv"}
    drawn = chosen | results.figure_spec(plan, NAME)
    drawn |= {"output": [f"{own}/figure.svg", f"{own}/figure.png"]}
    collected = {"claims": judged["output"], "csv": f"{made}/claims.csv"}
    collected |= {"html": f"{made}/claims.html"}
    explored = {"atlas": made, "claims": f"{made}/claims.csv", "config": str(config)}
    explored |= {"output": f"{made}/explorer.html"}
    return [
        fetched("tiny", "tiny", "download"),
        fetched("folder.zip", "folder", "download a folder", folder="results/raw/folder"),
        fetched(
            "folder.zip", "folder", "download it anew", 2, folder="results/raw/folder",
            may_go=("results/raw/.folder.origin.json",),
        ),
        fetched("member", "member", "download a member"),
        fetched("tiny", "other", "download another", 2, is_tried=False),
        prepared("tiny", "prepare"),
        prepared("other", "prepare another", is_tried=False),
        sharded("tiny", columns, "shard columns"),
        sharded("tiny", first, "shard"),
        sharded(
            "other", first, "shard anew",
            may_go=(str(Path(first.replace(RESULTS, "results"))),),
        ),
        *(sharded("other", cut, "other shards", is_tried=False) for cut in sorted(cuts - {first})),
        *optima,
        step("train_run", training | jobs.points(brief), "rehearse", is_tried=False),
        step("train_run", training | jobs.points(specs[0]), "train"),
        step("train_run", training | jobs.points(*specs[1:]), "train others", is_tried=False),
        step("select_points", selected, "select and join"),
        step("tabulate_results", chosen | {"output": f"{own}/table.csv"}, "tabulate"),
        step("judge_claims", judged, "judge"),
        step("draw_figure", drawn, "draw"),
        step("collect_all_claims", collected, "collect claims"),
        step("write_explorer", explored, "explore"),
        published(1, name="publish", folder="published"),
        published(2, name="publish anew", folder="published"),
    ]  # fmt: skip
