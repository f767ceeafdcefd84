"""Optima, and training: short points of an experiment together, others alone; all seeds inside."""

SHARED = jobs.shared_jobs(PLAN, SELECTED.names)
GPUS = 1 if CONFIG.device.startswith("cuda") else 0


rule find_optimum:
    input:
        rows=lambda wildcards: jobs.shards(
            wildcards.dataset, wildcards.split, PLAN.pooled[wildcards.rows]
        ),
    output:
        **made("find_optimum"),
    log:
        "<logs>/optimum/{dataset}-{split}-{rows}-{objective}.log",
    wildcard_constraints:
        rows=one_of(PLAN.pooled),
        objective=one_of(PLAN.objectives),
    resources:
        **needs(
            gigabytes=2,
            minutes=60,
            more=lambda wildcards, input: jobs.memory_of_training(
                [], placed(jobs.prepared(wildcards.dataset, wildcards.split))
            ),
        ),
    params:
        **arguments(
            "find_optimum",
            lambda wildcards: {
                "objective": PLAN.objectives[wildcards.objective].model_dump(mode="json")
            },
            code=lambda wildcards: PLAN.objectives[wildcards.objective].code,
        ),
    shell:
        STEP


rule train_run:
    input:
        unpack(lambda wildcards: jobs.inputs(PLAN.run(*wildcards))),
    output:
        **made("train_run"),
    log:
        "<logs>/train/{experiment}/{run}/{point}.log",
    benchmark:
        "<results>/experiments/{experiment}/benchmarks/{run}/{point}.jsonl"
    wildcard_constraints:
        experiment=one_of(set(PLAN.experiments).difference(job.experiment for job in SHARED)),
    priority: 1000  # what takes long begins first
    threads: lambda wildcards: jobs.cores(PLAN.run(*wildcards))
    resources:
        **needs(
            gigabytes=2,
            minutes=240,
            more=lambda wildcards, input: memory_of_training(PLAN.run(*wildcards)),
        ),
        gpu=GPUS,
    params:
        **arguments(
            "train_run",
            lambda wildcards: jobs.points(PLAN.run(*wildcards)),
            code=lambda wildcards: jobs.training_code(PLAN.run(*wildcards)),
            passes=[],
            results=RESULTS,
        ),
    shell:
        STEP


# One rule for each job: Snakemake must know a rule's files when it reads the rule.
for job in SHARED:

    rule:
        name:
            f"train_{job.experiment}_{job.number}"
        input:
            unpack(lambda wildcards, job=job: jobs.inputs(*job.specs)),
        output:
            results.trace_files(job.specs),
        log:
            f"<logs>/train/{job.experiment}/{job.number}.log",
        benchmark:
            f"<results>/experiments/{job.experiment}/benchmarks/{job.number}.jsonl"
        priority: job.seconds
        threads: jobs.cores(*job.specs)
        resources:
            **needs(
                gigabytes=2,
                minutes=60,
                more=lambda wildcards, input, job=job: memory_of_training(*job.specs),
            ),
            gpu=GPUS,
        params:
            **arguments(
                "train_run",
                lambda wildcards, job=job: jobs.points(*job.specs),
                code=lambda wildcards, job=job: jobs.training_code(*job.specs),
                passes=[],
                results=RESULTS,
            ),
        shell:
            STEP
