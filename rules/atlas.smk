"""The atlas: traces of the selected experiments in a file per paper, then beside all others."""

from fedatlas.pages import SOURCES as EXPLORER_SOURCES
from fedatlas.pages.scope import digest_of_scope


rule join_traces:
    input:
        traces=lambda wildcards: SELECTED.joined_traces(wildcards.paper),
        selections=lambda wildcards: SELECTED.joined_selections(wildcards.paper),
    output:
        **made("join_traces"),
    log:
        "<logs>/atlas/{paper}.log",
    wildcard_constraints:
        paper=one_of(SELECTED.joined_papers),
    resources:
        **needs(gigabytes=2, minutes=30),
    params:
        **told(
            "join_traces",
            lambda wildcards: {"paper": SELECTED.joined_specification(wildcards.paper)},
            passes=["output"],
            experiments=f"{RESULTS}/experiments",
        ),
    shell:
        STEP


rule join_papers:
    input:
        papers=[f"<results>/atlas/{paper}.nc" for paper in SELECTED.joined_papers],
    output:
        # Not deleted before the job, which keeps the runs of earlier selections.
        **{name: update(file) for name, file in made("join_papers").items()},
    log:
        "<logs>/atlas/atlas.log",
    resources:
        **needs(gigabytes=2, minutes=30),
    params:
        **told("join_papers", lambda wildcards: {"kept": SELECTED.kept_runs(Path(RESULTS))}),
    shell:
        STEP_ALOUD


rule write_summary:
    input:
        claims=SELECTED.claims(),
        selections=SELECTED.files_named("selection.json"),
        tables=SELECTED.files_named("table.csv"),
        budgets=SELECTED.files_named("budgets.nc"),
        traces=SELECTED.published_traces(),
        atlas=SELECTED.atlas_across_papers(),
    output:
        **made("write_summary"),
    log:
        "<logs>/summary.log",
    localrule: True
    params:
        **told(
            "write_summary",
            lambda wildcards: {"experiments": SELECTED.names},
            passes=["atlas", "output"],
            results=RESULTS,
        ),
        scope=digest_of_scope(PLAN, SELECTED.names),  # long: the summary reads it anew
    shell:
        STEP


rule write_explorer:
    input:
        atlas="<results>/atlas/atlas.nc",
        claims="<results>/claims.csv",
    output:
        **made("write_explorer"),
    log:
        "<logs>/atlas/explorer.log",
    resources:
        **needs(gigabytes=2, minutes=15),
    params:
        **told(
            "write_explorer",
            lambda wildcards: {"shows": SELECTED.runs_shown()},
            passes=["atlas", "claims", "output"],
        ),
        page=files_digest(EXPLORER_SOURCES),
    shell:
        STEP
