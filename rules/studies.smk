"""Studies beside training: leaks, loss surfaces, privacy budgets, attacks, graphs."""


rule tabulate_leaks:
    input:
        rows=of_experiment(results.first_shards),
        code=code_of(
            "fedatlas.studies.leaks",
            "fedatlas.studies.recovery",
            "fedatlas.evaluation.comma_separated",
            "fedatlas.training.solver",
            "fedatlas.federations.vertical.shards",
        ),
    output:
        leaks=reported("leaks.csv"),
        recovery=reported("recovery.csv"),
    log:
        "<logs>/leaks/{experiment}.log",
    resources:
        **needs(gigabytes=4, minutes=30),
    params:
        objective=of_experiment(specifications.value, "objective"),
    shell:
        "fedatlas leaks {input.rows:q} --spec @<(printf %s {params.objective:q})"
        " --output {output.leaks:q} --recovery {output.recovery:q} > {log:q} 2>&1"


rule draw_recovery:
    input:
        recovery="<results>/experiments/{experiment}/recovery.csv",
        code=code_of("fedatlas.figures.recovery"),
    output:
        svg=reported("recovery.svg"),
        png="<results>/experiments/{experiment}/recovery.png",
    log:
        "<logs>/recovery-figure/{experiment}.log",
    params:
        spec=of_experiment(specifications.heading),
    shell:
        "fedatlas recovery-figure {input.recovery:q} --spec @<(printf %s {params.spec:q})"
        " --output {output.svg:q} --output {output.png:q} > {log:q} 2>&1"


rule tabulate_collusion:
    input:
        code=code_of("fedatlas.studies.leaks", "fedatlas.evaluation.comma_separated"),
    output:
        groups=reported("collusion.csv"),
        pairs=reported("tree-pairs.csv"),
    log:
        "<logs>/collusion/{experiment}.log",
    shell:
        "fedatlas collusion --output {output.groups:q} --pairs {output.pairs:q} > {log:q} 2>&1"


rule draw_trees:
    input:
        code=code_of("fedatlas.figures.trees"),
    output:
        svg=reported("trees.svg"),
        png="<results>/experiments/{experiment}/trees.png",
    log:
        "<logs>/trees/{experiment}.log",
    params:
        parties=lambda wildcards: PLAN.experiments[wildcards.experiment].partition.parties,
    shell:
        "fedatlas trees {params.parties:q} --output {output.svg:q} --output {output.png:q}"
        " > {log:q} 2>&1"


rule compute_landscape:
    input:
        rows=of_experiment(results.first_shards),
        code=lambda wildcards: code_of(*results.landscape_code(PLAN, wildcards.experiment)),
    output:
        "<results>/experiments/{experiment}/landscape.json",
    log:
        "<logs>/landscape/{experiment}.log",
    resources:
        **needs(gigabytes=2, minutes=30),
    params:
        spec=of_experiment(specifications.keys, "objective", "landscape"),
    shell:
        "fedatlas landscape {input.rows:q} --spec @<(printf %s {params.spec:q}) --output {output:q}"
        " > {log:q} 2>&1"


rule draw_landscape:
    input:
        landscape="<results>/experiments/{experiment}/landscape.json",
        code=code_of("fedatlas.figures.landscape"),
    output:
        svg=reported("landscape.svg"),
        png="<results>/experiments/{experiment}/landscape.png",
    log:
        "<logs>/landscape-figure/{experiment}.log",
    params:
        spec=of_experiment(specifications.heading),
    shell:
        "fedatlas landscape-figure {input.landscape:q} --spec @<(printf %s {params.spec:q})"
        " --output {output.svg:q} --output {output.png:q} > {log:q} 2>&1"


rule compute_budgets:
    input:
        code=lambda wildcards: code_of(*results.budgets_code(PLAN, wildcards.experiment)),
    output:
        budgets="<results>/experiments/{experiment}/budgets.nc",
        conditions=reported("conditions.csv"),
    log:
        "<logs>/budgets/{experiment}.log",
    resources:
        **needs(gigabytes=2, minutes=30),
    params:
        spec=of_experiment(specifications.privacy, "budgets"),
    shell:
        "fedatlas budgets --spec @<(printf %s {params.spec:q}) --output {output.budgets:q}"
        " --conditions {output.conditions:q} > {log:q} 2>&1"


