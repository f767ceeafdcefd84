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
        code=code_of("fedatlas.data.prepare"),
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


rule shard_split:
    input:
        data="results/data/{dataset}/{split}.parquet",
        code=code_of("fedatlas.shards"),
    output:
        silo="results/shards/{dataset}/{split}/{partition}/silo-0.parquet",
        manifest="results/shards/{dataset}/{split}/{partition}/manifest.json",
    log:
        "logs/shard/{dataset}-{split}-{partition}.log",
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 4000 * attempt,
        runtime=lambda wildcards, attempt: 30 * attempt,
    params:
        spec=lambda wildcards: canonical_json(
            PLAN.partitions[wildcards.partition].model_dump(mode="json")
        ),
    shell:
        "fedatlas shard {input.data:q} --spec {params.spec:q} --silo {output.silo:q}"
        " --manifest {output.manifest:q} > {log:q} 2>&1"
