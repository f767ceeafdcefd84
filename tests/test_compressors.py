"""Compressors: their laws, exactly; their bits, by messages that are packed and read again."""

from itertools import combinations
from math import ceil, log2

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from experiment_files import config_folder
from fedatlas.algorithms import build_algorithm
from fedatlas.arithmetic.client_rows import ChunkedRows
from fedatlas.arithmetic.randomness import Draws, RoundRandom
from fedatlas.code import code_digest
from fedatlas.compressors import Compressor
from fedatlas.compressors.natural import Natural
from fedatlas.compressors.quantised import Quantised
from fedatlas.compressors.rand_k import RandK
from fedatlas.compressors.sign import Sign
from fedatlas.compressors.top_k import TopK
from fedatlas.errors import FedatlasError
from fedatlas.federations.decentralised.graph import GraphCounters, GraphNetwork
from fedatlas.federations.parts import Counters, StarNetwork
from fedatlas.federations.tiered.hubs import (
    SharedMinibatch,
    SiloModels,
    TieredCounters,
    TieredNetwork,
)
from fedatlas.plan.build import build_plan
from fedatlas.schema.models import Model, validated
from fedatlas.training.rehearsal import rehearse_without_data
from outside_project import open_project, whole_files
from small_federations import small

EVERY = {
    "top_k": TopK(k=3),
    "top_k, all": TopK(share=1),
    "top_k, many": TopK(share=0.4),
    "rand_k": RandK(share=0.02),
    "natural": Natural(),
    "quantised": Quantised(levels=1),
    "quantised, fine": Quantised(levels=100),
    "sign": Sign(),
}
every_compressor = pytest.mark.parametrize("name", EVERY)


class Given(RoundRandom):
    """Hands out one array of uniform numbers."""

    def __init__(self, uniform):
        super().__init__(0)
        self._uniform = np.asarray(uniform)

    def uniform(self, *shape):
        return np.broadcast_to(self._uniform, shape)


# ------------------------------------------------------------------- messages that are packed


def bits_of(values):
    """The bits of these numbers as they are stored, most significant first."""
    return np.unpackbits(np.ascontiguousarray(values[..., None]).view(np.uint8)[..., ::-1])


def number_of(bits, kind):
    """The numbers that were stored so."""
    size = np.dtype(kind).itemsize
    return np.packbits(bits).reshape(-1, size)[:, ::-1].copy().view(kind).ravel()


def whole_number(value, width):
    return np.array([value >> place & 1 for place in reversed(range(width))], np.uint8)


def read_whole_number(bits):
    return int("".join(map(str, bits)), 2) if len(bits) else 0


def packed_sparse(method, x, message):
    """k entries and where they stand."""
    d, k = len(x), method.kept(len(x))
    places, width = np.sort(np.argsort(-abs(message), kind="stable")[:k]), ceil(log2(d))
    told = [bits_of(message[places])]
    as_list = k * width < d
    if k < d:
        among = np.isin(np.arange(d), places).astype(np.uint8)
        told += [whole_number(int(place), width) for place in places] if as_list else [among]
    bits = np.concatenate(told)
    # Read again.
    values, rest = np.split(bits, [k * 8 * x.itemsize])
    found, read = np.zeros_like(x), np.arange(d)
    if k < d:
        cut = rest.reshape(-1, width) if as_list else np.flatnonzero(rest)
        read = np.array([read_whole_number(own) for own in cut]) if as_list else cut
    found[read] = number_of(values, x.dtype)
    return bits, found


def packed_natural(method, x, message):
    """Signs and exponents."""
    size = x.itemsize
    kept = 9 if size == 4 else 12
    bits = bits_of(message).reshape(-1, 8 * size)[:, :kept]
    found = np.zeros((len(x), 8 * size), np.uint8)
    found[:, :kept] = bits
    return bits.ravel(), number_of(found, x.dtype)


