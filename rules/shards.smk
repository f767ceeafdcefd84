"""Shards of clients, parties and silos."""

# One rule for each number of silos: Snakemake must know a rule's files when it reads the rule.
for silos in sorted({partition.silos for partition in PLAN.partitions.values()}):

    rule:
        name:
            f"shard_into_{silos}"
        input:
            data="<results>/data/{dataset}/{split}.parquet",
            test=lambda wildcards: data.prepared(
                wildcards.dataset, PLAN.partitions[wildcards.partition].test_split
            ),
            code=lambda wildcards: code_of(data.sharding_code(PLAN.partitions[wildcards.partition])),
        output:
            silos=expand(
                "<results>/shards/{{dataset}}/{{split}}/{{partition}}/silo-{silo}.parquet",
                silo=range(silos),
            ),
            manifest="<results>/shards/{dataset}/{split}/{partition}/manifest.json",
        log:
            "<logs>/shard/{dataset}-{split}-{partition}.log",
        wildcard_constraints:
            partition=one_of(
                slug for slug, partition in PLAN.partitions.items() if partition.silos == silos
            ),
        resources:
            **needs(gigabytes=1, minutes=30, more=to_shard),
        params:
            spec=lambda wildcards: specifications.of(PLAN.partitions[wildcards.partition]),
            silos=lambda wildcards, output: options("silo", output.silos),
            test=option("test"),
        shell:
            "fedatlas shard {input.data:q} --spec @<(printf %s {params.spec:q})"
            " {params.silos:q} {params.test:q} --manifest {output.manifest:q} > {log:q} 2>&1"
