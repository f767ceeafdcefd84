"""fedatlas: from raw files to figures, tables, verdicts and a report. Targets are at the end."""

from snakemake.utils import min_version

min_version("9.20")


configfile: "config/config.yaml"


# Built from workflow/container/fedatlas.def; used with --software-deployment-method apptainer.
container: "workflow/container/fedatlas.sif"


include: "rules/common.smk"
include: "rules/data.smk"
include: "rules/train.smk"
include: "rules/evaluate.smk"


report: "workflow/report/workflow.rst"


rule all:
    default_target: True
    input:
        experiment_results(DEFAULT_EXPERIMENTS),
        "results/claims.csv",
    localrule: True


rule paper:
    input:
        experiment_results(PAPER_EXPERIMENTS),
        expand("results/claims/{group}.csv", group=groups_of(PAPER_EXPERIMENTS)),
    localrule: True


rule fedpage:
    input:
        group_results("fedpage"),
    localrule: True
