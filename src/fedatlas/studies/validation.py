"""Compare the simulated network with real processes: do simulated times predict real ones?

VFB²-SGD runs on the same samples twice for every number of parties, asynchronous and synchronous:
first by processes, whose shares, updates and messages are timed; then simulated, in a network that
is fitted to these times. Nothing else is fitted. Every run starts at w = 0.

A round ends with nothing under way, as processes end it; here the simulation rests then, too.
"""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import fedatlas.federations.vertical.kernels as at
from fedatlas.errors import FedatlasError
from fedatlas.evaluation.tables import to_csv
from fedatlas.federations.context import shard_files
from fedatlas.federations.parties.group import PartyGroup
from fedatlas.federations.parties.messages import TIMED
from fedatlas.federations.parties.network import DELAYS, ProcessNetwork, fitted_network
from fedatlas.federations.vertical.network import PartyNetwork
from fedatlas.federations.vertical.problem import (
    PartyCounters,
    PartyProblem,
    ProcessCounters,
    UpdateRule,
)
from fedatlas.federations.vertical.shards import PartySamples, read_party_shards
from fedatlas.files import canonical_json, write_text
from fedatlas.schema.models import read_json
from fedatlas.schema.studies import PartyValidation

#: Of the fall of the objective, how much a run must reach; both backends the same value.
_SHARE_OF_FALL = 0.8
FORMS = "asynchronous", "synchronous"
_WARM_UP = 20  # updates that do not count


@dataclass(frozen=True)
class Run:
    """One run. seconds, objective: at the start and after every round.

    sum_delays: how often a sum lacked 0, 1, … updates, over the reads of all its shares together.
    read_delay, update_delay: means, see `ProcessCounters`.
    """

    seconds: tuple[float, ...]
    objective: tuple[float, ...]
    sum_delays: tuple[int, ...]
    read_delay: float
    update_delay: float

    def seconds_to(self, target: float) -> float:
        """When the objective first reached the target, on a line between rounds; NaN if never."""
        below = np.flatnonzero(np.array(self.objective) <= target)
        if not len(below):
            return float("nan")
        last = int(below[0])
        if last == 0:
            return self.seconds[0]
        before, after = self.objective[last - 1 : last + 1]
        earlier, later = self.seconds[last - 1 : last + 1]
        return earlier + (before - target) / (before - after) * (later - earlier)


@dataclass(frozen=True)
class Pair:
    """The same run by processes and simulated in the network that was fitted to them.

    carrier: what messages of processes travel by. fitted: that network, as an experiment states it.
    measured: seconds of shares, updates and messages, of every party.
    """

    parties: int
    synchronous: bool
    carrier: str
    fitted: dict[str, Any]
    measured: dict[str, list[list[float]]]
    real: Run
    simulated: Run

    @property
    def form(self) -> str:
        """One of `FORMS`."""
        return FORMS[self.synchronous]

    @property
    def times(self) -> tuple[float, float]:
        """Seconds to a share of the fall that both reach, real and simulated."""
        lowest = max(run.objective[-1] for run in (self.real, self.simulated))
        first = self.real.objective[0]
        target = first - _SHARE_OF_FALL * (first - lowest)
        return self.real.seconds_to(target), self.simulated.seconds_to(target)


class Compared(NamedTuple):
    """One quantity, real and simulated."""

    quantity: str
    parties: int
    form: str
    real: float
    simulated: float

    @property
    def relative_error(self) -> float:
        """The relative error of the simulation."""
        return self.simulated / self.real - 1 if self.real else float("nan")


def compare_backends(folders: Sequence[Path], study: PartyValidation) -> list[Pair]:
    """Both backends on every partition, a folder of shards each; FedatlasError for bad shards."""
    pairs = []
    for folder in folders:
        parties = len(list(folder.glob("silo-*.parquet")))
        if parties < 2:
            raise FedatlasError(f"{folder}: holds no shards of two or more parties")
        files = shard_files(folder, parties)
        data = read_party_shards(files)
        with closing(PartyGroup(files)) as group:
            pairs += [_pair(group, data, study, synchronous) for synchronous in (False, True)]
    return pairs


def tabulate(pairs: Sequence[Pair]) -> list[Compared]:
    """Times, staleness, and what follows of them: speed-up from the fewest parties, and ratios."""
    rows = []
    for pair in pairs:
        both = pair.real, pair.simulated
        quantities = {
            "seconds of all rounds": [run.seconds[-1] for run in both],
            "seconds to the target": pair.times,
            "mean read delay": [run.read_delay for run in both],
            "mean update delay": [run.update_delay for run in both],
        }
        rows += [
            Compared(name, pair.parties, pair.form, *values) for name, values in quantities.items()
        ]
    times = {(pair.form, pair.parties): np.array(pair.times) for pair in pairs}
    counts = sorted({pair.parties for pair in pairs})
    for form in FORMS:
        for parties in counts[1:]:
            speed_up = times[form, counts[0]] / times[form, parties]
            name = f"speed-up from {counts[0]} parties"
            rows.append(Compared(name, parties, form, *speed_up.tolist()))
    for parties in counts:
        ratio = times[FORMS[0], parties] / times[FORMS[1], parties]
        rows.append(Compared("time asynchronous / synchronous", parties, "both", *ratio.tolist()))
    return rows


