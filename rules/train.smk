"""Optima, and training: short points of an experiment together, others alone; all seeds inside."""

SHARED = training.shared_jobs(PLAN, SELECTED.names)


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
    wildcard_constraints:
        experiment=one_of(set(PLAN.experiments).difference(job.experiment for job in SHARED)),
    priority: 1000  # what takes long begins first
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


# One rule for each job: Snakemake must know a rule's files when it reads the rule.
for job in SHARED:

    rule:
        name:
            f"train_{job.experiment}_{job.number}"
        input:
            manifests=lambda wildcards, job=job: training.manifests(*job.specs),
            optima=lambda wildcards, job=job: training.optima(*job.specs),
            tuning=lambda wildcards, job=job: training.tuning(*job.specs),
            code=lambda wildcards, job=job: [code_of(*modules) for modules in job.code],
        output:
            # Not deleted before the job, which keeps what is up to date.
            [update(trace) for trace in job.traces],
        log:
            f"logs/train/{job.experiment}/{job.number}.log",
        benchmark:
            f"results/experiments/{job.experiment}/benchmarks/{job.number}.jsonl"
        priority: job.seconds
        resources:
            **needs(gigabytes=2, minutes=60),
            gpu=1 if CONFIG.device.startswith("cuda") else 0,
        params:
            spec=lambda wildcards, job=job: job.points,
        shell:
            "fedatlas train-together --spec {params.spec:q} --results results > {log:q} 2>&1"
