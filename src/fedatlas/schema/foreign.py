"""Mapping files: what the columns of runs made elsewhere mean."""

from collections.abc import Collection
from typing import Annotated

from pydantic import Field, ValidationInfo, field_validator

from fedatlas.errors import similar
from fedatlas.schema.declared import Counted, Table
from fedatlas.schema.models import Model
from fedatlas.schema.quantities import BYTES, COSTS, MEASUREMENTS, SUMMED_COSTS

#: Costs that records of other programs may state, beside the round that each is of.
FOREIGN_COSTS: Table[Counted] = Table(
    lambda: {
        name: cost
        for name, cost in {**COSTS, "bytes": SUMMED_COSTS["bytes"]}.items()
        if name != "round"
    }
)
# {run}, and perhaps {seed}, once each.
_PATTERN = r"^([^{}]*\{run\}[^{}]*(\{seed\}[^{}]*)?|[^{}]*\{seed\}[^{}]*\{run\}[^{}]*)?$"


class CurvesMapping(Model):
    """The meaning of columns of runs made elsewhere; columns with obvious names may be left out.

    A column has the name that the source gives it. Arithmetic is allowed: "acc / 100",
    "loss - 0.33", "round * 31400", and "sum(upload)" where each row adds an amount.

    experiment: the name of the experiment that the runs form; by default the source's name.
    title: title of the experiment.
    problem: the experiment whose problem the runs solve; it may be of a published folder. Nothing
        checks that the problem is the same.
    names: pattern of the names of files, folders or runs, such as "{run}-seed{seed}", where no
        column holds run and seed.
    run: column with names of runs.
    seed: column with whole numbers.
    round: column with communication rounds, or steps; each is a record.
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
        if "bytes" in columns and (parts := [name for name in BYTES if name in columns]):
            raise ValueError(f"'bytes' are all of them: remove it, or {' and '.join(parts)}")
        return columns
