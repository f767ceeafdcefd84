"""Raw files, prepared Parquet, shards."""


rule download_file:
    output:
        "results/raw/{file}",
    log:
        "logs/download/{file}.log",
    wildcard_constraints:
        file=one_of(path for path, file in RAW_FILES.items() if not file.is_folder),
    localrule: True
    params:
        identity=identity_of,
    shell:
        "fedatlas download {wildcards.file:q} --output {output:q} 2>&1 | tee {log:q}"


use rule download_file as download_folder with:
    output:
        directory("results/raw/{file}"),
    wildcard_constraints:
        file=one_of(path for path, file in RAW_FILES.items() if file.is_folder),


rule prepare_split:
    input:
        raw=split_files,
        train=scaling_split,
        code=reading_code,
    output:
        "results/data/{dataset}/{split}.parquet",
    log:
        "logs/prepare/{dataset}-{split}.log",
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 4000 * attempt,
        runtime=lambda wildcards, attempt: 60 * attempt,
    params:
        identity=reading_of,
        train=lambda wildcards, input: f"--train-split {input.train}" if input.train else "",
    shell:
        "fedatlas prepare {wildcards.dataset:q} {wildcards.split:q} {input.raw:q} {params.train}"
        " --output {output:q} > {log:q} 2>&1"


# One rule for each number of silos: Snakemake must know a rule's files when it reads the rule.
for silos in sorted({partition.silos for partition in PLAN.partitions.values()}):

    rule:
        name:
            f"shard_into_{silos}"
        input:
            data="results/data/{dataset}/{split}.parquet",
            test=test_split_of,
            code=sharding_code,
        output:
            silos=expand(
                "results/shards/{{dataset}}/{{split}}/{{partition}}/silo-{silo}.parquet",
                silo=range(silos),
            ),
            manifest="results/shards/{dataset}/{split}/{partition}/manifest.json",
        log:
            "logs/shard/{dataset}-{split}-{partition}.log",
        wildcard_constraints:
            partition=one_of(
                slug for slug, partition in PLAN.partitions.items() if partition.silos == silos
            ),
        threads: 1
        resources:
            mem_mb=lambda wildcards, attempt: 4000 * attempt,
            runtime=lambda wildcards, attempt: 30 * attempt,
        params:
            spec=lambda wildcards: canonical_json(
                PLAN.partitions[wildcards.partition].model_dump(mode="json")
            ),
            silos=lambda wildcards, output: " ".join(f"--silo {silo}" for silo in output.silos),
            test=option("test"),
        shell:
            "fedatlas shard {input.data:q} --spec {params.spec:q} {params.silos} {params.test}"
            " --manifest {output.manifest:q} > {log:q} 2>&1"


rule find_optimum:
    input:
        rows=lambda wildcards: silos_of(
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
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 4000 * attempt,
        runtime=lambda wildcards, attempt: 60 * attempt,
    params:
        objective=lambda wildcards: canonical_json(
            PLAN.objectives[wildcards.objective].model_dump(mode="json")
        ),
    shell:
        "OMP_NUM_THREADS={threads} fedatlas optimum {input.rows:q} --spec {params.objective:q}"
        " --output {output:q} > {log:q} 2>&1"