def packed_levels(method, x, message):
    """The norm, and levels in Elias's gamma code with signs."""
    norm = np.linalg.norm(x)
    told = [bits_of(norm.reshape(1))]
    for level, entry in zip(np.rint(abs(message) / norm * method.levels), message, strict=True):
        code = whole_number(int(level) + 1, int(level + 1).bit_length())
        told += [np.zeros(len(code) - 1, np.uint8), code]
        told += [np.array([entry < 0], np.uint8)] if level else []
    bits = np.concatenate(told)
    read, at = [], 8 * x.itemsize
    for _ in x:
        zeros = int(np.argmax(bits[at:]))
        level = read_whole_number(bits[at + zeros : at + 2 * zeros + 1]) - 1
        at += 2 * zeros + 1
        sign = 1
        if level:
            sign, at = 1 - 2 * int(bits[at]), at + 1
        read.append(sign * level)
    assert at == len(bits)
    return bits, np.array(read, x.dtype) * (norm / method.levels)


def packed_signs(method, x, message):
    """A number and a bit for each entry."""
    bits = np.concatenate([bits_of(abs(message[:1])), (message < 0).astype(np.uint8)])
    size, signs = np.split(bits, [8 * x.itemsize])
    return bits, np.where(signs, -1, 1).astype(x.dtype) * number_of(size, x.dtype)


PACKED = {TopK: packed_sparse, RandK: packed_sparse, Natural: packed_natural}
PACKED |= {Quantised: packed_levels, Sign: packed_signs}


@every_compressor
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bits_are_those_of_a_packed_message_from_which_the_rows_are_read(name, dtype):
    method = EVERY[name]
    rows = np.random.default_rng(2).standard_normal((2, 1000)).astype(dtype)
    rows[1, 5:300] = 0
    sent, bits = method(rows, RoundRandom(0))
    assert sent.dtype == dtype
    for x, message, told in zip(rows, sent, np.broadcast_to(bits, 2), strict=True):
        packed, found = PACKED[type(method)](method, x, message)
        np.testing.assert_allclose(found, message, rtol=4e-7 if dtype == np.float32 else 1e-15)
        assert len(packed) == told
        # What clocks are told is no less, and exact of rows that are equally long.
        expected = method.part_sent(1000, x.itemsize) * 8 * x.nbytes
        assert told <= expected and (isinstance(method, Quantised) or told == expected)
        assert len(np.packbits(packed)) * 8 == pytest.approx(told, rel=0.01, abs=7)


# -------------------------------------------------------------------------------------- laws

vectors = st.integers(1, 6).flatmap(
    lambda d: arrays(
        np.float64, d, elements=st.floats(-1e6, 1e6).filter(lambda x: x == 0 or abs(x) > 1e-6)
    )
)
few = settings(max_examples=40, deadline=None)


def error(found, x):
    return float(((found - x) ** 2).sum())


@few
@given(vectors, st.integers(1, 7))
def test_biased_ones_contract_every_vector(x, k):
    k, norm = min(k, len(x)), error(0, x)
    for method in (TopK(k=k), Sign()):
        (found,), _ = method(x[None], RoundRandom(0))
        allowed = (1 - method.contraction(len(x))) * norm
        assert error(found, x) <= allowed + 1e-9 * norm
        assert 0 < method.contraction(len(x)) <= 1
    (found,), _ = TopK(k=k)(x[None], RoundRandom(0))
    assert error(found, x) == pytest.approx(np.sort(x**2)[: len(x) - k].sum())
    (found,), _ = Sign()(x[None], RoundRandom(0))
    assert error(found, x) == pytest.approx(norm - abs(x).sum() ** 2 / len(x), abs=1e-9 * norm)


@few
@given(vectors, st.integers(1, 6))
def test_rand_k_is_unbiased_over_all_choices(x, k):
    d, method = len(x), RandK(k=min(k, len(x)))
    choices = [np.isin(np.arange(d), chosen) for chosen in combinations(range(d), method.k)]
    found = [method(x[None], Given(0.5 * own[None]))[0][0] for own in choices]
    norm = error(0, x)
    np.testing.assert_allclose(np.mean(found, axis=0), x, rtol=1e-12, atol=1e-12 * norm**0.5)
    mean_error = np.mean([error(own, x) for own in found])
    assert mean_error == pytest.approx(method.variance(d) * norm, abs=1e-9 * norm)