rule draw_budgets:
    input:
        budgets="<results>/experiments/{experiment}/budgets.nc",
        code=code_of("fedatlas.figures.budgets", "fedatlas.evaluation.study_files"),
    output:
        svg=reported("budgets.svg"),
        png="<results>/experiments/{experiment}/budgets.png",
    log:
        "<logs>/budgets-figure/{experiment}.log",
    params:
        spec=of_experiment(specifications.titles),
    shell:
        "fedatlas budgets-figure {input.budgets:q} --spec @<(printf %s {params.spec:q})"
        " --output {output.svg:q} --output {output.png:q} > {log:q} 2>&1"


rule tabulate_theory:
    input:
        traces=of_experiment(results.traces),
        rows=of_experiment(results.seed_shards),
        code=code_of("fedatlas.studies.theory", "fedatlas.evaluation.comma_separated"),
    output:
        reported("theory.csv"),
    log:
        "<logs>/theory/{experiment}.log",
    resources:
        **needs(gigabytes=4, minutes=30),
    params:
        shards=below_results("shards"),
    shell:
        "fedatlas theory @<(printf '%s\\n' {input.traces:q}) --shards {params.shards:q}"
        " --output {output:q} > {log:q} 2>&1"


rule draw_theory:
    input:
        traces=of_experiment(results.traces),
        theory="<results>/experiments/{experiment}/theory.csv",
        code=code_of("fedatlas.figures.theory"),
    output:
        svg=reported("theory.svg"),
        png="<results>/experiments/{experiment}/theory.png",
    log:
        "<logs>/theory-figure/{experiment}.log",
    params:
        spec=of_experiment(specifications.titles),
    shell:
        "fedatlas theory-figure @<(printf '%s\\n' {input.traces:q}) --theory {input.theory:q}"
        " --spec @<(printf %s {params.spec:q})"
        " --output {output.svg:q} --output {output.png:q} > {log:q} 2>&1"


rule validate_parties:
    input:
        shards=of_experiment(results.validated_shards),
        code=code_of("fedatlas.studies.validation", "fedatlas.evaluation.comma_separated"),
    output:
        table=reported("validation.csv"),
        curves="<results>/experiments/{experiment}/validation.json",
        times="<results>/experiments/{experiment}/validation-times.csv",
    log:
        "<logs>/validation/{experiment}.log",
    threads: of_experiment(results.validation_cores)
    resources:
        **needs(gigabytes=4, minutes=120),
    params:
        folders=lambda wildcards: [
            placed(folder) for folder in results.validation_folders(PLAN, wildcards.experiment)
        ],
        spec=of_experiment(specifications.validation),
    shell:
        "fedatlas validate-parties {params.folders:q} --spec @<(printf %s {params.spec:q})"
        " --output {output.table:q} --curves {output.curves:q} --times {output.times:q}"
        " > {log:q} 2>&1"


rule draw_validation:
    input:
        curves="<results>/experiments/{experiment}/validation.json",
        code=code_of("fedatlas.figures.validation"),
    output:
        svg=reported("validation.svg"),
        png="<results>/experiments/{experiment}/validation.png",
    log:
        "<logs>/validation-figure/{experiment}.log",
    params:
        spec=of_experiment(specifications.heading),
    shell:
        "fedatlas validation-figure {input.curves:q} --spec @<(printf %s {params.spec:q})"
        " --output {output.svg:q} --output {output.png:q} > {log:q} 2>&1"


rule draw_graphs:
    input:
        code=code_of("fedatlas.figures.graphs"),
    output:
        svg=reported("graphs.svg"),
        png="<results>/experiments/{experiment}/graphs.png",
    log:
        "<logs>/graphs/{experiment}.log",
    params:
        spec=of_experiment(specifications.graphs),
    shell:
        "fedatlas graphs --spec @<(printf %s {params.spec:q}) --output {output.svg:q}"
        " --output {output.png:q} > {log:q} 2>&1"


rule attack_budgets:
    input:
        code=code_of("fedatlas.studies.privacy_audit", "fedatlas.evaluation.comma_separated"),
    output:
        reported("privacy-audit.csv"),
    log:
        "<logs>/attacks/{experiment}.log",
    resources:
        **needs(gigabytes=4, minutes=60),
    params:
        spec=of_experiment(specifications.privacy, "privacy_audit"),
    shell:
        "fedatlas attacks --spec @<(printf %s {params.spec:q}) --output {output:q} > {log:q} 2>&1"
