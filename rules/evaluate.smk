"""Selections, tables, figures and verdicts."""


rule select_points:
    input:
        traces=lambda wildcards: traces_of(wildcards.experiment),
        code=code_of("fedatlas.evaluation.selection"),
    output:
        "results/experiments/{experiment}/selection.json",
    log:
        "logs/select/{experiment}.log",
    resources:
        mem_mb=1000,
        runtime=15,
    params:
        spec=lambda wildcards: canonical_json(
            PLAN.experiments[wildcards.experiment].selection.model_dump(mode="json")
        ),
    shell:
        "fedatlas select --spec {params.spec:q} --output {output:q} {input.traces:q} > {log:q} 2>&1"


rule tabulate_results:
    input:
        traces=lambda wildcards: traces_of(wildcards.experiment),
        selection="results/experiments/{experiment}/selection.json",
        code=code_of("fedatlas.evaluation.results_table"),
    output:
        report(
            "results/experiments/{experiment}/table.csv",
            caption="../workflow/report/table.rst",
            category="Experiments",
            subcategory="{experiment}",
            labels=report_labels("table"),
        ),
    log:
        "logs/table/{experiment}.log",
    resources:
        mem_mb=1000,
        runtime=15,
    shell:
        "fedatlas table --selection {input.selection:q} --output {output:q} {input.traces:q}"
        " > {log:q} 2>&1"


rule draw_figure:
    input:
        traces=lambda wildcards: traces_of(wildcards.experiment),
        selection="results/experiments/{experiment}/selection.json",
        code=code_of("fedatlas.figures.draw"),
    output:
        svg=report(
            "results/experiments/{experiment}/figure.svg",
            caption="../workflow/report/figure.rst",
            category="Experiments",
            subcategory="{experiment}",
            labels=report_labels("figure"),
        ),
        png="results/experiments/{experiment}/figure.png",
    log:
        "logs/figure/{experiment}.log",
    resources:
        mem_mb=1000,
        runtime=15,
    params:
        spec=figure_spec,
        notes=lambda wildcards: PLAN.experiments[wildcards.experiment].notes,
    shell:
        "fedatlas figure --spec {params.spec:q} --selection {input.selection:q}"
        " --output {output.svg:q} --output {output.png:q} {input.traces:q} > {log:q} 2>&1"


rule judge_claims:
    input:
        traces=lambda wildcards: traces_of(wildcards.experiment),
        selection="results/experiments/{experiment}/selection.json",
        landscape=made_for("landscape", "landscape.json"),
        budgets=made_for("budgets", "budgets.nc"),
        audit=made_for("privacy_audit", "privacy-audit.csv"),
        code=code_of("fedatlas.evaluation.judge", "fedatlas.evaluation.verdicts"),
    output:
        "results/experiments/{experiment}/claims.csv",
    log:
        "logs/judge/{experiment}.log",
    resources:
        mem_mb=1000,
        runtime=15,
    params:
        spec=claims_spec,
        landscape=option("landscape"),
        budgets=option("budgets"),
        audit=option("audit"),
    shell:
        "fedatlas judge --spec {params.spec:q} --selection {input.selection:q} {params.landscape}"
        " {params.budgets} {params.audit} --output {output:q} {input.traces:q} > {log:q} 2>&1"


rule collect_claims:
    input:
        claims=lambda wildcards: claims_files(members(wildcards.collection)),
        code=code_of("fedatlas.evaluation.claims_page"),
    output:
        csv="results/claims/{collection}.csv",
        html=report(
            "results/claims/{collection}.html",
            caption="../workflow/report/claims.rst",
            category="Claims",
            labels={"claims of": "{collection}"},
        ),
    log:
        "logs/claims/{collection}.log",
    localrule: True
    shell:
        "fedatlas claims --csv {output.csv:q} --html {output.html:q} {input.claims:q}"
        " > {log:q} 2>&1"


use rule collect_claims as collect_all_claims with:
    input:
        claims=claims_files(SELECTED),
        code=code_of("fedatlas.evaluation.claims_page"),
    output:
        csv="results/claims.csv",
        html=report(
            "results/claims.html",
            caption="../workflow/report/claims.rst",
            category="Claims",
            labels={"claims of": "all selected experiments"},
        ),
    log:
        "logs/claims/all.log",


rule audit_leaks:
    input:
        rows=rows_of_experiment,
        code=code_of(
            "fedatlas.studies.leaks",
            "fedatlas.training.solver",
            "fedatlas.federations.vertical.shards",
        ),
    output:
        report(
            "results/experiments/{experiment}/leaks.csv",
            caption="../workflow/report/leaks.rst",
            category="Privacy",
            subcategory="{experiment}",
            labels=report_labels("what parties learn"),
        ),
    log:
        "logs/audit/{experiment}.log",
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        objective=lambda wildcards: canonical_json(
            PLAN.experiments[wildcards.experiment].objective.model_dump(mode="json")
        ),
    shell:
        "fedatlas audit {input.rows:q} --spec {params.objective:q} --output {output:q}"
        " > {log:q} 2>&1"


