"""The simulated network against processes: do simulated times say what real ones do?

VFB²-SGD runs on the same samples twice for every number of parties, asynchronous and synchronous:
first by processes, whose shares, updates and messages are timed; then simulated, in a network that
is fitted to these times. Nothing else is fitted. Every run starts at w = 0.

A round ends with nothing under way, as processes end it; here the simulation rests then, too.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.tables import to_csv
from fedatlas.federations.context import shard_files
from fedatlas.federations.parties.group import PartyGroup
from fedatlas.federations.parties.messages import TIMED
from fedatlas.federations.parties.network import DELAYS, ProcessNetwork, fitted_network
from fedatlas.federations.vertical.kernels import state as at
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
from fedatlas.schema.network_model import NetworkModel
from fedatlas.schema.studies import PartyValidation

#: Of the fall of the objective, how much a run must reach; both backends the same value.
_SHARE_OF_FALL = 0.8
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
    def times(self) -> tuple[float, float]:
        """Seconds to a share of the fall that both reach, real and simulated."""
        lowest = max(run.objective[-1] for run in (self.real, self.simulated))
        first = self.real.objective[0]
        target = first - _SHARE_OF_FALL * (first - lowest)
        return self.real.seconds_to(target), self.simulated.seconds_to(target)


@dataclass(frozen=True)
class Compared:
    """One quantity, real and simulated; relative_error: of the simulation."""

    quantity: str
    parties: int
    form: str
    real: float
    simulated: float
    relative_error: float


def compare_backends(folders: Sequence[Path], study: PartyValidation) -> list[Pair]:
    """Both backends on every partition, a folder of shards each; FedatlasError for bad shards."""
    pairs = []
    for folder in folders:
        parties = len(list(folder.glob("silo-*.parquet")))
        if parties < 2:
            raise FedatlasError(f"{folder}: holds no shards of two or more parties")
        files = shard_files(folder, parties)
        data = read_party_shards(files)
        with _processes(files) as group:
            pairs += [_pair(group, data, study, synchronous) for synchronous in (False, True)]
    return pairs


def tabulate(pairs: Sequence[Pair]) -> list[Compared]:
    """Times, staleness, and what follows of them: speed-up from the fewest parties, and ratios."""
    rows = []
    for pair in pairs:
        form = "synchronous" if pair.synchronous else "asynchronous"
        both = pair.real, pair.simulated
        whole = [run.seconds[-1] for run in both]
        rows.append(_row("seconds of all rounds", pair.parties, form, *whole))
        rows.append(_row("seconds to the target", pair.parties, form, *pair.times))
        for name in ("read_delay", "update_delay"):
            delays = [getattr(run, name) for run in both]
            rows.append(_row(f"mean {name.replace('_', ' ')}", pair.parties, form, *delays))
    by_form = {(pair.parties, pair.synchronous): pair.times for pair in pairs}
    counts = sorted({pair.parties for pair in pairs})
    for synchronous in (False, True):
        form = "synchronous" if synchronous else "asynchronous"
        first = by_form[counts[0], synchronous]
        for parties in counts[1:]:
            own = by_form[parties, synchronous]
            speed_up = [a / b for a, b in zip(first, own, strict=True)]
            rows.append(_row(f"speed-up from {counts[0]} parties", parties, form, *speed_up))
    for parties in counts:
        ratios = [
            a / b for a, b in zip(by_form[parties, False], by_form[parties, True], strict=True)
        ]
        rows.append(_row("time asynchronous / synchronous", parties, "both", *ratios))
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


def _row(quantity: str, parties: int, form: str, real: float, simulated: float) -> Compared:
    error = simulated / real - 1 if real else float("nan")
    return Compared(quantity, parties, form, real, simulated, error)


@contextmanager
def _processes(files: Sequence[Path]) -> Iterator[PartyGroup]:
    group = PartyGroup(files)
    try:
        yield group
    finally:
        group.close()


def _pair(group: PartyGroup, data: PartySamples, study: PartyValidation, synchronous: bool) -> Pair:
    """One form of the method, by processes and then simulated."""
    active = int(data.metadata["partition"]["active"])
    problem = PartyProblem(data, study.objective)
    rule = UpdateRule(study.step_size, synchronous=synchronous)
    random = np.random.default_rng(study.seed)
    drawn = random.integers(0, problem.samples, (study.rounds, study.updates))
    group.set_up(study.objective, study.network)
    start = np.zeros(problem.dimension)

    real = ProcessNetwork(group, data.train.starts, active, problem.samples, ProcessCounters())
    real.dominated_updates(real.start(start), rule, drawn[0, :_WARM_UP])
    state = real.start(start)
    seconds, values = [0.0], [problem.measure(start)["objective"]]
    for samples in drawn:
        state = real.dominated_updates(state, rule, samples)
        seconds.append(state.elapsed)
        values.append(problem.measure(state.x)["objective"])
    measured = state.measured
    delays = measured.delays[DELAYS.index("sum")]
    by_processes = Run(
        *(tuple(seconds), tuple(values), tuple(np.trim_zeros(delays, "b").tolist())),
        *(measured.mean("read"), measured.mean("update")),
    )
    widths = np.diff(data.train.starts).astype(np.float64)
    model = fitted_network(measured, widths, study.network.threads)
    simulated = _simulated(data, problem, study, active, rule, drawn, model)
    fitted = model.model_dump(mode="json")
    kept = {
        kind: [own[np.isfinite(own)].tolist() for own in of_kind]
        for kind, of_kind in zip(TIMED, measured.seconds, strict=True)
    }
    return Pair(group.parties, synchronous, group.carrier, fitted, kept, by_processes, simulated)


def _simulated(
    data: PartySamples,
    problem: PartyProblem,
    study: PartyValidation,
    active: int,
    rule: UpdateRule,
    drawn: np.ndarray,
    model: NetworkModel,
) -> Run:
    """The same run in a simulated network, one dominated update at a time."""
    counters = PartyCounters()
    network = PartyNetwork(data.train, study.objective, active, model, counters, study.seed)
    state = network.start(np.zeros(problem.dimension))
    seconds, values = [0.0], [problem.measure(state.x)["objective"]]
    lacked, before = [], 0.0
    for samples in drawn:
        for sample in samples:
            state = network.dominated_updates(state, rule, np.array([sample]))
            now = float(state.tally.values[at.READ_DELAYS])
            lacked.append(round(now - before))
            before = now
        state = network.barrier(state, rule)
        state.queues.begin[:] = state.tally.values[at.LAST_SUM]  # all begin anew
        values.append(problem.measure(state.x)["objective"])
        seconds.append(counters.simulated_time)
    return Run(
        *(tuple(seconds), tuple(values), tuple(np.bincount(lacked).tolist())),
        *(counters.read_delay_mean, counters.update_delay_mean),
    )


def validate_parties(
    validation: PartyValidation, shards: list[Path], output: Path, curves: Path, times: Path
) -> None:
    """Compare the simulated network with processes: times, staleness, speed-up.

    shards: files of partitions, each with another number of parties. curves: all that was
    measured, as JSON. times: single times of the most parties, asynchronous.
    """
    folders = list(dict.fromkeys(file.parent for file in shards))
    pairs = compare_backends(folders, validation)
    write_text(output, to_csv([asdict(row) for row in tabulate(pairs)]))
    write_text(curves, canonical_json([asdict(pair) for pair in pairs]))
    last = max((pair for pair in pairs if not pair.synchronous), key=lambda pair: pair.parties)
    write_text(times, to_csv(single_times(last)))
