"""Parties that are processes: what they compute, send, see, and how they end.

Four real processes, on however many cores there are. What they compute is compared with the papers'
loops over pooled data (tests/reference_vertical.py) and with the simulated network.
"""

import importlib.util
import os
import shutil
import signal
import struct
import threading
import time
from collections import deque
from pathlib import Path

import numpy as np
import pytest
from scipy import optimize, stats
from scipy.sparse import csr_array

import reference_vertical as reference
from fedatlas.algorithms.afsvrg_vp import AfsvrgVp
from fedatlas.algorithms.vfb2_saga import Vfb2Saga
from fedatlas.algorithms.vfb2_sgd import Vfb2Sgd
from fedatlas.algorithms.vfb2_svrg import Vfb2Svrg
from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.arithmetic.samples import Samples
from fedatlas.errors import FedatlasError
from fedatlas.federations.parties import messages
from fedatlas.federations.parties.group import TRANSPORT_VARIABLE, PartyGroup, carrier_of
from fedatlas.federations.parties.messages import (
    HEADER_BYTES,
    TIMED,
    BlockState,
    RoundLog,
    Transport,
)
from fedatlas.federations.parties.network import ProcessNetwork, staleness
from fedatlas.federations.parties.party import OwnBlock, Party
from fedatlas.federations.vertical.machines import InjectedTimes
from fedatlas.federations.vertical.network import PartyNetwork
from fedatlas.federations.vertical.problem import (
    PartyCounters,
    PartyProblem,
    ProcessCounters,
    UpdateRule,
)
from fedatlas.federations.vertical.secure_sum import PrivateMasks, place_in, two_trees
from fedatlas.federations.vertical.shards import PartyRows, read_party_shards
from fedatlas.schema.network_model import NetworkModel, RealMasks, RingMasks
from fedatlas.schema.objectives import LinearObjective
from fedatlas.schema.partitions import VerticalPartition
from fedatlas.training.loop import train
from fedatlas.training.seeds import SeedPolicy
from prepared_files import make_samples, shard
from resuming import files_of
from small_federations import share_out, specification

ROWS, FEATURES, PARTIES, ACTIVE = 48, 10, 4, 2
PARTITION = VerticalPartition(parties=PARTIES, active=ACTIVE, seed=0)
WEIGHT = 0.05
FRAMING = 4  # bytes of a length, by sockets


class Federation:
    """Processes on small data, the data themselves, and fresh networks on them."""

    def __init__(self, folder: Path) -> None:
        self.files = shard(folder, make_samples(ROWS, FEATURES, density=0.9), PARTITION)
        self.data = read_party_shards(self.files)
        self.group = PartyGroup(self.files)
        self.minimise("logistic_l2", WEIGHT)

    def minimise(self, name: str, weight: float | None = None) -> None:
        self.objective = LinearObjective(name=name, weight=weight)
        self.problem = PartyProblem(self.data, self.objective)
        self.group.set_up(self.objective, None)

    def processes(self, active: int) -> ProcessNetwork:
        rows = self.data.train
        return ProcessNetwork(self.group, rows.starts, active, ROWS, ProcessCounters())

    def simulated(self, active: int) -> PartyNetwork:
        model, counters = NetworkModel(), PartyCounters()
        return PartyNetwork(self.data.train, self.objective, active, model, counters, 0)

    def run(self, algorithm, network, rounds):
        """The state after so many rounds of seed 0; two rounds are an epoch."""
        random = RoundRandom(0)
        state = algorithm.start(self.problem, network, np.zeros(FEATURES))
        for number in range(rounds):
            state = algorithm.round(state, self.problem, network, random.at(number))
        return state


@pytest.fixture(scope="module")
def over_sockets():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(TRANSPORT_VARIABLE, "sockets")
        yield


@pytest.fixture(scope="module")
def four(tmp_path_factory, over_sockets):
    federation = Federation(tmp_path_factory.mktemp("four"))
    yield federation
    federation.group.close()


