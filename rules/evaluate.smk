"""Selections, tables, figures and verdicts."""


rule select_points:
    input:
        traces=of_experiment(results.traces),
        tuning=of_experiment(results.tuning),
    output:
        **made("select_points"),
    log:
        "<logs>/select/{experiment}.log",
    resources:
        **needs(gigabytes=1, minutes=30, more=traces_in_memory),
    params:
        **told("select_points", of_experiment(results.selection_spec)),
    shell:
        STEP


rule tabulate_results:
    input:
        traces="<results>/experiments/{experiment}/traces.nc",
        selection="<results>/experiments/{experiment}/selection.json",
    output:
        **made("tabulate_results"),
    log:
        "<logs>/table/{experiment}.log",
    resources:
        **needs(gigabytes=1, minutes=30, more=traces_in_memory),
    params:
        **told("tabulate_results"),
    shell:
        STEP


rule draw_figure:
    input:
        traces="<results>/experiments/{experiment}/traces.nc",
        selection="<results>/experiments/{experiment}/selection.json",
    output:
        **made("draw_figure"),
    log:
        "<logs>/figure/{experiment}.log",
    resources:
        **needs(gigabytes=1, minutes=30, more=traces_in_memory),
    params:
        **told(
            "draw_figure",
            of_experiment(results.figure_spec),
            code=of_experiment(results.drawing_code),
        ),
        notes=lambda wildcards, input: rest(PLAN.experiments[wildcards.experiment].notes),
    shell:
        STEP


rule judge_claims:
    input:
        traces="<results>/experiments/{experiment}/traces.nc",
        selection="<results>/experiments/{experiment}/selection.json",
        landscape=of_experiment(results.judged_file, "landscape.json"),
        budgets=of_experiment(results.judged_file, "budgets.nc"),
        attacks=of_experiment(results.judged_file, "privacy-audit.csv"),
        leaks=of_experiment(results.judged_file, "leaks.csv"),
    output:
        **made("judge_claims"),
    log:
        "<logs>/judge/{experiment}.log",
    resources:
        **needs(gigabytes=1, minutes=30, more=traces_in_memory),
    params:
        **told(
            "judge_claims",
            of_experiment(results.claims_spec),
            code=of_experiment(results.judging_code),
        ),
    shell:
        STEP


rule collect_claims:
    input:
        claims=lambda wildcards: SELECTED.claims(wildcards.collection),
    output:
        **made("collect_claims"),
    log:
        "<logs>/claims/{collection}.log",
    localrule: True
    params:
        **told("collect_claims"),
    shell:
        STEP


use rule collect_claims as collect_all_claims with:
    input:
        claims=SELECTED.claims(),
    output:
        **made("collect_all_claims"),
    log:
        "<logs>/claims/all.log",
