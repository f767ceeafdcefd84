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
