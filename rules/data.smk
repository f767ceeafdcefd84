"""Raw files and prepared Parquet."""

RAW_FILES = PLAN.catalogue.raw_files()
CATALOGUE = [str(path) for path in PLAN.catalogue.paths]


rule download_file:
    output:
        **made("download_file"),
    log:
        "<logs>/download/{file}.log",
    wildcard_constraints:
        file=one_of(path for path, raw in RAW_FILES.items() if raw.unpack is None),
    localrule: True
    params:
        **arguments(
            "download_file",
            lambda wildcards: {"file": wildcards.file},
            catalogue=CATALOGUE,
            archives=f"{RESULTS}/archives",
        ),
        identity=lambda wildcards: jobs.identity(RAW_FILES[wildcards.file], CONFIG.mirror, RESULTS),
    shell:
        STEP_ALOUD


use rule download_file as download_folder with:
    output:
        **made("download_folder"),
    wildcard_constraints:
        file=one_of(path for path, raw in RAW_FILES.items() if raw.unpack is not None),


rule prepare_split:
    input:
        raw=lambda wildcards: jobs.raw_files(PLAN.catalogue, *wildcards),
        train=lambda wildcards: jobs.scaled_by(PLAN.catalogue, *wildcards),
    output:
        **made("prepare_split"),
    log:
        "<logs>/prepare/{dataset}-{split}.log",
    resources:
        **needs(
            gigabytes=4,
            minutes=60,
            more=lambda wildcards, input: jobs.memory_of_reading(
                PLAN.catalogue, wildcards.dataset, input.raw
            ),
        ),
    params:
        **arguments(
            "prepare_split",
            lambda wildcards: {"dataset": wildcards.dataset, "split": wildcards.split},
            code=lambda wildcards: jobs.reading_code(PLAN.catalogue, wildcards.dataset),
            catalogue=CATALOGUE,
        ),
        identity=lambda wildcards: jobs.reading(PLAN.catalogue, *wildcards),
    shell:
        STEP
