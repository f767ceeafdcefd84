"""The atlas: all traces of the selected experiments in one file, per paper and then all."""


rule join_traces:
    input:
        traces=lambda wildcards: joined_traces(wildcards.paper),
        selections=lambda wildcards: joined_selections(wildcards.paper),
        code=code_of("fedatlas.atlas.joining"),
    output:
        "results/atlas/{paper}.nc",
    log:
        "logs/atlas/{paper}.log",
    wildcard_constraints:
        paper=one_of(joined_papers()),
    resources:
        mem_mb=lambda wildcards, attempt: 2000 * attempt,
        runtime=30,
    params:
        spec=joined_spec,
    shell:
        "fedatlas join-traces --spec {params.spec:q} --experiments results/experiments"
        " --output {output:q} > {log:q} 2>&1"


rule join_papers:
    input:
        papers=[f"results/atlas/{paper}.nc" for paper in joined_papers()],
        code=code_of("fedatlas.atlas.joining"),
    output:
        "results/atlas/atlas.nc",
    log:
        "logs/atlas/atlas.log",
    resources:
        mem_mb=lambda wildcards, attempt: 2000 * attempt,
        runtime=30,
    shell:
        "fedatlas join-papers --output {output:q} {input.papers:q} > {log:q} 2>&1"


rule write_summary:
    input:
        claims=summarised("claims.csv"),
        selections=summarised("selection.json"),
        tables=summarised("table.csv"),
        budgets=summarised("budgets.nc"),
        traces=published_traces(),
        atlas=atlas_across_papers(),
        code=code_of("fedatlas.atlas.report"),
    output:
        "results/summary.md",
    log:
        "logs/summary.log",
    localrule: True
    params:
        experiments=SELECTED,
        scope=summary_scope,
        atlas=option("atlas"),
    shell:
        "fedatlas report {params.experiments} {params.atlas} --output {output:q} > {log:q} 2>&1"


rule write_explorer:
    input:
        atlas="results/atlas/atlas.nc",
        claims="results/claims.csv",
        page=from_here(EXPLORER_SOURCES),
        code=code_of("fedatlas.atlas.explorer"),
    output:
        "results/atlas/explorer.html",
    log:
        "logs/atlas/explorer.log",
    resources:
        mem_mb=lambda wildcards, attempt: 2000 * attempt,
        runtime=15,
    params:
        shows=runs_shown(),
    shell:
        "fedatlas explorer {input.atlas:q} {input.claims:q} --shows {params.shows:q}"
        " --output {output:q} > {log:q} 2>&1"
