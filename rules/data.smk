"""Raw files, prepared Parquet, shards."""


rule download_file:
    output:
        "results/raw/{file}",
    params:
        spec=lambda wildcards: canonical_json(raw_file(wildcards.file).model_dump(mode="json")),
    log:
        "logs/download/{file}.log",
    localrule: True
    resources:
        download=1,
    # The mirror is not part of a file's identity: the checksum is. Hence no param.
    shell:
        "fedatlas download --spec {params.spec:q} --output {output:q} {MIRROR_OPTION}"
        " 2>&1 | tee {log:q}"


rule prepare_split:
    input:
        raw=split_files,
        code=code_of("fedatlas.data.prepare"),
    output:
        "results/data/{dataset}/{split}.parquet",
    params:
        spec=lambda wildcards: canonical_json(
            PLAN.catalogue[wildcards.dataset].model_dump(mode="json")
        ),
    log:
        "logs/prepare/{dataset}-{split}.log",
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 4000 * attempt,
        runtime=lambda wildcards, attempt: 60 * attempt,
    shell:
        "fedatlas prepare {wildcards.dataset:q} {wildcards.split:q} --spec {params.spec:q}"
        " --output {output:q} {input.raw:q} > {log:q} 2>&1"


rule shard_split:
    input:
        data="results/data/{dataset}/{split}.parquet",
        code=code_of("fedatlas.shards"),
    output:
        silo="results/shards/{dataset}/{split}/{partition}/silo-0.parquet",
        manifest="results/shards/{dataset}/{split}/{partition}/manifest.json",
    params:
        spec=lambda wildcards: canonical_json(
            PLAN.partitions[wildcards.partition].model_dump(mode="json")
        ),
    log:
        "logs/shard/{dataset}-{split}-{partition}.log",
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 4000 * attempt,
        runtime=lambda wildcards, attempt: 30 * attempt,
    shell:
        "fedatlas shard {input.data:q} --spec {params.spec:q} --silo {output.silo:q}"
        " --manifest {output.manifest:q} > {log:q} 2>&1"
