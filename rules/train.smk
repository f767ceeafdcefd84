"""Training: one job per (experiment, run, grid point), all seeds inside."""


rule train_run:
    input:
        shard=shard_of("silo-0.parquet"),
        manifest=shard_of("manifest.json"),
        code=lambda wildcards: code_of(*training_modules(run_spec(wildcards).algorithm)),
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
        # Outside the declared outputs: Snakemake deletes those when a job is interrupted.
        checkpoint=lambda wildcards: f"results/checkpoints/{'/'.join(wildcards)}.npz",
    shell:
        "OMP_NUM_THREADS={threads} fedatlas train --spec {params.spec:q} --shard {input.shard:q}"
        " --checkpoint {params.checkpoint:q} --output {output:q}"
        " > {log:q} 2>&1"
