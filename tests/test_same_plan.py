"""The experiment files state what they stated before they were families.

`tests/plan-digests.json` holds digests of every experiment's runs, claims, figure, all else, and
training jobs. They were made of the files that spelt everything out. After a deliberate change of
an experiment, `python tests/test_same_plan.py` writes the file anew; look at its diff.
"""

import hashlib
import json
from pathlib import Path

import pytest

from fedatlas.plan.build import Plan, build_plan
from fedatlas.schema.experiment_files import read_experiments
from fedatlas.schema.experiments import Experiment
from fedatlas.schema.models import as_yaml, read_yaml, validated

ROOT = Path(__file__).parent.parent
DIGESTS = Path(__file__).parent / "plan-digests.json"


def digest(value) -> str:
    """Of plain data, whatever the order of keys in mappings."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def parts(plan: Plan, name: str) -> dict[str, object]:
    """An experiment in plain data; its runs and claims in their order."""
    experiment = plan.experiments[name]
    stated = experiment.model_dump(mode="json", exclude_defaults=True)
    runs = []
    for run, own in experiment.runs.items():
        graphs = own.graphs or experiment.graphs
        # As they are: whether a run states them itself, or the experiment for all, is the same.
        runs.append(
            own.model_dump(mode="json", exclude_defaults=True)
            | {
                "name": run,
                "partition": experiment.partition_of(run).model_dump(mode="json"),
                "objective": experiment.objective_of(run).model_dump(mode="json"),
                "graphs": graphs and graphs.model_dump(mode="json"),
                "rounds": experiment.rounds_of(run),
                "record_every": experiment.record_every_of(run),
            }
        )
    del stated["runs"]
    return {
        "runs": runs,
        "claims": stated.pop("claims", []),
        "figure": stated.pop("figure", {}),
        "rest": stated,
        "jobs": [
            [key, spec.model_dump(mode="json")] for key, spec in plan.runs.items() if key[0] == name
        ],
    }


def digests(plan: Plan) -> dict[str, dict[str, str]]:
    """By experiment and part, in the order of the plan."""
    return {
        name: {part: digest(value) for part, value in parts(plan, name).items()}
        for name in plan.experiments
    }


@pytest.fixture(scope="module")
def plan() -> Plan:
    return build_plan(ROOT / "config")


def test_experiments_are_those_that_were_spelt_out(plan):
    expected = json.loads(DIGESTS.read_text(encoding="utf-8"))
    found = digests(plan)
    assert list(found) == list(expected)
    changed = [
        f"{name}: {part}"
        for name, of in expected.items()
        for part, one in of.items()
        if found[name][part] != one
    ]
    assert not changed


def test_what_is_printed_of_an_experiment_states_it_without_families(plan, tmp_path):
    for name, (_, content) in read_experiments(ROOT / "config" / "experiments").items():
        file = tmp_path / f"{name}.yaml"
        file.write_text(as_yaml(content), encoding="utf-8")
        again = validated(Experiment, read_yaml(file), name)
        assert again.model_dump() == plan.experiments[name].model_dump()


if __name__ == "__main__":
    written = json.dumps(digests(build_plan(ROOT / "config")), indent=1)
    DIGESTS.write_text(f"{written}\n", encoding="utf-8")
