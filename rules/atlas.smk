"""The atlas: traces of the selected experiments in a file per paper, then beside all others."""

from fedatlas.pages import SOURCES as EXPLORER_SOURCES
from fedatlas.pages.scope import digest_of_scope


rule join_traces:
    input:
        traces=lambda wildcards: SELECTED.joined_traces(wildcards.paper),
        selections=lambda wildcards: SELECTED.joined_selections(wildcards.paper),
        code=code_of("fedatlas.store.joining"),
    output:
        "<results>/atlas/{paper}.nc",
    log:
        "<logs>/atlas/{paper}.log",
    wildcard_constraints:
        paper=one_of(SELECTED.joined_papers),
    resources:
        **needs(gigabytes=2, minutes=30),
    params:
        spec=lambda wildcards: SELECTED.joined_specification(wildcards.paper),
        experiments=below_results("experiments"),
    shell:
        "fedatlas join-traces --spec @<(printf %s {params.spec:q})"
        " --experiments {params.experiments:q} --output {output:q} > {log:q} 2>&1"


rule join_papers:
    input:
        papers=[f"<results>/atlas/{paper}.nc" for paper in SELECTED.joined_papers],
        code=code_of("fedatlas.store.joining"),
    output:
        # Not deleted before the job, which keeps the runs of earlier selections.
        atlas=update("<results>/atlas/atlas.nc"),
        contents=update("<results>/atlas/contents.json"),
    log:
        "<logs>/atlas/atlas.log",
    resources:
        **needs(gigabytes=2, minutes=30),
    params:
        kept=lambda wildcards: SELECTED.kept_runs(Path(RESULTS)),
    shell:
        "fedatlas join-papers --output {output.atlas:q} --contents {output.contents:q}"
        " --kept @<(printf %s {params.kept:q}) {input.papers:q} 2>&1 | tee {log:q}"


rule write_summary:
    input:
        claims=SELECTED.claims(),
        selections=SELECTED.files_named("selection.json"),
        tables=SELECTED.files_named("table.csv"),
        budgets=SELECTED.files_named("budgets.nc"),
        traces=SELECTED.published_traces(),
        atlas=SELECTED.atlas_across_papers(),
        code=code_of("fedatlas.pages.summary"),
    output:
        "<results>/summary.md",
    log:
        "<logs>/summary.log",
    localrule: True
    params:
        experiments=SELECTED.names,
        # Too long for a command line: the summary reads it anew.
        scope=digest_of_scope(PLAN, SELECTED.names),
        atlas=option("atlas"),
        results=below_results(),
    shell:
        "fedatlas report {params.experiments:q} --results {params.results:q} {params.atlas:q}"
        " --output {output:q} > {log:q} 2>&1"


rule write_explorer:
    input:
        atlas="<results>/atlas/atlas.nc",
        claims="<results>/claims.csv",
        page=STAMPS.of_files("atlas.page", EXPLORER_SOURCES),
        code=code_of("fedatlas.pages.explorer"),
    output:
        page="<results>/atlas/explorer.html",
        curves=directory("<results>/atlas/explorer"),
    log:
        "<logs>/atlas/explorer.log",
    resources:
        **needs(gigabytes=2, minutes=15),
    params:
        shows=SELECTED.runs_shown(),
    shell:
        "fedatlas explorer {input.atlas:q} {input.claims:q} --shows @<(printf %s {params.shows:q})"
        " --output {output.page:q} > {log:q} 2>&1"
