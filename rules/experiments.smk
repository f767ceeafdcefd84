"""What is made of one experiment's traces, or beside them: a rule for each of these steps."""

from fedatlas.evaluation.verdicts import STUDIES

TRACES = {"traces": "<results>/experiments/{experiment}/traces.nc"}
CHOSEN = {**TRACES, "selection": "<results>/experiments/{experiment}/selection.json"}
FIRST_SHARDS = {"rows": of_experiment(results.first_shards)}
HOLDS_TRACES = needs(
    gigabytes=1,
    minutes=30,
    more=lambda wildcards, input: jobs.memory_of_traces(
        placed(results.traces(PLAN, wildcards.experiment))
    ),
)

# Step → what its rule says: inputs, arguments, code that depends on the experiment, and needs.
OF_EXPERIMENTS = {
    "select_points": {
        "input": {
            "traces": of_experiment(results.traces),
            "tuning": of_experiment(results.tuning),
        },
        "spec": of_experiment(results.selection_spec),
        "needs": HOLDS_TRACES,
    },
    "tabulate_results": {"input": CHOSEN, "needs": HOLDS_TRACES},
    "draw_figure": {
        "input": CHOSEN,
        "spec": of_experiment(results.figure_spec),
        "code": of_experiment(results.drawing_code),
        "needs": HOLDS_TRACES,
        "notes": lambda wildcards, input: rest(PLAN.experiments[wildcards.experiment].notes),
    },
    "judge_claims": {
        "input": CHOSEN
        | {name: of_experiment(results.judged_file, study.file) for name, study in STUDIES.items()}
        | {"tuning": of_experiment(results.tuning)},
        "spec": of_experiment(results.claims_spec),
        "code": of_experiment(results.judging_code),
        "needs": HOLDS_TRACES,
    },
    "tabulate_constants": {
        "input": {"labels": of_experiment(results.labels)},
        "spec": of_experiment(results.predictors_spec),
        "passes": ["output"],
        "shards": f"{RESULTS}/shards",
    },
    "tabulate_leaks": {
        "input": FIRST_SHARDS,
        "spec": of_experiment(results.keys_spec, "objective"),
        "needs": needs(gigabytes=4, minutes=30),
    },
    "draw_recovery": {
        "input": {"recovery": "<results>/experiments/{experiment}/recovery.csv"},
        "spec": of_experiment(results.heading_spec),
    },
    "tabulate_collusion": {},
    "draw_trees": {
        "spec": lambda wildcards: {
            "parties": PLAN.experiments[wildcards.experiment].partition.parties
        }
    },
    "compute_landscape": {
        "input": FIRST_SHARDS,
        "spec": of_experiment(results.keys_spec, "objective", "landscape"),
        "code": of_experiment(results.landscape_code),
    },
    "draw_landscape": {
        "input": {"landscape": "<results>/experiments/{experiment}/landscape.json"},
        "spec": of_experiment(results.heading_spec),
    },
    "compute_budgets": {
        "spec": of_experiment(results.privacy_spec, "budgets"),
        "code": of_experiment(results.budgets_code),
    },
    "draw_budgets": {
        "input": {"budgets": "<results>/experiments/{experiment}/budgets.nc"},
        "spec": of_experiment(results.budgets_spec),
    },
    "attack_budgets": {
        "spec": of_experiment(results.privacy_spec, "privacy_audit"),
        "needs": needs(gigabytes=4, minutes=60),
    },
    "tabulate_theory": {
        "input": TRACES | {"rows": of_experiment(results.seed_shards)},
        "passes": ["traces", "output"],
        "shards": f"{RESULTS}/shards",
        "code": of_experiment(results.theory_code),
        "needs": needs(gigabytes=4, minutes=30),
    },
    "draw_theory": {
        "input": TRACES | {"theory": "<results>/experiments/{experiment}/theory.csv"},
        "spec": of_experiment(results.titles_spec),
    },
    "tabulate_worst_cases": {
        "spec": of_experiment(results.worst_cases_spec),
        "code": of_experiment(results.budgets_code),
        "needs": needs(gigabytes=2, minutes=120),
    },
    "draw_worst_cases": {
        "input": {"cases": "<results>/experiments/{experiment}/worst-cases.csv"},
        "spec": of_experiment(results.heading_spec),
    },
    "validate_parties": {
        "input": {"shards": of_experiment(results.validated_shards)},
        "spec": of_experiment(results.validation_spec),
        "code": of_experiment(results.objective_code),
        "threads": lambda wildcards: max(PLAN.experiments[wildcards.experiment].validation.parties),
        "needs": needs(gigabytes=4, minutes=120),
    },
    "draw_validation": {
        "input": {"curves": "<results>/experiments/{experiment}/validation.json"},
        "spec": of_experiment(results.heading_spec),
    },
    "draw_graphs": {"spec": of_experiment(results.graphs_spec)},
}

for step, says in OF_EXPERIMENTS.items():

    rule:
        name:
            step
        input:
            **says.pop("input", {}),
        output:
            **made(step),
        log:
            f"<logs>/{step}/{{experiment}}.log",
        threads: says.pop("threads", 1)
        resources:
            **says.pop("needs", needs(gigabytes=2, minutes=30)),
        params:
            **arguments(step, **says),
        shell:
            STEP
