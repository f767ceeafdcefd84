"""Selections, tables, figures and verdicts."""


rule select_points:
    input:
        traces=of_experiment(results.traces),
        tuning=of_experiment(results.tuning),
        code=code_of("fedatlas.evaluation.selection"),
    output:
        "<results>/experiments/{experiment}/selection.json",
    log:
        "<logs>/select/{experiment}.log",
    resources:
        **needs(gigabytes=1, minutes=30, more=traces_in_memory),
    params:
        spec=of_experiment(specifications.value, "selection"),
        tuning=lambda wildcards: [
            placed(word) for word in results.tuning_options(PLAN, wildcards.experiment)
        ],
    shell:
        "fedatlas select --spec @<(printf %s {params.spec:q}) {params.tuning:q} --output {output:q}"
        " @<(printf '%s\\n' {input.traces:q}) > {log:q} 2>&1"


rule tabulate_results:
    input:
        traces=of_experiment(results.traces),
        selection="<results>/experiments/{experiment}/selection.json",
        code=code_of("fedatlas.pages.results_table"),
    output:
        reported("table.csv"),
    log:
        "<logs>/table/{experiment}.log",
    resources:
        **needs(gigabytes=1, minutes=30, more=traces_in_memory),
    shell:
        "fedatlas table --selection {input.selection:q} --output {output:q}"
        " @<(printf '%s\\n' {input.traces:q}) > {log:q} 2>&1"


rule draw_figure:
    input:
        traces=of_experiment(results.traces),
        selection="<results>/experiments/{experiment}/selection.json",
        code=lambda wildcards: code_of(*results.drawing_code(PLAN, wildcards.experiment)),
    output:
        svg=reported("figure.svg"),
        png="<results>/experiments/{experiment}/figure.png",
    log:
        "<logs>/figure/{experiment}.log",
    resources:
        **needs(gigabytes=1, minutes=30, more=traces_in_memory),
    params:
        spec=of_experiment(specifications.figure),
        notes=lambda wildcards: rest(PLAN.experiments[wildcards.experiment].notes),
    shell:
        "fedatlas figure --spec @<(printf %s {params.spec:q}) --selection {input.selection:q}"
        " --output {output.svg:q} --output {output.png:q}"
        " @<(printf '%s\\n' {input.traces:q}) > {log:q} 2>&1"


rule judge_claims:
    input:
        traces=of_experiment(results.traces),
        selection="<results>/experiments/{experiment}/selection.json",
        landscape=of_experiment(results.judged_file, "landscape.json"),
        budgets=of_experiment(results.judged_file, "budgets.nc"),
        attacks=of_experiment(results.judged_file, "privacy-audit.csv"),
        leaks=of_experiment(results.judged_file, "leaks.csv"),
        code=lambda wildcards: code_of(*results.judging_code(PLAN, wildcards.experiment)),
    output:
        "<results>/experiments/{experiment}/claims.csv",
    log:
        "<logs>/judge/{experiment}.log",
    resources:
        **needs(gigabytes=1, minutes=30, more=traces_in_memory),
    params:
        spec=of_experiment(specifications.claims),
        landscape=option("landscape"),
        budgets=option("budgets"),
        attacks=option("attacks"),
        leaks=option("leaks"),
    shell:
        "fedatlas judge --spec @<(printf %s {params.spec:q}) --selection {input.selection:q}"
        " {params.landscape:q} {params.budgets:q} {params.attacks:q} {params.leaks:q}"
        " --output {output:q} @<(printf '%s\\n' {input.traces:q}) > {log:q} 2>&1"


rule collect_claims:
    input:
        claims=lambda wildcards: SELECTED.claims(wildcards.collection),
        code=code_of("fedatlas.pages.claims_page"),
    output:
        csv="<results>/claims/{collection}.csv",
        html=report(
            "<results>/claims/{collection}.html",
            caption="../workflow/report/claims.rst",
            category="Claims",
            labels={"claims of": "{collection}"},
        ),
    log:
        "<logs>/claims/{collection}.log",
    localrule: True
    shell:
        "fedatlas claims --csv {output.csv:q} --html {output.html:q} {input.claims:q}"
        " > {log:q} 2>&1"


use rule collect_claims as collect_all_claims with:
    input:
        claims=SELECTED.claims(),
        code=code_of("fedatlas.pages.claims_page"),
    output:
        csv="<results>/claims.csv",
        html=report(
            "<results>/claims.html",
            caption="../workflow/report/claims.rst",
            category="Claims",
            labels={"claims of": "all selected experiments"},
        ),
    log:
        "<logs>/claims/all.log",
