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
include: "rules/atlas.smk"


report: "workflow/report/workflow.rst"


# To start no more than 100 jobs a second, its default, Snakemake looks at all ready jobs again one
# second after each look, so that every job which ends adds such a look a second, for ever: after
# 380 jobs that had taken a fifth of two cores. A limit of one's own (--max-jobs-per-timespan) stays.
onstart:
    limit = getattr(workflow.scheduler, "job_rate_limiter", None)
    if limit is not None and (limit.max_jobs, limit.timespan) == (100, 1):
        workflow.scheduler.job_rate_limiter = None


# Papers that have experiments, and what is ours across them; every one is a target.
PAPERS = ["crosspaper", "dpgt", "fedpage", "fmgda", "tdcd", "vfb2"]


# What is selected: the demo, unless the configuration says otherwise.
rule all:
    default_target: True
    input:
        experiment_results(SELECTED),
        "results/claims.csv",
        "results/claims.html",
        "results/atlas/atlas.nc",
        "results/summary.md",
        "results/atlas/explorer.html",
    localrule: True


# Every selected experiment of every paper.
rule paper:
    input:
        paper_results(*PAPERS),
        "results/claims.csv",
        "results/claims.html",
        "results/atlas/atlas.nc",
        "results/summary.md",
        "results/atlas/explorer.html",
    localrule: True


rule crosspaper:
    input:
        paper_results("crosspaper"),
    localrule: True


rule dpgt:
    input:
        paper_results("dpgt"),
    localrule: True


rule fedpage:
    input:
        paper_results("fedpage"),
    localrule: True


rule fmgda:
    input:
        paper_results("fmgda"),
    localrule: True


rule tdcd:
    input:
        paper_results("tdcd"),
    localrule: True


rule vfb2:
    input:
        paper_results("vfb2"),
    localrule: True
