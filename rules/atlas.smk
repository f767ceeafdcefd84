"""What is made across experiments: verdicts, the summary and the page to explore."""

from fedatlas.pages import SOURCES as EXPLORER_SOURCES
from fedatlas.pages.scope import digest_of_scope


rule collect_claims:
    input:
        claims=lambda wildcards: SELECTED.claims(wildcards.collection),
    output:
        **made("collect_claims"),
    log:
        "<logs>/claims/{collection}.log",
    localrule: True
    params:
        **arguments("collect_claims"),
        claimed=claimed,
    shell:
        STEP


use rule collect_claims as collect_all_claims with:
    input:
        claims=SELECTED.claims(),
    output:
        **made("collect_all_claims"),
    log:
        "<logs>/claims/all.log",


rule write_summary:
    input:
        claims=SELECTED.claims(),
        selections=SELECTED.files_named("selection.json"),
        tables=SELECTED.files_named("table.csv"),
        budgets=SELECTED.files_named("budgets.nc"),
        traces=SELECTED.files_named("traces.nc"),
    output:
        **made("write_summary"),
    log:
        "<logs>/summary.log",
    localrule: True
    params:
        **arguments(
            "write_summary",
            lambda wildcards: {"experiments": SELECTED.names},
            passes=["output"],
            results=RESULTS,
            added_seeds=CONFIG.added_seeds,
        ),
        claimed=claimed,
        scope=digest_of_scope(PLAN, SELECTED.names),  # long: the summary reads it anew
    shell:
        STEP


rule write_explorer:
    input:
        traces=SELECTED.files_named("traces.nc"),
        claims="<results>/claims.csv",
    output:
        **made("write_explorer"),
    log:
        "<logs>/explorer.log",
    resources:
        **needs(gigabytes=2, minutes=15),
    params:
        **arguments("write_explorer", passes=["claims", "output"], atlas=RESULTS),
        page=files_digest(EXPLORER_SOURCES),
    shell:
        STEP