@pytest.fixture
def dense(four):
    four.minimise("logistic_l2", WEIGHT)
    return four


def draws(rounds):
    """What the rounds draw, of seed 0."""
    random = RoundRandom(0)
    return [random.at(number).indices(ROWS, ROWS // 2) for number in range(rounds)]


def pooled(method, data, step, rounds):
    """The paper's method on the pooled columns, on the same draws."""
    X, y, w0 = data.train.features, data.train.label, np.zeros(FEATURES)
    drawn = draws(rounds)
    if method == "svrg":
        orders = [np.concatenate(drawn[k : k + 2]) for k in range(0, rounds, 2)]
        return reference.svrg(X, y, w0, step, orders, "logistic", "l2", WEIGHT)
    order = np.concatenate(drawn)
    return getattr(reference, method)(X, y, w0, step, order, "logistic", "l2", WEIGHT)


METHODS = {"sgd": Vfb2Sgd, "svrg": Vfb2Svrg, "saga": Vfb2Saga}


@pytest.mark.parametrize("method", METHODS)
def test_one_dominator_makes_the_iterates_of_pooled_data(dense, method):
    algorithm = METHODS[method](step_size=0.1, rounds_per_epoch=2)
    network = dense.processes(active=1)
    state = dense.run(algorithm, network, rounds=4)
    expected = pooled(method, dense.data, 0.1, 4)
    np.testing.assert_allclose(state.x, expected, rtol=0, atol=1e-12)
    simulated = dense.simulated(active=1)
    same = algorithm.point(dense.run(algorithm, simulated, 4), simulated)
    # The simulated network stops at its last sum, with the last updates under way.
    assert np.abs(state.x - same).max() < 0.2


@pytest.mark.parametrize("method", ["sgd", "svrg"])
def test_synchronous_dominators_make_the_iterates_of_the_simulation(four, method):
    four.minimise("robust_regression")
    # Without a regulariser the order of the updates between two barriers does not matter.
    algorithm = METHODS[method](step_size=0.05, rounds_per_epoch=2, synchronous=True)
    real = four.run(algorithm, four.processes(ACTIVE), 4)
    network = four.simulated(ACTIVE)
    state = network.barrier(four.run(algorithm, network, 4), algorithm.rule)
    np.testing.assert_allclose(real.x, state.x, rtol=0, atol=1e-12)


def test_asynchronous_dominators_reach_the_optimum_and_read_stale_blocks(dense):
    algorithm = Vfb2Svrg(step_size=0.2, rounds_per_epoch=2)
    network = dense.processes(ACTIVE)
    state = dense.run(algorithm, network, rounds=40)
    features, label = dense.data.train.features, dense.data.train.label

    def value(w):
        return reference.objective(features, label, w, "logistic", "l2", WEIGHT)

    def slope(w):
        return reference.gradient(features, label, w, "logistic", "l2", WEIGHT)

    best = optimize.minimize(value, np.zeros(FEATURES), jac=slope, tol=1e-12)
    assert value(state.x) - best.fun < 1e-6
    counters = network._counters
    assert counters.elapsed_time > 0
    assert counters.tau_1 >= counters.read_delay_max > 0
    assert counters.block_updates == PARTIES * counters.iteration == PARTIES * 20 * ROWS


def test_updates_that_are_not_sent_leave_passive_blocks_alone(dense):
    network = dense.processes(ACTIVE)
    state = dense.run(AfsvrgVp(step_size=0.1, rounds_per_epoch=2), network, 2)
    passive = dense.data.train.starts[ACTIVE]
    assert np.abs(state.x[:passive]).min() > 0
    assert not state.x[passive:].any()
    assert network._counters.block_updates == ROWS


@pytest.mark.parametrize("backward", [True, False])
def test_bytes_at_the_sockets_are_those_of_the_formulas(dense, backward):
    network = dense.processes(ACTIVE)
    method = Vfb2Svrg if backward else AfsvrgVp
    dense.run(method(step_size=0.1, rounds_per_epoch=2), network, 2)
    counters, traffic = network._counters, network.traffic
    others = PARTIES - 1
    assert traffic["numbers_up"] == counters.bytes_up == 8 * 2 * others * (ROWS + ROWS)
    down = 16 * others * ROWS + 8 * others * ROWS if backward else 8 * (ACTIVE - 1) * ROWS
    assert traffic["numbers_down"] == counters.bytes_down == down
    requests = others * ROWS
    assert traffic["socket_messages"] == counters.messages + requests
    framing = (HEADER_BYTES + FRAMING) * traffic["socket_messages"]
    whole = traffic["numbers_up"] + traffic["numbers_down"] + 8 * requests + framing
    assert counters.socket_bytes == traffic["socket_bytes"] == whole


def test_any_state_can_be_gone_on_from(dense):
    algorithm = Vfb2Saga(step_size=0.1, rounds_per_epoch=2)
    network, random = dense.processes(active=1), RoundRandom(0)
    middle = dense.run(algorithm, network, 2)
    dense.run(Vfb2Sgd(step_size=0.3), dense.processes(active=1), 1)  # others come between
    end = middle
    for number in (2, 3):
        end = algorithm.round(end, dense.problem, network, random.at(number))
    expected = pooled("saga", dense.data, 0.1, 4)
    np.testing.assert_allclose(end.x, expected, rtol=0, atol=1e-12)


def held(process: int, patterns: list[bytes]) -> list[bool]:
    """Which of these bytes a process has in memory that it can write to, in pages that are there.

    Most of what a process has reserved was never touched; to read that would take minutes.
    """
    page, found = os.sysconf("SC_PAGE_SIZE"), [False] * len(patterns)
    folder = Path(f"/proc/{process}")
    with (folder / "mem").open("rb", 0) as memory, (folder / "pagemap").open("rb", 0) as pages:
        for line in (folder / "maps").read_text().splitlines():
            where, rights, *_ = line.split()
            if "w" not in rights:
                continue
            start, end = (int(place, 16) for place in where.split("-"))
            pages.seek(start // page * 8)
            there = np.frombuffer(pages.read((end - start) // page * 8), np.uint64)
            edges = np.diff(np.concatenate([[0], (there >> np.uint64(63)).astype(int), [0]]))
            runs = zip(np.flatnonzero(edges > 0), np.flatnonzero(edges < 0), strict=True)
            for first, last in runs:
                memory.seek(start + int(first) * page)
                content = memory.read(int(last - first) * page)
                found = [had or one in content for had, one in zip(found, patterns, strict=True)]
    return found


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs Linux's /proc")
def test_a_process_has_its_own_columns_only(dense):
    rows = dense.data.train
    for party, process in enumerate(dense.group.pids):
        told = Path(f"/proc/{process}/cmdline").read_text().split("\0")
        assert [word for word in told if ".parquet" in word] == [str(dense.files[party])]
        opened = [str(entry.readlink()) for entry in Path(f"/proc/{process}/fd").iterdir()]
        mapped = Path(f"/proc/{process}/maps").read_text()
        patterns = []
        for other, file in enumerate(map(str, dense.files)):
            assert file not in mapped and (other == party or file not in opened)
            # Two neighbouring numbers of a row, which no other block has.
            block = slice(*rows.starts[other : other + 2])
            pairs = [row[block][:2].tobytes() for row in rows.features if row[block][:2].all()]
            patterns.append(pairs[0])
        *blocks, labels = held(process, [*patterns, rows.label.tobytes()])
        assert blocks == [other == party for other in range(PARTIES)]
        assert labels == (party < ACTIVE)


def test_mpi_is_asked_for_by_name_and_missed_by_name(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert carrier_of({}) == "sockets"
    with pytest.raises(FedatlasError, match=r"no mpirun \(package openmpi-bin\)"):
        carrier_of({TRANSPORT_VARIABLE: "mpi"})
    with pytest.raises(FedatlasError, match="must be auto, mpi or sockets"):
        carrier_of({TRANSPORT_VARIABLE: "pigeons"})


LACKING = [
    name
    for name, there in (
        ("mpirun", shutil.which("mpirun")),
        ("mpi4py", importlib.util.find_spec("mpi4py")),
    )
    if not there
]


@pytest.mark.skipif(bool(LACKING), reason=f"there is no {' and no '.join(LACKING)}")
def test_the_same_by_mpi(dense, monkeypatch):
    monkeypatch.setenv(TRANSPORT_VARIABLE, "mpi")
    group = PartyGroup(dense.files)
    group.set_up(dense.objective, None)
    assert group.carrier == "mpi"
    network = ProcessNetwork(group, dense.data.train.starts, 1, ROWS, ProcessCounters())
    state = dense.run(Vfb2Svrg(step_size=0.1, rounds_per_epoch=2), network, 2)
    expected = pooled("svrg", dense.data, 0.1, 2)
    np.testing.assert_allclose(state.x, expected, rtol=0, atol=1e-12)
    group.close()


def children():
    """Processes of parties that this one has started and that still run."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                told = (entry / "cmdline").read_text()
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            if "federations.parties.process" in told and parent == os.getpid():
                found.append(int(entry.name))
    return found


def test_a_killed_party_ends_the_run_which_resumes(tmp_path, over_sockets, caplog):
    before = set(children())
    partition = VerticalPartition(parties=2, active=1)
    label = np.where(np.arange(ROWS) % 3, 1.0, -1.0)
    features = np.random.default_rng(0).normal(size=(ROWS, 4))
    shards = share_out(tmp_path, partition, Samples(np.arange(ROWS), label, features), seeds=[3])
    spec = specification(
        "vfb2_svrg",
        partition=partition,
        backend="processes",
        network=NetworkModel(seconds_per_feature=5e-4, latency=1e-4),
        objective={"name": "logistic_l2", "weight": 0.1},
        hyper_parameters={"step_size": 0.1, "rounds_per_epoch": 4},
        rounds=12,
        record_every=3,
        seeds=(3,),
    )
    policy = SeedPolicy(tmp_path / "seeds", every_seconds=-1.0)
    killed: list[int] = []
    until = time.monotonic() + 60

    def kill_soon():
        while not files_of(policy) and time.monotonic() < until:
            time.sleep(0.01)
        killed.extend(sorted(set(children()) - before))
        os.kill(killed[1], signal.SIGKILL)

    killer = threading.Thread(target=kill_soon)
    killer.start()
    with pytest.raises(FedatlasError, match=r"party 1 \(process \d+\) was ended by SIGKILL.*resu"):
        train(spec, shards, tmp_path / "trace.nc", seeds=policy)
    killer.join()
    assert not set(children()) - before
    caplog.set_level("INFO")
    trace = train(spec, shards, tmp_path / "trace.nc", seeds=policy)
    assert "resuming seed 3 after round" in caplog.text
    assert list(trace["iteration"][0].to_numpy()) == [0, 36, 72, 108, 144]
    assert (np.diff(trace["elapsed_time"][0]) > 0).all()
    assert trace["objective"][0, -1] < trace["objective"][0, 0]
    assert trace["status"].item() == "ok"


@pytest.mark.parametrize("name", ["logistic_l2", "logistic_nonconvex"])
@pytest.mark.parametrize("kind", ["none", "snapshot", "table"])
def test_a_sparse_block_is_updated_as_a_dense_one(name, kind):
    objective = LinearObjective(name=name, weight=0.1)
    features = make_samples(30, 6, density=0.3).features
    label, starts = np.where(np.arange(30) % 2, 1.0, -1.0), np.array([0, 6])
    rule, order = UpdateRule(0.2, kind), np.random.default_rng(0).integers(0, 30, 200)
    blocks = []
    for stored in (features, csr_array(features)):
        block = OwnBlock(PartyRows(stored, label, starts), objective)
        block.follow(rule)
        if kind != "none":
            block.refer_to(block.slopes(block.shares()))
        for row in order:
            block.update(row, block.slope(row, block.share(row)))
        blocks.append(block.state)
    np.testing.assert_allclose(blocks[0].w, blocks[1].w, rtol=0, atol=1e-12)
    assert blocks[0].applied == blocks[1].applied == 200


class Wire(Transport):
    """Messages between parties in this process, all of which are kept."""

    def __init__(self, party, boxes, kept):
        super().__init__()
        self.party, self.boxes, self.kept = party, boxes, kept

    def _hand_over(self, party, message):
        self.kept.append((self.party, party, message))
        self.boxes[party].append((self.party, message))
        return len(message)

    def receive(self):
        return self.boxes[self.party].popleft() if self.boxes[self.party] else None

    def wait(self, seconds, control):
        pass


class Spied(OwnBlock):
    """A block that keeps its shares."""

    def share(self, row):
        self.told = [*getattr(self, "told", []), super().share(row)]
        return self.told[-1]


def in_one_process(parties, active, rule, samples, law=None):
    """What was sent, and the blocks: parties' protocol without processes."""
    random = np.random.default_rng(1)
    objective = LinearObjective(name="logistic_l2", weight=0.1)
    label = random.choice([1.0, -1.0], 20)
    boxes, kept, asked = [deque() for _ in range(parties)], [], []
    found = []
    for number in range(parties):
        rows = PartyRows(random.normal(size=(20, 2)), label, np.array([0, 2]))
        block = Spied(rows, objective)
        block.load(BlockState(random.normal(size=2), np.zeros(2), np.zeros(0), 0))
        times = InjectedTimes(None, 2.0, number, parties, active)
        wire = Wire(number, boxes, kept)
        masks = PrivateMasks(law or RealMasks(), parties)
        found.append(Party(number, parties, active, block, wire, times, masks, asked.append))
    for party in found:
        party.begin_round(rule, samples)
    for number in range(active):
        found[number].give(list(range(number, samples, active)))
        found[number].give([])
    for _ in range(100 * samples):
        if asked.count("done") == active and not any(boxes):
            break
        for party, box in zip(found, boxes, strict=True):
            party.run_planned()
            while box:
                party.handle(*box.popleft())
    assert asked.count("done") == active, "a dominator waits for ever"
    for party in found:
        party.settle()
        assert party.report()
    return kept, [party.block for party in found]


@pytest.mark.parametrize("synchronous", [False, True])
@pytest.mark.parametrize(("parties", "active"), [(2, 1), (3, 2), (4, 2), (8, 3)])
def test_no_share_leaves_a_party_without_its_mask(parties, active, synchronous):
    rule = UpdateRule(0.1, synchronous=synchronous)
    samples = 13  # of several dominators, the first makes one update more
    kept, blocks = in_one_process(parties, active, rule, samples)
    shares = {struct.pack("<d", share) for block in blocks for share in block.told}
    assert len(shares) == samples * parties
    assert not any(share in message for share in shares for _, _, message in kept)
    numbers = {}
    for sender, _, message in kept:
        kind, dominator, iteration, _ = messages.header_of(message)
        if kind in messages.SUMMED:
            key = dominator, iteration, sender
            numbers.setdefault(key, {})[kind] = messages.numbers_of(message)[0]
    assert len(numbers) == samples * (parties - 1)
    leaves = 0
    for (dominator, _, sender), sent in numbers.items():
        assert set(sent) == set(messages.SUMMED)
        trees = [place_in(tree.steps, sender) for tree in two_trees(parties, dominator)]
        if not any(place.children for place in trees):  # a leaf of both: a share and its mask
            share = sent[messages.MASKED] - sent[messages.MASK]
            told = np.array(blocks[sender].told)
            assert np.abs(told - share).min() < 1e-12 and 0 < abs(sent[messages.MASK]) <= 1
            leaves += 1
    assert leaves or parties > 2


@pytest.mark.parametrize("active", [1, 2])
def test_masks_in_a_ring_give_the_same_blocks_but_for_rounding(active):
    rule = UpdateRule(0.1, synchronous=True)
    _, real = in_one_process(4, active, rule, 12)
    kept, ring = in_one_process(4, active, rule, 12, RingMasks(kind="ring", fraction_bits=40))
    for one, other in zip(real, ring, strict=True):
        assert 0 < np.abs(one.state.w - other.state.w).max() < 12 * 4 * 2.0**-41
    # Masked shares are spread over the whole ring, far beyond the shares.
    sent = [
        int(messages.numbers_of(message, np.uint64)[0])
        for _, _, message in kept
        if messages.header_of(message).kind == messages.MASKED
    ]
    assert min(sent) < 2**63 < max(sent) and len(set(sent)) == len(sent)


def test_a_share_that_does_not_fit_into_the_ring_is_refused():
    masks = PrivateMasks(RingMasks(kind="ring", fraction_bits=52), 8)
    with pytest.raises(FedatlasError, match="does not fit into the ring"):
        masks.hide(np.array([1e4]))


def test_masks_are_uniform_and_never_the_same():
    law, nothing = RealMasks(scale=2.0), np.zeros(5000)
    drawn = np.concatenate([PrivateMasks(law, 4).hide(nothing)[1] for _ in range(2)])
    assert len(np.unique(drawn)) == 10000 and np.abs(drawn).max() <= 2
    assert stats.kstest(drawn, stats.uniform(-2, 4).cdf).pvalue > 1e-6


def test_injected_times_are_those_of_the_simulation():
    model = NetworkModel(seconds_per_feature=2.0, latency=3.0, straggler=1.5)
    last = InjectedTimes(model, 5.0, party=3, parties=4, active=2)
    assert (last.work(), last.latency) == (15.0, 3.0)
    assert InjectedTimes(model, 5.0, 2, 4, 2).whole_pass(8) == 10.0 * 8 / 2
    none = InjectedTimes(None, 5.0, 0, 4, 2)
    assert not any((none.work(), none.latency, none.whole_pass(9)))
    law = {"kind": "measured", "times": [1.0, 3.0]}
    varied = InjectedTimes(NetworkModel(seconds_per_feature=2.0, compute=law), 1.0, 0, 4, 2)
    assert {varied.work() for _ in range(40)} == {1, 3}
    with pytest.raises(FedatlasError, match="drift and cores are simulated only"):
        InjectedTimes(NetworkModel(cores=2), 1.0, 0, 4, 2)


def test_staleness_is_counted_in_the_order_of_time():
    # Party 0 decides (0, 0) at 1 and (0, 1) at 4; party 1, passive, applies them at 5 and 6.
    none = {name: np.zeros(0) for name in TIMED}
    own = RoundLog(
        np.array([[0, 0, 0], [0, 1, 1]]),
        np.array([[0, 0, 2.0, 0], [0, 1, 5.0, 0]]),
        np.array([[0, 1.0], [1, 4.0]]),
        none,
    )
    passive = RoundLog(
        np.array([[0, 0, 7], [0, 1, 7]]),
        np.array([[0, 0, 5.0, 0], [0, 1, 6.0, 1]]),
        np.zeros((0, 2)),
        none,
    )
    found = staleness([own, passive], [0, 7], backward=True)
    # The second read of party 1 lacked the first update, which began only after the second sum.
    assert found.read_delays.tolist() == [0, 0, 0, 1]
    assert found.update_delays.tolist() == [0, 0, 0, 1]
    assert found.tau_1.tolist() == [0, 0]
    # Global iterations by time: sums at 1 and 4, collaborative updates at 5 and 6.
    assert found.tau_2.tolist() == [2, 2]
    # Had the first of these begun at 3, behind the read, the second sum would have lacked it.
    passive.applications[0, 2] = 3.0
    assert staleness([own, passive], [0, 7], backward=True).tau_1.tolist() == [0, 1]
