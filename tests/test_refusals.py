"""What cannot work is refused when it is planned, with the reason, before anything runs."""

import pytest

from experiment_files import config_folder
from fedatlas.errors import FedatlasError
from fedatlas.plan.build import build_plan
from test_plan import TIERED
from test_workflow_decentralised import EXPERIMENTS as AGENTS
from test_workflow_min_max import BINARY, OBJECTIVE
from test_workflow_min_max import EXPERIMENTS as MIN_MAX
from test_workflow_vertical import EXPERIMENT as PARTIES
from workflow_copy import EXPERIMENT

#: Parties with columns of a CSV file.
TABLE = PARTIES.replace("dataset: breast-cancer", "dataset: give-me-some-credit").replace(
    "parties: 4, active: 2",
    "parties: 2, active: 2, assignment: listed, columns: [[age, MonthlyIncome], [DebtRatio]]",
)
SCAFFOLD = "batch_size: 4, local_step_size: 0.02}\n  fedavg"
#: Experiments by name; of which one; what stands there, what is put in its place, what is said.
WRONG = {
    "clients": ({"small": EXPERIMENT}, [
        ("rounds: 40", "rounds: 40\nround: 3", r"small\.yaml.*unknown key 'round'.*rounds"),
        ("rounds: 40", "rounds: 40\nrounds: 5",
         r"small\.yaml, line 9: .*'rounds' stands twice, first in line 8"),
        ("record_every: 10\n", "",
         r"small\.yaml: missing key 'record_every': .*such as 1 of 40 rounds$"),
        ("\nseeds: [0, 1]", "\nseeds: [0, 0]", r"small\.yaml: seeds: a seed is listed twice$"),
        ("[100, 101]", "[7, 7]", r"small\.yaml: tuning_seeds: a seed is listed twice$"),
        ("[100, 101]", "[1, 2]", r"small\.yaml: tuning_seeds: \[1\] are in .*name others"),
        ("tuning_seeds: [100, 101]\n", "",
         r"small\.yaml: key 'tuning_seeds': is missing, but claim 'order' .*such as"),
        ("[0.1, 0.03]", "[0.1]", r"small\.yaml: tuning_seeds: no run has a grid of several"),
        ("algorithm: fedavg", "algorithm: fedagv",
         r"runs\.fedavg\.algorithm: unknown algorithm 'fedagv'.*methods/fedagv\.py.*scaffold"),
        ("paper: fedpage", "paper: fedpaje", r"small\.yaml: key 'paper', value 'fedpaje': .*ours$"),
        ("dataset: breast-cancer", "dataset: breast", r"small\.yaml.*'breast'.*breast-cancer"),
        (SCAFFOLD, SCAFFOLD.replace(", local_step_size: 0.02", ""),
         r"small\.yaml.*runs\.scaffold.*missing key 'local_step_size'"),
        ("batch_size: 4", "batchsize: 4", r"unknown key 'batchsize'.*batch_size"),
        ("local_steps: 5", "local_steps: 0", r"local_steps.*value 0.*greater than 0"),
        ("grid: {global_step_size", "grid: {global_stepsize",
         r"runs\.fedpage\.grid: fedpage has no key 'global_stepsize'; similar: global_step_size"),
        ("[0.1, 0.03]", "[0.1, 1e-1]", r"small\.yaml: runs\.fedpage\.grid.*twice"),
        ("clients: 56", "clients: 5", r"clients_per_round.*only 5 clients"),
        ("clients: 56, samples: 560", "clients: 600", r"600 rows or clients.*has 569 rows"),
        ("assignment: consecutive, clients: 56", "assignment: by_column, column: user, clients: 56",
         r"small\.yaml: .*'partition\.column', value 'user': .*breast-cancer keeps no such column"),
        ("assignment: consecutive, clients: 56, samples: 560",
         "assignment: dirichlet_sizes, concentration: 1, minimum: 11, clients: 56",
         r"asks for 616 rows or clients, but breast-cancer has 569"),
        ("consecutive, clients: 56",
         "power_law_sizes, exponent: 1, minimum: 10, test: 1, clients: 56",
         r"small\.yaml: .*56 clients need 560 samples together, but there are 559 to train on"),
        ("second: fedavg", "second: fedavgg", r"fedavgg.*fedpage, scaffold, fedavg"),
        ("record_every: 10", "record_every: 50",
         r"small\.yaml: record_every: 50 is more than the 40 rounds, .*or state 40"),
        ("algorithm: scaffold", "algorithm: scaffold\n    rounds: 7",
         r"small\.yaml: runs\.scaffold\.record_every: 10 is more than the 7 rounds"),
        (SCAFFOLD, SCAFFOLD.replace("}", "}\n    grid: {global_step_size: [0.5]}"),
         r"runs\.scaffold\.grid\.global_step_size: lists one value, 0\.5, where run 'fedpage' lists"
         r" 2: list as many, or state 'global_step_size: 0\.5' in hyper_parameters"),
        ("relation: faster", "relation: faster, at: 41", r"'order'.*at.*40 rounds"),
        ("costs: [round]", 'costs: ["latency(10)"]',
         r"latency\(10\), which run 'fedpage' does not count"),
        ("dataset: breast-cancer", "dataset: digits",
         "needs labels ±1 or real labels, but digits is a multiclass data set"),
    ]),
    "silos": ({"small": TIERED}, [
        ("batch_size: 427", "batch_size: 428", r"428, but there are only 427 training samples"),
        ("clients: 5", "clients: 428", r"428 clients cannot share 427 training samples; lower"),
        ("test_f1", "disagreement", r"figure looks at disagreement, which run 'tdcd' does not"),
        ("latency(10)", "epsilon", r"looks at epsilon, .* does not count: it is not private"),
        ("latency(10)", "simulated_time", r"looks at simulated_time, .*: it states no .network"),
        ("breast-cancer", "digits", r"needs labels ±1, but digits is a multiclass data set"),
    ]),
    "agents": ({"small": AGENTS["small"]}, [
        ("[0, 2, 1]]", "[0, 4, 1]]", r"graphs\.trackers: the edge \[0, 4, 1\] is beyond the 3"),
        ("[[1, 0, 1], [2, 1, 1], [0, 2, 1]]", "[[0, 1, 1]]", "Assumption 1"),
        ("{kind: ring, weights: metropolis}", "{kind: directed_ring, weights: sent}", "symmetric"),
        ("p_zeta: 0.9", "p_zeta: 1.1", "p_zeta.*1.1"),
        ("rounds: 4", "rounds: 9", "horizon 4 has 5 iterations, fewer than the 9"),
        ("noise: 0.1", "noise: 0", "noise"),
        ("algorithm: quantised_gradient_descent", "algorithm: fedavg", "FedAvg does not work on"),
        ("clipping: none", "clipping: none, form: provable", "form provable rests on clipping"),
    ]),
    "parties": ({"small": PARTIES}, [
        ("parties: 4, active: 2", "parties: 31, active: 2", "31 parties.*only 30 features"),
        ("parties: 4, active: 2", "parties: 4, active: 5", "'active' is 5.* only 4 parties"),
        ("parties: 4, active: 2", "parties: 2, active: 2, assignment: listed, columns: [[0], [1]]",
         r"'partition\.columns': .*leaves 28 of 30 columns to no party: 2, 3, 4, 5, 6, …; list"),
        ("parties: 4, active: 2",
         "parties: 2, active: 2, assignment: listed, columns: [{bank: [0]}, [1]]",
         r"key 'partition': columns: 'bank': parties have no names: list the columns of each"),
        ("latency: 2.0e-6", "latency: -1", "network.latency.*greater than or equal to 0"),
        ("test: 0.2, standardise: true}\nnetwork", "test: tests}\nnetwork", "no split 'tests'"),
        ("algorithm: vfb2_saga", "algorithm: fedavg", "works on a horizontal partition"),
        ("name: logistic_l2", "name: logistic_l1", "objective.name"),
    ]),
    "tables": ({"small": TABLE}, [
        ("[age, MonthlyIncome]", "[age, SeriousDlqin2yrs]",
         r"value 'SeriousDlqin2yrs': data set .* has it as 'label', and the active parties"),
        ("[age, MonthlyIncome]", '["", MonthlyIncome]', "has it as 'ignore', and it is no feature"),
    ]),
    "min-max": (MIN_MAX, [
        ("small", "tuned_in: demo-grid}", "tuned_in: demo-grids}", "no run 'sgda' in.*demo-grids"),
        ("small", "seeds: [0, 1]", "seeds: [0, 7]", r"shares the seeds \[7\] with demo-grid"),
        ("small", "algorithm: local_sgda,", "algorithm: coda,", "must choose a point of coda"),
        ("small", "{local_steps: 3}", "{local_step: 3}", "local_step"),
        ("small", "model: cnn_8x8", "model: cnn_9x9", "no such network; there are:.*cnn_8x8"),
        ("small", "test_auroc, costs", "gradient_norm, costs", "does not measure"),
        ("small", "  test: 0.2\n", "", "keeps no test rows"),
        ("small", f"  {BINARY}\n", "", "partition's 'binary'"),
        ("grid", "algorithm: local_sgda", "algorithm: fedavg", "FedAvg minimises.*is min–max"),
        ("grid", OBJECTIVE, "{name: robust_regression}", "'fmgda' does not measure"),
        ("small", "model: cnn_8x8}", "model: cnn_8x8, scores: tanh}", "scores"),
        ("grid", "name: auc_min_max", "name: auc_max", "objective.name.*auc_max.*auc_min_max"),
        ("grid", "{from: 5, to: 9}", "{from: 5}", "from: first, to: last"),
        ("table", "runs_of: demo-small", "runs_of: demo-table", "no experiment that declares runs"),
        ("table", "runs_of: demo-small", "runs_of: demo-small\nrounds: 9", "'rounds'.*demo-small"),
    ]),
}  # fmt: skip


@pytest.mark.parametrize(
    ("experiments", "case"),
    [
        pytest.param(experiments, case, id=f"{name}-{case[-2]}")
        for name, (experiments, cases) in WRONG.items()
        for case in cases
    ],
)
def test_what_cannot_work_is_refused(tmp_path, experiments, case):
    *named, old, new, message = case
    name = named[0] if named else "small"
    assert old in experiments[name]
    changed = experiments | {name: experiments[name].replace(old, new)}
    with pytest.raises(FedatlasError, match=f"(?s){message}"):
        build_plan(config_folder(tmp_path, **changed))
