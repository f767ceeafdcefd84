"""Reading the one file that a party has."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedatlas.data.tables import features_from_table, open_parquet, read_metadata, to_array
from fedatlas.errors import FedatlasError
from fedatlas.federations.vertical.shards import PARTY_KEYS, PartyRows


@dataclass(frozen=True)
class OwnRows:
    """What a party knows: its training rows, who it is, and how many take part.

    rows: one block; its labels are NaN where the party has none.
    """

    rows: PartyRows
    party: int
    parties: int
    active: int


def read_own_rows(path: Path) -> OwnRows:
    """The training rows of a party's file; FedatlasError if it is missing, damaged or no party's.

    Test rows stay in the file: nothing in the protocol needs them.
    """
    with open_parquet(path) as file:
        metadata = read_metadata(file, path, PARTY_KEYS)
        names = [name for name, _ in metadata["groups"]]
        if "parties" not in metadata["partition"] or "train" not in names:
            raise FedatlasError(f"{path}: is no file of a party; shard again")
        table = file.read_row_group(names.index("train"))
        features = features_from_table(table, metadata["features"])
        labelled = metadata["labelled"]
        label = to_array(table["label"]) if labelled else np.full(table.num_rows, np.nan)
    starts = np.array([0, metadata["features"]])
    partition = metadata["partition"]
    rows = PartyRows(features, label, starts)
    return OwnRows(rows, metadata["silo"], partition["parties"], partition["active"])