@few
@given(vectors, st.sampled_from([Natural(), Quantised(levels=1), Quantised(levels=3)]))
def test_an_entry_takes_either_value_next_to_it_with_the_chances_that_keep_its_mean(x, method):
    """Two values for each entry, the upper below one threshold: the expectation is exact."""

    def at(uniform):
        (found,), _ = method(x[None], Given(uniform))
        return np.abs(found)

    size, norm = np.abs(x), error(0, x)
    upper, lower = at(0.0), at(1 - 2**-53)
    apart = upper - lower
    chance = np.where(apart > 0, (size - lower) / np.where(apart > 0, apart, 1), 0)
    assert (chance >= -1e-9).all() and (chance <= 1 + 1e-9).all()
    np.testing.assert_array_equal(at((chance * (1 - 1e-6) - 1e-9).clip(0)), upper)
    np.testing.assert_array_equal(at(chance * (1 + 1e-6) + 1e-9), lower)
    spread = (chance * (1 - chance) * apart**2).sum()
    assert spread <= (method.variance(len(x)) + 1e-9) * norm
    (found,), _ = method(x[None], RoundRandom(1))
    assert (found * x >= 0).all()


@every_compressor
def test_rows_are_compressed_by_themselves_and_on_every_device_alike(name):
    method = EVERY[name]
    rows = np.random.default_rng(3).standard_normal((4, 60))
    found, bits = method(rows, RoundRandom(5).at(2))
    again = torch.from_numpy(rows)
    there, as_many = method(again, RoundRandom(5).at(2))
    np.testing.assert_allclose(there.numpy(), found, rtol=1e-14)
    np.testing.assert_array_equal(as_many, bits)
    uniform = np.random.default_rng(1).random(rows.shape)
    together = method(rows, Given(uniform))[0]
    for own, drawn, compressed in zip(rows, uniform, together, strict=True):
        np.testing.assert_array_equal(method(own[None], Given(drawn))[0][0], compressed)
    lazy = ChunkedRows(rows.shape, 3, lambda chunk: rows[chunk].copy(), 8)
    np.testing.assert_array_equal(method(lazy, RoundRandom(5).at(2))[0], found)
    single, _ = method(again.float(), RoundRandom(5))
    assert single.dtype == torch.float32 and torch.isfinite(single).all()
    scale = method.contraction(60) if method.unbiased else 1.0
    np.testing.assert_array_equal(method.contracted(rows, RoundRandom(5).at(2))[0], scale * found)
    zeros, _ = method(0 * rows, RoundRandom(0))
    assert not zeros.any()


def test_laws_are_those_of_the_papers():
    assert TopK(k=3).contraction(12) == 0.25
    assert RandK(k=3).variance(12) == 3 and RandK(k=3).contraction(12) == 0.25
    assert Natural().variance(9) == 0.125
    assert Quantised(levels=2).variance(4) == 1 and Quantised(levels=1).variance(100) == 10
    with pytest.raises(TypeError, match="TopK is biased"):
        TopK(k=3).variance(12)


# ------------------------------------------------------------------------- what is counted


def test_messages_around_a_server_weigh_what_is_stated():
    counters = Counters()
    network, rows = StarNetwork(4, counters), np.ones((3, 10))
    network.gather(rows, bits=100)
    network.gather(rows, rows[:, :1], bits=np.array([8, 0, 20]))
    assert (counters.bytes_up, counters.bytes_down) == (300 / 8 + 28 / 8, 0)
    network.broadcast(rows[0], to=range(4), bits=30)
    network.broadcast(rows[0], to=range(2), bits=np.array([1, 2]))
    assert counters.bytes_down == 120 / 8 + 3 / 8
    assert counters.sequential_bytes == counters.bytes_up + counters.bytes_down
    assert (counters.messages, counters.full_participations) == (12, 1)


