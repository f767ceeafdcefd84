"""Training: one job per (experiment, run, grid point), all seeds inside."""


rule train_run:
    input:
        shards=shards_of,
        manifests=manifests_of,
        optima=optima_of,
        tuning=tuning_of,
        code=training_code,
    output:
        "results/experiments/{experiment}/traces/{run}/{point}.nc",
    log:
        "logs/train/{experiment}/{run}/{point}.log",
    benchmark:
        "results/experiments/{experiment}/benchmarks/{run}/{point}.jsonl"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 2000 * attempt,
        runtime=lambda wildcards, attempt: 240 * attempt,
        gpu=1 if CONFIG.device.startswith("cuda") else 0,
    params:
        spec=lambda wildcards: canonical_json(run_spec(wildcards).model_dump(mode="json")),
        shards=lambda wildcards: f"results/shards/{split_of_run(wildcards)}",
        optima=lambda wildcards, input: (
            f"--optima results/optima/{split_of_run(wildcards)}" if input.optima else ""
        ),
        tuning=option("tuning"),
        # Outside the declared outputs: Snakemake deletes those when a job is interrupted.
        checkpoint=lambda wildcards: f"results/checkpoints/{'/'.join(wildcards)}.npz",
    shell:
        "OMP_NUM_THREADS={threads} fedatlas train --spec {params.spec:q} --shards {params.shards:q}"
        " {params.optima} {params.tuning} --checkpoint {params.checkpoint:q} --output {output:q}"
        " > {log:q} 2>&1"
