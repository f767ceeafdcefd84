"""Optima, and training: one job per (experiment, run, grid point), all seeds inside."""


rule find_optimum:
    input:
        rows=lambda wildcards: data.shards(
            wildcards.dataset, wildcards.split, PLAN.pooled[wildcards.rows]
        ),
        code=code_of("fedatlas.training.solver"),
    output:
        "results/optima/{dataset}/{split}/{rows}/{objective}.json",
    log:
        "logs/optimum/{dataset}-{split}-{rows}-{objective}.log",
    wildcard_constraints:
        rows=one_of(PLAN.pooled),
        objective=one_of(PLAN.objectives),
    resources:
        **needs(gigabytes=4, minutes=60),
    params:
        objective=lambda wildcards: specifications.of(PLAN.objectives[wildcards.objective]),
    shell:
        "fedatlas optimum {input.rows:q} --spec {params.objective:q} --output {output:q}"
        " > {log:q} 2>&1"


rule train_run:
    input:
        shards=lambda wildcards: training.shard_files(PLAN.run(*wildcards)),
        manifests=lambda wildcards: training.manifests(PLAN.run(*wildcards)),
        optima=lambda wildcards: training.optima(PLAN.run(*wildcards)),
        tuning=lambda wildcards: training.tuning(PLAN.run(*wildcards)),
        code=lambda wildcards: code_of(*PLAN.run(*wildcards).code),
    output:
        "results/experiments/{experiment}/traces/{run}/{point}.nc",
    log:
        "logs/train/{experiment}/{run}/{point}.log",
    benchmark:
        "results/experiments/{experiment}/benchmarks/{run}/{point}.jsonl"
    resources:
        **needs(gigabytes=2, minutes=240),
        gpu=1 if CONFIG.device.startswith("cuda") else 0,
    params:
        spec=lambda wildcards: specifications.of(PLAN.run(*wildcards)),
        shards=lambda wildcards: training.folder("shards", PLAN.run(*wildcards)),
        optima=lambda wildcards, input: (
            f"--optima {training.folder('optima', PLAN.run(*wildcards))}" if input.optima else ""
        ),
        tuning=option("tuning"),
        # Outside the declared outputs: Snakemake deletes those when a job is interrupted.
        checkpoint=lambda wildcards: f"results/checkpoints/{'/'.join(wildcards)}.npz",
    shell:
        "fedatlas train --spec {params.spec:q} --shards {params.shards:q} {params.optima}"
        " {params.tuning} --checkpoint {params.checkpoint:q} --output {output:q} > {log:q} 2>&1"