def test_messages_of_agents_weigh_what_is_stated():
    weights = np.array([[0, 0.5, 2.0], [0, 0, 1.0], [0, 0.1, 0]])  # to 0 from 1 and 2, …
    counters = GraphCounters()
    network = GraphNetwork(weights, None, np.array, Draws(), counters)
    network.states.send(np.ones((3, 4)), bits=np.array([800, 8, 80]))
    assert counters.bytes_sent == 2 * 1 + 2 * 10  # agent 0 has nobody to send to
    # Agent 2 sends twice and hears once.
    assert counters.sequential_bytes == 2 * 10 + 1


def test_messages_of_silos_weigh_what_is_stated():
    counters = TieredCounters()
    network, batch = TieredNetwork((2, 3), counters), SharedMinibatch(2, ())
    models = SiloModels((np.ones(4), np.ones(5)), (np.ones(0), np.ones(0)))
    network.send_models(models, batch, bits=[80, 160])
    assert counters.bytes_down == 2 * (10 + 16) + 3 * (20 + 16)
    assert counters.sequential_bytes == 3 * 36
    rows = (np.ones((2, 4)), np.ones((3, 5)))
    network.collect_models(SiloModels(rows, models.statistics), bits=[8, np.array([8, 16, 24])])
    assert counters.bytes_up == 2 + 6


# ---------------------------------------------------------------------- named in experiments


class Holder(Model):
    compressor: Compressor


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"kind": "top_k"}, "say how many entries are sent, by one of 'k' and 'share'"),
        ({"kind": "top_k", "k": 2, "share": 0.1}, "by one of 'k' and 'share'"),
        ({"kind": "rand_k", "share": 2}, "key 'compressor.share', value 2: must be less than"),
        ({"kind": "topk"}, "kind 'topk': must be one of natural, quantised, rand_k, sign, top_k"),
        ({"kind": "quantised", "level": 2}, "unknown key 'compressor.level'"),
    ],
)
def test_a_mistaken_compressor_is_refused(declared, message):
    with pytest.raises(FedatlasError, match=message):
        validated(Holder, {"compressor": declared}, "run")


PAGE = whole_files("adding/compressors")


def test_a_project_has_compressors_of_its_own(tmp_path, monkeypatch):
    """That of the page; an edit trains runs anew that name it, and no others."""
    hyper = {"compressor": {"kind": "ternary"}}
    with pytest.raises(FedatlasError, match="kind 'ternary'"):
        validated(Holder, hyper, "run")
    open_project(tmp_path / "lab", PAGE, monkeypatch)
    method = validated(Holder, hyper, "run").compressor
    x, uniform = np.array([3.0, -1.0, 0.0]), np.array([0.5, 0.4, 0.0])
    (found,), bits = method(x[None], Given(uniform))
    np.testing.assert_array_equal(found, [3, 0, 0])
    assert bits == 3 * log2(3) + 64
    # The vector for which ω is tight: ω‖x‖² = ‖x‖₁ max|x| − ‖x‖².
    x = np.array([1, *[1 / (9**0.5 + 1)] * 8])
    assert x.sum() - x @ x == pytest.approx(method.variance(9) * (x @ x))
    own, other = small("diana", hyper), small("diana")
    assert "fedatlas.compressors.ternary" in own.code
    assert "fedatlas.compressors.quantised" in other.code
    assert not any(name.endswith(("ternary", "top_k")) for name in other.code)
    assert code_digest(*own.code) != code_digest(*other.code)
    assert rehearse_without_data(own).startswith("diana does what a method promises")
    assert rehearse_without_data(small("choco_sgd", hyper)).startswith("choco_sgd does")


def test_the_pages_experiment_has_a_point_for_every_compressor(tmp_path, monkeypatch):
    lab = open_project(tmp_path / "lab", PAGE, monkeypatch)
    runs = build_plan(config_folder(tmp_path / "config"), lab).runs_of("project-compressed")
    assert [f"{run.run}/{run.point}" for run in runs] == [
        *("descent/only", "ef21/compressor-top_k-1", "ef21/compressor-sign"),
        *("ef21/compressor-natural", "diana/step_size-1.0", "diana/step_size-0.5"),
    ]
    assert runs[1].hyper_parameters["compressor"] == {"kind": "top_k", "k": 1}
    assert build_algorithm(runs[1]).compressor == TopK(kind="top_k", k=1)