rule draw_trees:
    input:
        code=code_of("fedatlas.figures.trees"),
    output:
        svg=report(
            "results/experiments/{experiment}/trees.svg",
            caption="../workflow/report/trees.rst",
            category="Privacy",
            subcategory="{experiment}",
            labels=report_labels("trees of secure sums"),
        ),
        png="results/experiments/{experiment}/trees.png",
    log:
        "logs/trees/{experiment}.log",
    resources:
        mem_mb=1000,
        runtime=15,
    params:
        parties=lambda wildcards: PLAN.experiments[wildcards.experiment].partition.parties,
    shell:
        "fedatlas trees {params.parties} --output {output.svg:q} --output {output.png:q}"
        " > {log:q} 2>&1"


rule compute_landscape:
    input:
        rows=rows_of_experiment,
        code=landscape_code,
    output:
        "results/experiments/{experiment}/landscape.json",
    log:
        "logs/landscape/{experiment}.log",
    threads: 1
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        spec=landscape_spec,
    shell:
        "OMP_NUM_THREADS={threads} fedatlas landscape {input.rows:q} --spec {params.spec:q}"
        " --output {output:q} > {log:q} 2>&1"


rule draw_landscape:
    input:
        landscape="results/experiments/{experiment}/landscape.json",
        code=code_of("fedatlas.figures.landscape"),
    output:
        svg=report(
            "results/experiments/{experiment}/landscape.svg",
            caption="../workflow/report/landscape.rst",
            category="Experiments",
            subcategory="{experiment}",
            labels=report_labels("loss surface"),
        ),
        png="results/experiments/{experiment}/landscape.png",
    log:
        "logs/landscape-figure/{experiment}.log",
    resources:
        mem_mb=1000,
        runtime=15,
    params:
        title=figure_title,
    shell:
        "fedatlas landscape-figure {input.landscape:q} --title {params.title:q}"
        " --output {output.svg:q} --output {output.png:q} > {log:q} 2>&1"


rule compute_budgets:
    input:
        code=budgets_code,
    output:
        budgets="results/experiments/{experiment}/budgets.nc",
        conditions=report(
            "results/experiments/{experiment}/conditions.csv",
            caption="../workflow/report/conditions.rst",
            category="Privacy",
            subcategory="{experiment}",
            labels=report_labels("conditions of theorems"),
        ),
    log:
        "logs/budgets/{experiment}.log",
    threads: 1
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        spec=privacy_spec("budgets"),
    shell:
        "OMP_NUM_THREADS={threads} fedatlas budgets --spec {params.spec:q}"
        " --output {output.budgets:q} --conditions {output.conditions:q} > {log:q} 2>&1"


rule draw_budgets:
    input:
        budgets="results/experiments/{experiment}/budgets.nc",
        code=code_of("fedatlas.figures.budgets", "fedatlas.evaluation.budget_verdicts"),
    output:
        svg=report(
            "results/experiments/{experiment}/budgets.svg",
            caption="../workflow/report/budgets.rst",
            category="Privacy",
            subcategory="{experiment}",
            labels=report_labels("privacy budgets"),
        ),
        png="results/experiments/{experiment}/budgets.png",
    log:
        "logs/budgets-figure/{experiment}.log",
    resources:
        mem_mb=1000,
        runtime=15,
    params:
        spec=budgets_titles,
    shell:
        "fedatlas budgets-figure {input.budgets:q} --spec {params.spec:q}"
        " --output {output.svg:q} --output {output.png:q} > {log:q} 2>&1"


rule draw_graphs:
    input:
        code=code_of("fedatlas.figures.graphs"),
    output:
        svg=report(
            "results/experiments/{experiment}/graphs.svg",
            caption="../workflow/report/graphs.rst",
            category="Experiments",
            subcategory="{experiment}",
            labels=report_labels("who sends to whom"),
        ),
        png="results/experiments/{experiment}/graphs.png",
    log:
        "logs/graphs/{experiment}.log",
    resources:
        mem_mb=1000,
        runtime=15,
    params:
        spec=graphs_spec,
    shell:
        "fedatlas graphs --spec {params.spec:q} --output {output.svg:q} --output {output.png:q}"
        " > {log:q} 2>&1"


rule audit_privacy:
    input:
        code=code_of("fedatlas.studies.attacks"),
    output:
        report(
            "results/experiments/{experiment}/privacy-audit.csv",
            caption="../workflow/report/privacy-audit.rst",
            category="Privacy",
            subcategory="{experiment}",
            labels=report_labels("attacks on claimed budgets"),
        ),
    log:
        "logs/privacy-audit/{experiment}.log",
    threads: 1
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        spec=privacy_spec("privacy_audit"),
    shell:
        "OMP_NUM_THREADS={threads} fedatlas privacy-audit --spec {params.spec:q} --output {output:q}"
        " > {log:q} 2>&1"
