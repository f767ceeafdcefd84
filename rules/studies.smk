"""Studies beside training, and their drawings: a rule for each of these steps."""

# Step → what its rule says: inputs, arguments, code that depends on the experiment, and needs.
STUDIES = {
    "tabulate_leaks": {
        "input": {"rows": of_experiment(results.first_shards)},
        "spec": of_experiment(results.keys_spec, "objective"),
        "gigabytes": 4,
    },
    "draw_recovery": {
        "input": {"recovery": "<results>/experiments/{experiment}/recovery.csv"},
        "spec": of_experiment(results.heading_spec),
    },
    "tabulate_collusion": {},
    "draw_trees": {"spec": of_experiment(results.trees_spec)},
    "compute_landscape": {
        "input": {"rows": of_experiment(results.first_shards)},
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
        "spec": of_experiment(results.titles_spec),
    },
    "attack_budgets": {
        "spec": of_experiment(results.privacy_spec, "privacy_audit"),
        "gigabytes": 4,
        "minutes": 60,
    },
    "tabulate_theory": {
        "input": {
            "traces": "<results>/experiments/{experiment}/traces.nc",
            "rows": of_experiment(results.seed_shards),
        },
        "passes": ["traces", "output"],
        "shards": f"{RESULTS}/shards",
        "gigabytes": 4,
    },
    "draw_theory": {
        "input": {
            "traces": "<results>/experiments/{experiment}/traces.nc",
            "theory": "<results>/experiments/{experiment}/theory.csv",
        },
        "spec": of_experiment(results.titles_spec),
    },
    "validate_parties": {
        "input": {"shards": of_experiment(results.validated_shards)},
        "spec": of_experiment(results.validation_spec),
        "threads": of_experiment(results.validation_cores),
        "gigabytes": 4,
        "minutes": 120,
    },
    "draw_validation": {
        "input": {"curves": "<results>/experiments/{experiment}/validation.json"},
        "spec": of_experiment(results.heading_spec),
    },
    "draw_graphs": {"spec": of_experiment(results.graphs_spec)},
}

for study, says in STUDIES.items():

    rule:
        name:
            study
        input:
            **says.pop("input", {}),
        output:
            **made(study),
        log:
            f"<logs>/{study}/{{experiment}}.log",
        threads: says.pop("threads", 1)
        resources:
            **needs(gigabytes=says.pop("gigabytes", 2), minutes=says.pop("minutes", 30)),
        params:
            **told(study, **says),
        shell:
            STEP
