"""What columns of runs made elsewhere are: a mapping file, which names them once."""

from collections.abc import Collection
from typing import Annotated

from pydantic import Field, ValidationInfo, field_validator

from fedatlas.errors import similar
from fedatlas.schema.declared import Counted, Table
from fedatlas.schema.models import Model
from fedatlas.schema.quantities import COSTS, MEASUREMENTS, SUMMED_COSTS

#: Costs that records of other programs may state.
FOREIGN_COSTS: Table[Counted] = Table(lambda: {**COSTS, "bytes": SUMMED_COSTS["bytes"]})
# {run}, and perhaps {seed}, once each.
_PATTERN = r"^([^{}]*\{run\}[^{}]*(\{seed\}[^{}]*)?|[^{}]*\{seed\}[^{}]*\{run\}[^{}]*)?$"


class CurvesMapping(Model):
    """What columns of runs made elsewhere are here; names that are obvious may be left out.

    A column is named as the source names it, and may be computed with: "acc / 100", "loss - 0.33",
    "round * 31400", and "sum(upload)" of what each row adds.

    experiment: what the runs make up; the name of the source by default.
    title: of the experiment.
    problem: experiment, of a published folder perhaps, whose problem the runs solve. It is taken as
        declared: nothing can check it.
    names: how files, folders or runs are named, such as "{run}-seed{seed}", where no column says
        which run and which seed they are.
    run: column with names of runs.
    seed: column with whole numbers.
    round: column with communication rounds, or steps, of which a record is each.
    costs: cost → column with what was spent up to the row; bytes: up and down together.
    metrics: measurement → column. An accuracy lies between 0 and 1.
    titles: run → what tables and figures call it.
    """

    experiment: Annotated[str, Field(pattern=r"^[^/.][^/]*$")] | None = None
    title: str = ""
    problem: str = ""
    names: str = Field(default="", pattern=_PATTERN)
    run: str | None = None
    seed: str | None = None
    round: str | None = None
    costs: dict[str, str] = Field(default={})
    metrics: dict[str, str] = Field(default={})
    titles: dict[str, str] = Field(default={})

    @field_validator("costs", "metrics")
    @classmethod
    def _are_known(cls, columns: dict[str, str], info: ValidationInfo) -> dict[str, str]:
        known: Collection[str] = FOREIGN_COSTS if info.field_name == "costs" else MEASUREMENTS
        for name in columns:
            if name not in known:
                told = similar(name, known) or f"; there are {', '.join(known)}"
                raise ValueError(f"'{name}' is none of fedatlas or of a project{told}")
        return columns
