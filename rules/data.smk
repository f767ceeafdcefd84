"""Raw files and prepared Parquet."""

RAW_FILES = PLAN.catalogue.raw_files()


rule download_file:
    output:
        "<results>/raw/{file}",
    log:
        "<logs>/download/{file}.log",
    wildcard_constraints:
        file=one_of(path for path, raw in RAW_FILES.items() if raw.unpack is None),
    localrule: True
    params:
        identity=lambda wildcards: data.identity(RAW_FILES[wildcards.file], CONFIG.mirror, RESULTS),
        archives=below_results("archives"),
    shell:
        "fedatlas download {wildcards.file:q} --archives {params.archives:q} --output {output:q}"
        " 2>&1 | tee {log:q}"


use rule download_file as download_folder with:
    output:
        directory("<results>/raw/{file}"),
    wildcard_constraints:
        file=one_of(path for path, raw in RAW_FILES.items() if raw.unpack is not None),


rule prepare_split:
    input:
        raw=lambda wildcards: data.raw_files(PLAN.catalogue, *wildcards),
        train=lambda wildcards: data.scaled_by(PLAN.catalogue, *wildcards),
        code=lambda wildcards: code_of(*data.reading_code(PLAN.catalogue, wildcards.dataset)),
    output:
        "<results>/data/{dataset}/{split}.parquet",
    log:
        "<logs>/prepare/{dataset}-{split}.log",
    resources:
        **needs(
            gigabytes=4,
            minutes=60,
            more=lambda wildcards, input: memory.of_reading(
                PLAN.catalogue, wildcards.dataset, input.raw
            ),
        ),
    params:
        identity=lambda wildcards: data.reading(PLAN.catalogue, *wildcards),
        train=lambda wildcards, input: options("train-split", input.train),
    shell:
        "fedatlas prepare {wildcards.dataset:q} {wildcards.split:q} {input.raw:q} {params.train:q}"
        " --output {output:q} > {log:q} 2>&1"
