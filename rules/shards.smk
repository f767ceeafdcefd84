"""Shards of clients, parties and silos."""

# One rule for each number of silos: Snakemake must know a rule's files when it reads the rule.
for silos in sorted({partition.silos for partition in PLAN.partitions.values()}):

    rule:
        name:
            f"shard_into_{silos}"
        input:
            prepared="<results>/data/{dataset}/{split}.parquet",
            test=lambda wildcards: jobs.prepared(
                wildcards.dataset, PLAN.partitions[wildcards.partition].test_split
            ),
        output:
            **made("shard_split"),
            silos=expand(
                "<results>/shards/{{dataset}}/{{split}}/{{partition}}/silo-{silo}.parquet",
                silo=range(silos),
            ),
        log:
            "<logs>/shard/{dataset}-{split}-{partition}.log",
        wildcard_constraints:
            partition=one_of(
                slug for slug, partition in PLAN.partitions.items() if partition.silos == silos
            ),
        resources:
            **needs(
                gigabytes=1,
                minutes=30,
                more=lambda wildcards, input: jobs.memory_of_sharding(
                    PLAN.partitions[wildcards.partition], input
                ),
            ),
        params:
            **arguments(
                "shard_split",
                lambda wildcards: {
                    "spec": PLAN.partitions[wildcards.partition].model_dump(mode="json")
                },
                code=lambda wildcards: [jobs.sharding_code(PLAN.partitions[wildcards.partition])],
            ),
        shell:
            STEP