def single_times(pair: Pair) -> list[dict[str, Any]]:
    """Rows of single times, as a law of times takes them (`schema.measured_times`)."""
    return [
        {"kind": kind, "party": party, "seconds": seconds}
        for kind, of_kind in pair.measured.items()
        for party, own in enumerate(of_kind)
        for seconds in own
    ]


def read_pairs(path: Path) -> list[Pair]:
    """Read the written curves; FedatlasError for anything else."""
    try:
        return [
            Pair(**entry | {name: Run(**entry[name]) for name in ("real", "simulated")})
            for entry in read_json(path)
        ]
    except (TypeError, KeyError):
        raise FedatlasError(f"{path}: holds no curves of validate-parties") from None


def _pair(group: PartyGroup, data: PartySamples, study: PartyValidation, synchronous: bool) -> Pair:
    """One form of the method, by processes and then simulated."""
    active = int(data.metadata["partition"]["active"])
    problem = PartyProblem(data, study.objective)
    rule = UpdateRule(study.step_size, synchronous=synchronous)
    random = np.random.default_rng(study.seed)
    drawn = random.integers(0, problem.samples, (study.rounds, study.updates))
    group.set_up(study.objective, study.network)
    start = np.zeros(problem.dimension)

    processes = ProcessNetwork(group, data.train.starts, active, problem.samples, ProcessCounters())
    processes.dominated_updates(processes.start(start), rule, drawn[0, :_WARM_UP])
    state = processes.start(start)
    curve = [(0.0, problem.measure(start)["objective"])]
    for samples in drawn:
        state = processes.dominated_updates(state, rule, samples)
        curve.append((state.elapsed, problem.measure(state.x)["objective"]))
    measured = state.measured
    delays = np.trim_zeros(measured.delays[DELAYS.index("sum")], "b")
    real = Run(*_columns(curve, delays), measured.mean("read"), measured.mean("update"))

    widths = np.diff(data.train.starts).astype(np.float64)
    model = fitted_network(measured, widths, study.network.threads)
    counters = PartyCounters()
    network = PartyNetwork(data.train, study.objective, active, model, counters, study.seed)
    simulation = network.start(start)
    curve, lacked, before = curve[:1], [], 0.0
    for samples in drawn:
        for sample in samples:  # one at a time, to see how many updates each lacked
            simulation = network.dominated_updates(simulation, rule, np.array([sample]))
            now = float(simulation.tally.values[at.READ_DELAYS])
            lacked.append(round(now - before))
            before = now
        simulation = network.barrier(simulation, rule)
        simulation.queues.begin[:] = simulation.tally.values[at.LAST_SUM]  # all begin anew
        curve.append((counters.simulated_time, problem.measure(simulation.x)["objective"]))
    means = counters.read_delay_mean, counters.update_delay_mean
    return Pair(
        parties=group.parties,
        synchronous=synchronous,
        carrier=group.carrier,
        fitted=model.model_dump(mode="json"),
        measured={
            kind: [own[np.isfinite(own)].tolist() for own in of_kind]
            for kind, of_kind in zip(TIMED, measured.seconds, strict=True)
        },
        real=real,
        simulated=Run(*_columns(curve, np.bincount(lacked)), *means),
    )


def _columns(
    curve: list[tuple[float, float]], delays: np.ndarray
) -> tuple[tuple[float, ...], tuple[float, ...], tuple[int, ...]]:
    """Seconds, objectives and delays of a run."""
    seconds, objective = zip(*curve, strict=True)
    return seconds, objective, tuple(delays.tolist())


def validate_parties(
    validation: PartyValidation, shards: list[Path], output: Path, curves: Path, times: Path
) -> None:
    """Compare the simulated network with processes: times, staleness, speed-up.

    shards: files of partitions, each with another number of parties. curves: all that was
    measured, as JSON. times: single times of the most parties, asynchronous.
    """
    folders = list(dict.fromkeys(file.parent for file in shards))
    pairs = compare_backends(folders, validation)
    write_text(
        output,
        to_csv([row._asdict() | {"relative_error": row.relative_error} for row in tabulate(pairs)]),
    )
    write_text(curves, canonical_json([asdict(pair) for pair in pairs]))
    last = max((pair for pair in pairs if not pair.synchronous), key=lambda pair: pair.parties)
    write_text(times, to_csv(single_times(last)))