# ------------------------------------------------------------------------ laws of one's own

OWN = '''"""x scaled."""
from typing import ClassVar
from fedatlas.compressors import Compressor, uniform

class Own(Compressor):
    unbiased: ClassVar[bool] = {unbiased}
    def compress(self, rows, random):
        return {made}, {bits}
    def {law}(self, dimension):
        return {told}
'''
SOUND = {"unbiased": True, "law": "variance", "told": 0, "made": "rows", "bits": "rows[0].nbytes*8"}
HALF = {"made": "rows * 0.5"}
BIASED = {"unbiased": False, "law": "contraction"}
BY_CHANCE = {"made": "2 * rows * (uniform(rows, random) < 0.5)", "told": 1}
ALL_OR_NOTHING = {"made": "20 * rows * (random.uniform(1) < 0.05)", "told": 19}


def lab_with(tmp_path, monkeypatch, fields):
    files = {"compressors/own.py": OWN.format(**SOUND | fields)}
    open_project(tmp_path / "lab", files, monkeypatch)
    return {"compressor": {"kind": "own"}}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (HALF, r"variance\(8\) = 0, but the mean of \d+ draws is 0.5 ‖x‖ away from x, where up to"),
        (HALF | {"told": 1}, r"contraction\(8\) = 0.5, .* = 0.5 ‖x‖², but that is 0.5625 ‖x‖²"),
        (BY_CHANCE | {"told": 0.5}, r"allows E‖C\(x\) − x‖² = 0.5 ‖x‖², but that is 1 ‖x‖²"),
        (BIASED | HALF | {"told": 0.9}, r"contraction\(8\) = 0.9, which .* = 0.1 ‖x‖².* is 0.25 "),
        (BIASED | {"told": 2}, r"contraction\(8\) is 2: it must be in \(0, 1\]"),
        ({"bits": "8.0"}, "get 8 in full precision .* 8 bits, but no code needs fewer than 243:"),
        (BIASED | HALF | {"told": 0.75, "bits": "8.0"}, "no code needs fewer than 243:"),
        (
            {"bits": "0"},
            r"bits are of shape \(\), the first 0: one positive number, or one for each row",
        ),
        ({"bits": "rows[0]"}, r"bits are of shape \(8,\), the first 0\.126: one positive number"),
        ({"made": "rows + 1"}, r"variance\(8\) = 0, but the mean"),
        ({"made": "rows[:, 1:]"}, "of a finite row of 8 entries it makes what is none"),
        (BIASED | {"told": 1, "made": "rows / rows.max()"}, r"contraction\(8\) = 1, which"),
        ({"made": "rows / (rows != 0)"}, "of a finite row of 8 entries it makes what is none"),
    ],
)
def test_a_compressor_that_does_not_what_it_declares_is_refused(
    fields, message, tmp_path, monkeypatch
):
    hyper = lab_with(tmp_path, monkeypatch, fields)
    with pytest.raises(FedatlasError, match=rf"own\.py: Own: .*{message}"):
        rehearse_without_data(small("choco_sgd", hyper))


@pytest.mark.parametrize(
    "fields",
    [
        {},
        BY_CHANCE,
        ALL_OR_NOTHING,
        HALF | BIASED | {"told": 0.75},
        {"made": "rows.reshape(-1, 48).reshape(rows.shape)"},
    ],
)
def test_a_sound_compressor_is_taken(fields, tmp_path, monkeypatch):
    """Also with random numbers that all rows share, or rows of certain lengths alone."""
    method = validated(Holder, lab_with(tmp_path, monkeypatch, fields), "run").compressor
    assert method.law_holds
    method(np.ones((1, 48)), RoundRandom(0))


@every_compressor
def test_the_law_of_every_compressor_holds(name):
    assert EVERY[name].law_holds
    assert EVERY[name] == type(EVERY[name])(**EVERY[name].model_dump())
