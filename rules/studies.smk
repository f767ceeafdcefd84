"""Studies beside training: leaks, loss surfaces, privacy budgets, attacks, theorems, processes."""


rule tabulate_leaks:
    input:
        rows=of_experiment(results.first_shards),
    output:
        **made("tabulate_leaks"),
    log:
        "<logs>/leaks/{experiment}.log",
    resources:
        **needs(gigabytes=4, minutes=30),
    params:
        **told("tabulate_leaks", of_experiment(results.keys_spec, "objective")),
    shell:
        step("tabulate_leaks")


rule tabulate_collusion:
    output:
        **made("tabulate_collusion"),
    log:
        "<logs>/collusion/{experiment}.log",
    params:
        **told("tabulate_collusion"),
    shell:
        step("tabulate_collusion")


rule compute_landscape:
    input:
        rows=of_experiment(results.first_shards),
    output:
        **made("compute_landscape"),
    log:
        "<logs>/landscape/{experiment}.log",
    resources:
        **needs(gigabytes=2, minutes=30),
    params:
        **told(
            "compute_landscape",
            of_experiment(results.keys_spec, "objective", "landscape"),
            code=of_experiment(results.landscape_code),
        ),
    shell:
        step("compute_landscape")


rule compute_budgets:
    output:
        **made("compute_budgets"),
    log:
        "<logs>/budgets/{experiment}.log",
    resources:
        **needs(gigabytes=2, minutes=30),
    params:
        **told(
            "compute_budgets",
            of_experiment(results.privacy_spec, "budgets"),
            code=of_experiment(results.budgets_code),
        ),
    shell:
        step("compute_budgets")


rule attack_budgets:
    output:
        **made("attack_budgets"),
    log:
        "<logs>/attacks/{experiment}.log",
    resources:
        **needs(gigabytes=4, minutes=60),
    params:
        **told("attack_budgets", of_experiment(results.privacy_spec, "privacy_audit")),
    shell:
        step("attack_budgets")


rule tabulate_theory:
    input:
        traces=of_experiment(results.traces),
        rows=of_experiment(results.seed_shards),
    output:
        **made("tabulate_theory"),
    log:
        "<logs>/theory/{experiment}.log",
    resources:
        **needs(gigabytes=4, minutes=30),
    params:
        **told("tabulate_theory", passes=["traces", "output"], shards=f"{RESULTS}/shards"),
    shell:
        step("tabulate_theory")


rule validate_parties:
    input:
        shards=of_experiment(results.validated_shards),
    output:
        **made("validate_parties"),
    log:
        "<logs>/validation/{experiment}.log",
    threads: of_experiment(results.validation_cores)
    resources:
        **needs(gigabytes=4, minutes=120),
    params:
        **told("validate_parties", of_experiment(results.validation_spec)),
    shell:
        step("validate_parties")


# Drawings of studies: from one file each, with what stands above them.
rule draw_recovery:
    input:
        recovery="<results>/experiments/{experiment}/recovery.csv",
    output:
        **made("draw_recovery"),
    log:
        "<logs>/recovery-figure/{experiment}.log",
    params:
        **told("draw_recovery", of_experiment(results.heading_spec)),
    shell:
        step("draw_recovery")


rule draw_trees:
    output:
        **made("draw_trees"),
    log:
        "<logs>/trees/{experiment}.log",
    params:
        **told("draw_trees", of_experiment(results.trees_spec)),
    shell:
        step("draw_trees")


rule draw_landscape:
    input:
        landscape="<results>/experiments/{experiment}/landscape.json",
    output:
        **made("draw_landscape"),
    log:
        "<logs>/landscape-figure/{experiment}.log",
    params:
        **told("draw_landscape", of_experiment(results.heading_spec)),
    shell:
        step("draw_landscape")


rule draw_budgets:
    input:
        budgets="<results>/experiments/{experiment}/budgets.nc",
    output:
        **made("draw_budgets"),
    log:
        "<logs>/budgets-figure/{experiment}.log",
    params:
        **told("draw_budgets", of_experiment(results.titles_spec)),
    shell:
        step("draw_budgets")


rule draw_theory:
    input:
        traces=of_experiment(results.traces),
        theory="<results>/experiments/{experiment}/theory.csv",
    output:
        **made("draw_theory"),
    log:
        "<logs>/theory-figure/{experiment}.log",
    params:
        **told("draw_theory", of_experiment(results.titles_spec)),
    shell:
        step("draw_theory")


rule draw_validation:
    input:
        curves="<results>/experiments/{experiment}/validation.json",
    output:
        **made("draw_validation"),
    log:
        "<logs>/validation-figure/{experiment}.log",
    params:
        **told("draw_validation", of_experiment(results.heading_spec)),
    shell:
        step("draw_validation")


rule draw_graphs:
    output:
        **made("draw_graphs"),
    log:
        "<logs>/graphs/{experiment}.log",
    params:
        **told("draw_graphs", of_experiment(results.graphs_spec)),
    shell:
        step("draw_graphs")
