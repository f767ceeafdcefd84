"""Optima, and training: short points of an experiment together, others alone; all seeds inside."""

SHARED = training.shared_jobs(PLAN, SELECTED.names)


rule find_optimum:
    input:
        rows=lambda wildcards: data.shards(
            wildcards.dataset, wildcards.split, PLAN.pooled[wildcards.rows]
        ),
        code=code_of("fedatlas.training.solver"),
    output:
        "<results>/optima/{dataset}/{split}/{rows}/{objective}.json",
    log:
        "<logs>/optimum/{dataset}-{split}-{rows}-{objective}.log",
    wildcard_constraints:
        rows=one_of(PLAN.pooled),
        objective=one_of(PLAN.objectives),
    resources:
        **needs(
            gigabytes=2,
            minutes=60,
            more=lambda wildcards, input: memory.of_training(
                [], prepared(wildcards.dataset, wildcards.split)
            ),
        ),
    params:
        objective=lambda wildcards: specifications.of(PLAN.objectives[wildcards.objective]),
    shell:
        "fedatlas optimum {input.rows:q} --spec @<(printf %s {params.objective:q})"
        " --output {output:q} > {log:q} 2>&1"


rule train_run:
    input:
        unpack(lambda wildcards: training.inputs(PLAN.run(*wildcards))),
        code=lambda wildcards: code_of_runs(PLAN.run(*wildcards)),
    output:
        "<results>/experiments/{experiment}/traces/{run}/{point}.nc",
    log:
        "<logs>/train/{experiment}/{run}/{point}.log",
    benchmark:
        "<results>/experiments/{experiment}/benchmarks/{run}/{point}.jsonl"
    wildcard_constraints:
        experiment=one_of(set(PLAN.experiments).difference(job.experiment for job in SHARED)),
    priority: 1000  # what takes long begins first
    threads: lambda wildcards: training.cores(PLAN.run(*wildcards))
    resources:
        **needs(
            gigabytes=2,
            minutes=240,
            more=lambda wildcards, input: to_train(PLAN.run(*wildcards)),
        ),
        gpu=1 if CONFIG.device.startswith("cuda") else 0,
    params:
        spec=lambda wildcards: training.told(PLAN.run(*wildcards)),
        results=below_results(),
    shell:  # exec: Snakemake waits until training, not a shell, has ended
        "exec fedatlas train-points --spec @<(printf %s {params.spec:q}) --results {params.results:q}"
        " > {log:q} 2>&1"


# One rule for each job: Snakemake must know a rule's files when it reads the rule.
for job in SHARED:

    rule:
        name:
            f"train_{job.experiment}_{job.number}"
        input:
            unpack(lambda wildcards, job=job: training.inputs(*job.specs)),
            code=lambda wildcards, job=job: code_of_runs(*job.specs),
        output:
            results.trace_files(job.specs),
        log:
            f"<logs>/train/{job.experiment}/{job.number}.log",
        benchmark:
            f"<results>/experiments/{job.experiment}/benchmarks/{job.number}.jsonl"
        priority: job.seconds
        threads: training.cores(*job.specs)
        resources:
            **needs(
                gigabytes=2,
                minutes=60,
                more=lambda wildcards, input, job=job: to_train(*job.specs),
            ),
            gpu=1 if CONFIG.device.startswith("cuda") else 0,
        params:
            spec=lambda wildcards, job=job: training.told(*job.specs),
            results=below_results(),
        shell:
            "exec fedatlas train-points --spec @<(printf %s {params.spec:q}) --results {params.results:q}"
            " > {log:q} 2>&1"
