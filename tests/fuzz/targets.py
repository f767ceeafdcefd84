"""What reads files from outside, each with small valid files to start from.

A target is made in a folder of its own and returns the function that runs one case: it writes a
mutated file and reads it. A case may end with a value or a FedatlasError; all else is a fault.
"""

import bz2
import csv
import gzip
import io
import json
import lzma
import shutil
import struct
import tarfile
import zipfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from catalogue_entry import COLUMNS, tiny, tiny_images
from fedatlas.data.catalogue import load_catalogue
from fedatlas.data.datasets import Dataset
from fedatlas.data.download import decompress_file, unpack_archive
from fedatlas.data.formats import read_raw
from fedatlas.data.formats.clinical import CHANNELS
from fedatlas.data.raw_files import verify
from fedatlas.evaluation.tables import PairRow, read_attacks
from fedatlas.evaluation.verdicts import Verdict, read_verdicts, verdicts_to_csv
from fedatlas.schema.claims import Effect
from fedatlas.schema.experiment_files import load_experiments
from fedatlas.schema.runs import read_optimum
from fedatlas.store.netcdf import seal
from fedatlas.training.seeds import read_checkpoint, write_checkpoint
from fuzz.mutations import TOKENS, mutated, with_png_sums, with_tar_sums
from made_archives import special, tar_of, zip_of

Case = Callable[[Random], Any]
CONFIG = Path(__file__).parents[2] / "config"
MIB = 1 << 20


def of_file(
    path: Path,
    seeds: Sequence[bytes],
    read: Callable[[], Any],
    tokens: Sequence[bytes] = (),
    repaired: Callable[[bytes], bytes] = bytes,
) -> Case:
    """Cases that change one file; `repaired` puts its checksums right, in every second case.

    Between cases the file is the first of the seeds.
    """
    path.parent.mkdir(parents=True, exist_ok=True)

    def put(content: bytes) -> None:
        # A file of its own: libraries may still hold that of the last case.
        path.unlink(missing_ok=True)
        path.write_bytes(content)

    def run(random: Random) -> Any:
        content = mutated(random, seeds, (*tokens, *TOKENS))
        put(repaired(content) if random.random() < 0.5 else content)
        try:
            return read()
        finally:
            put(seeds[0])

    put(seeds[0])
    return run


def _either(*cases: Case) -> Case:
    return lambda random: random.choice(cases)(random)


# ------------------------------------------------------------------------------------ text formats


def libsvm(folder: Path) -> Case:
    dataset = tiny(labels={-1: -1, 1: 1})
    seeds = [b"+1 1:0.5 3:1\n-1 2:-1e-3\n1\n", b"-1 1:1 2:2 3:3 # note\r\n+1 3:1\r\n"]
    seeds.append(b"\xef\xbb\xbf1 qid:7 1: .5\n-1 2:\t1\n")
    tokens = [b" 1000000000000000000:1", b" qid:1", b": ", b" \t", b"0:1", b" 1:1", b"4:1", b"+1 "]
    tokens += [b"1:nan", b"# "]
    return of_file(folder / "a", seeds, lambda: _checked(dataset, "train", [folder / "a"]), tokens)


def csv_table(folder: Path) -> Case:
    table = COLUMNS | {"missing": ["NA", "?", -9], "drop_missing": True}
    read_as = [
        tiny(format="csv", csv={**table, **more}, features=7)
        for more in ({}, {"quoting": "none"}, {"decimal": ",", "delimiter": ";"})
    ] + [tiny(format="csv", csv={**table, "encoding": "utf-16"}, features=7)]
    seeds = [
        b"id,y,a,c,n\n7,1,-2.5,z,0\n8,0,1e+05,x,4\n",
        b'n,c,a,y,id\r\n0,"z",-2.5,1,"7,7\n"\r\n4,x,NA,0,8\r\n',
        b"id;y;a;c;n\n1;1;2,5;x;0\n",
        "id,y,a,c,n\n7,1,-9,z,0\n8,0,1,x,4\n".encode("utf-16"),
    ]
    tokens = [b'""', b'"\n"', b",,", b",y", b"NA", b"\xff", b"," * 3000, b'"']
    path = folder / "t.csv"

    def case(dataset: Dataset) -> Case:
        return of_file(path, seeds, lambda: _checked(dataset, "train", [path]), tokens)

    return _either(*map(case, read_as))


def parquet_table(folder: Path) -> Case:
    columns = {"label": "y", "numeric": ["a"], "keep": ["u"], "drop_missing": True}
    dataset = tiny(format="parquet", parquet=columns, features=1)
    table = pa.table({"y": [1, 0, 1], "a": [0.5, None, 3.0], "u": ["x", "y", "x"]})
    seeds = []
    for how in ({}, {"compression": "none", "use_dictionary": False}, {"row_group_size": 1}):
        pq.write_table(table, stream := io.BytesIO(), **how)
        seeds.append(stream.getvalue())
    path = folder / "t.parquet"
    return of_file(path, seeds, lambda: _checked(dataset, "train", [path]), [b"PAR1"])


def mimic3(folder: Path) -> Case:
    raw = {"path": "a.tar.gz", "unpack": "tar", "login": "ask"}
    splits = {"train": {"files": [raw]}}
    dataset = tiny(format="mimic3", features=3648, shape=(48, 76), splits=splits)
    top = folder / "in-hospital-mortality"
    header = ",".join(["Hours", *(channel.name for channel in CHANNELS)])
    fields = [channel.categories[-1] if channel.categories else "7.5" for channel in CHANNELS]
    stay = "\n".join([header, ",".join(["0.5", *fields]), "47.9" + "," * len(fields), ""]).encode()
    listed = b"stay,y_true\n1_a.csv,0\n2_a.csv,1\n"

    def case(name: str, seed: bytes, tokens: Sequence[bytes]) -> Case:
        return of_file(top / name, [seed], lambda: _checked(dataset, "train", [folder]), tokens)

    return _either(
        case("train_listfile.csv", listed, [b"1_a.csv,1\n", b"../x.csv,1\n"]),
        case("train/1_a.csv", stay, [b",", b"48.1"]),
        case("train/2_a.csv", stay, [b",", b"48.1"]),
    )


def _checked(dataset: Dataset, split: str, raw: list[Path]) -> Any:
    """Samples as the type promises them."""
    samples = read_raw(dataset, split, raw)
    values = samples.features.data if samples.is_sparse else samples.features
    assert samples.features.shape == (len(samples), dataset.features)
    assert np.isfinite(samples.label).all() and np.isfinite(values).all()
    return samples


# ------------------------------------------------------------------------------------------ images


def idx(folder: Path) -> Case:
    dataset = tiny_images(2, (1, 2, 3), format="idx")
    images = bytes([0, 0, 8, 3]) + struct.pack(">3I", 3, 2, 3) + bytes(range(18))
    labels = bytes([0, 0, 8, 1]) + struct.pack(">I", 3) + bytes([2, 0, 1])
    wide = bytes([0, 0, 12, 1]) + struct.pack(">4I", 3, 2, 0, 1)
    raw = [folder / "images", folder / "labels"]

    def case(path: Path, seeds: Sequence[bytes]) -> Case:
        return of_file(path, seeds, lambda: _checked(dataset, "train", raw))

    return _either(case(raw[0], [images, labels]), case(raw[1], [labels, images, wide]))


def cifar_records(folder: Path) -> Case:
    path = folder / "batch.bin"

    def case(dataset: Dataset, labels: int) -> Case:
        record = [1] * labels + list(range(12))
        seeds = [bytes(record * n) for n in (1, 4)]
        return of_file(path, seeds, lambda: _checked(dataset, "train", [path]))

    fine = tiny_images(1, (3, 2, 2), cifar_label="fine")
    return _either(case(tiny_images(1, (3, 2, 2)), 1), case(fine, 2))


def cifar_pickle(folder: Path) -> Case:
    dataset = tiny_images(1, (3, 2, 2))
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\nq\x05cnumpy\nndarray\nq\x06K\0\x85U\x01b\x87R"
        b"(K\x01K\x02K\x0c\x86cnumpy\ndtype\nq\x07U\x02u1K\0K\x01\x87R"
        b"(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tb\x89T"
    )
    batch = (
        b"\x80\x02}q\x01(U\x06labelsq\x02]q\x03(K\x01K\x02eU\x04dataq\x04"
        + array + struct.pack("<i", 24) + bytes(range(24)) + b"tbu."
    )  # fmt: skip
    tokens = [b"(", b"]", b"}", b"l", b"d", b"0", b"2", b"R", b"b", b"e", b"u", b".", b"\x87"]
    tokens += [b"cos\nsystem\n", b"cbuiltins\neval\n", b"h\x01", b"q\x01", b"r\xff\xff\xff\x7f"]
    tokens += [b"I" + b"9" * 5000 + b"\n", b"L9L\n", b"\x8b\xff\xff\xff\x7f", b"J\0\0\0\x80"]
    tokens += [b"U\x04touc", b"T\xff\xff\xff\x7f", b"T\xff\xff\xff\xff", b"\x95" + b"\xff" * 8]
    path = folder / "batch"
    return of_file(path, [batch], lambda: _checked(dataset, "train", [path]), tokens)


def jpeg_folder(folder: Path) -> Case:
    from PIL import Image

    raw = {"path": "a.zip", "urls": ["https://example.org/a"], "unpack": "zip"}
    dataset = tiny_images(
        1,
        (3, 2, 4),
        classes=2,
        format="image_folder",
        image_folder={
            "classes": "names.txt",
            "splits": {"train": {"images": "images", "labels": "list.txt"}},
        },
        splits={"train": {"files": [raw]}},
    )
    seeds = []
    for options in ({}, {"progressive": True}, {"optimize": True, "comment": b"hello"}):
        stream = io.BytesIO()
        Image.new("RGB", (4, 2), (9, 80, 200)).save(stream, "JPEG", **options)
        seeds.append(stream.getvalue())
    for mode, kind in (("CMYK", "JPEG"), ("P", "PNG")):
        stream, exif = io.BytesIO(), Image.Exif()
        exif[0x112] = 3  # upside down
        Image.new(mode, (4, 2)).save(stream, kind, exif=exif)
        seeds.append(stream.getvalue())

    def case(name: str, seeds: Sequence[bytes], tokens: Sequence[bytes]) -> Case:
        return of_file(folder / name, seeds, lambda: _checked(dataset, "train", [folder]), tokens)

    names = [b"n1", b"a.JPEG\tn1\n"]
    markers = [bytes([0xFF, kind]) + b"\0\x04ab" for kind in (0xC0, 0xC4, 0xDB, 0xDA, 0xE1, 0xE2)]
    return _either(
        case("names.txt", [b"n1\nn2\n"], names),
        case("list.txt", [b"a.JPEG\tn2\t0\nb.jpg\tn1\n"], names),
        case("images/a.JPEG", seeds, [*markers, b"MPF\0", b"Exif\0\0"]),
        case("images/b.jpg", seeds, [*markers, b"MPF\0", b"Exif\0\0"]),
    )


def png_views(folder: Path) -> Case:
    from PIL import Image, PngImagePlugin

    raw = {"path": "a.tar", "urls": ["https://example.org/a"], "unpack": "tar"}
    dataset = tiny_images(
        1,
        (1, 3, 2, 2),
        classes=2,
        format="image_views",
        image_views={"folder": "top", "classes": ("cup", "jug")},
        splits={"train": {"files": [raw]}},
    )
    seeds = []
    for mode in ("RGB", "L", "P", "RGBA", "1"):
        stream, notes = io.BytesIO(), PngImagePlugin.PngInfo()
        notes.add_text("note", "x" * 50, zip=True)
        Image.linear_gradient("L").resize((4, 4)).convert(mode).save(stream, "PNG", pnginfo=notes)
        seeds.append(stream.getvalue())
    tokens = [b"IHDR", b"IDAT", b"PLTE", b"tRNS", b"iCCP", b"zTXt", b"acTL", b"fdAT", b"eXIf"]

    def case(name: str) -> Case:
        path = folder / "top" / name / "train" / f"{name}_1.obj.shaded_v001.png"
        read = partial(_checked, dataset, "train", [folder])
        return of_file(path, seeds, read, tokens, with_png_sums)

    return _either(case("cup"), case("jug"))


# ---------------------------------------------------------------------------------------- archives


def tar(folder: Path) -> Case:
    entries = ("a", b"1"), ("é" * 60 + "/b", b"2" * 600), special("c", tarfile.DIRTYPE)
    forms = (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT)
    seeds = [tar_of(*entries, form=form)[:8192] for form in forms]
    tokens = [bytes([kind]) for kind in b"0123456789ABDKLMNSVXgx"]
    tokens += [b"../x\0", b"/tmp/x\0", b"ustar\x0000", b"\xff" * 12, b"\x80" + b"\xff" * 11]
    tokens += [b"18 size=-1000000\n", b"30 GNU.sparse.realsize=99999\n", b"19 path=/etc/x\n"]
    packings = [bytes, bytes, gzip.compress, bz2.compress, lambda x: lzma.compress(x, preset=0)]
    return _unpacked(
        folder, "tar", seeds, tokens, with_tar_sums, lambda random: random.choice(packings)
    )


def zip_archive(folder: Path) -> Case:
    entries = ("a", b"1" * 99), ("d/é", b"2" * 600), ("e/", b"")
    seeds = [
        zip_of(*entries, method=method) for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
    ]
    tokens = [b"PK\x01\x02", b"PK\x03\x04", b"PK\x05\x06", b"PK\x06\x06", b"PK\x06\x07"]
    tokens += [b"../x", b"\x0c\0", b"\x0e\0", b"\x08\0", b"\x01\0\x10\0", b"up\x05\0"]
    return _unpacked(folder, "zip", seeds, tokens)


def _unpacked(
    folder: Path,
    kind: str,
    seeds: Sequence[bytes],
    tokens: Sequence[bytes],
    repaired: Callable[[bytes], bytes] = bytes,
    packing: Callable[[Random], Callable[[bytes], bytes]] = lambda random: bytes,
) -> Case:
    source, output = folder / "archive", folder / "below" / "out"
    output.parent.mkdir()

    def run(random: Random) -> Any:
        content = mutated(random, seeds, (*tokens, *TOKENS))
        if random.random() < 0.7:
            content = repaired(content)
        source.write_bytes(packing(random)(content))
        try:
            unpack_archive(source, kind, output, MIB)
            # Only what lies within, only files and folders, and no more than is allowed.
            found = list(output.rglob("*"))
            assert all(path.is_dir() or path.is_file() for path in found)
            assert not any(path.is_symlink() for path in found)
            assert sum(path.stat().st_size for path in found if path.is_file()) <= MIB
        finally:
            left = [path.name for path in folder.iterdir()]
            assert sorted(left) == ["archive", "below"], left
            assert {path.name for path in output.parent.iterdir()} <= {"out"}
            shutil.rmtree(output, ignore_errors=True)

    return run


def compressed(folder: Path) -> Case:
    plain = b"hello " * 300
    seeds = {
        "gz": [gzip.compress(plain), gzip.compress(b"a") + gzip.compress(plain)],
        "bz2": [bz2.compress(plain)],
        "xz": [lzma.compress(plain), lzma.compress(plain, check=lzma.CHECK_NONE)],
    }
    source, output = folder / "packed", folder / "out"

    def run(random: Random) -> Any:
        kind = random.choice(sorted(seeds))
        source.write_bytes(mutated(random, seeds[kind]))
        decompress_file(source, kind, output, MIB)
        assert output.stat().st_size <= MIB

    return run


# --------------------------------------------------------------------------------- YAML, JSON, CSV

YAML_TOKENS = [b"&a ", b"*a", b"<<: *a", b"!!python/object/apply:os.system [x]", b"!!int ''"]
YAML_TOKENS += [b"!!float x", b"!!bool x", b"!!timestamp x", b"!!binary '_'", b"2001-99-99", b"? "]
YAML_TOKENS += [b"- ", b"|\n", b">", b"!", b"%YAML 9.9\n---\n", b"---\n", b"...\n", b"[[a]]: 1\n"]
YAML_TOKENS += [b"!!set {a}", b"!!omap [a: 1]", b"{}", b"[]", b".inf", b".nan", b"190:20:30"]
YAML_TOKENS += [b"{a: &b [*b]}", b"? [a]\n: 1\n", b"[" * 3000, b"- " * 3000, b"x: &a {a: *a}\n"]


def catalogue(folder: Path) -> Case:
    text = (CONFIG / "datasets.yaml").read_text(encoding="utf-8")
    blocks = ["\n" + block for block in text.split("\n\n")[1:]]
    seeds = [block.encode() for block in blocks if "&" not in block and "*" not in block]
    path = folder / "datasets.yaml"
    return of_file(path, seeds, lambda: load_catalogue(path), YAML_TOKENS)


def experiments(folder: Path) -> Case:
    small = [
        b"""paper: ours
title: "A title"
source: "Figure 1"
dataset: breast-cancer
partition: {kind: horizontal, assignment: consecutive, clients: 45, samples: 560, test: 110}
objective: {name: logistic_l2, weight: 1.0e-2}
rounds: 112
record_every: 2
seeds: [0, 1, 2]
runs:
  fedavg: {algorithm: fedavg, hyper_parameters: {local_steps: 10}, grid: {local_step_size: [1, 2]}}
selection: {measurement: objective}
figure: {measurement: objective, costs: [round, "network(latency=0.02, bandwidth=1e7)"]}
"""
    ]
    files = sorted((CONFIG / "experiments" / "demo").glob("*.yaml"), key=lambda x: x.stat().st_size)
    seeds = small * 4 + [file.read_bytes() for file in files[:3]]
    tokens = [b"like: demo-a\n", b"runs_of: demo-a\n", b"only: [x]\n", b"grid: {a: []}", b"[null]"]
    tokens += [b"lists: {q: [1, {}]}\n", b'name: "{q}"\n', b'"{q}"', b"{q.a[q]}", b"over: 3", b"{{"]
    tokens += [b"latency(1e400)", b"network(latency=nan)", b"kind: vertical", b"kind: tiered"]
    path = folder / "demo" / "a.yaml"
    return of_file(path, seeds, lambda: load_experiments(folder), [*tokens, *YAML_TOKENS])


JSON_TOKENS = [b"[" * 3000, b'{"a":' * 3000, b"NaN", b"Infinity", b'"\\ud800"', b"{}", b"[]", b"{"]


def results(folder: Path) -> Case:
    """JSON and CSV files that one step writes and another reads."""
    from fedatlas.data.raw_files import RawFile
    from fedatlas.evaluation.tables import read_surface
    from fedatlas.pages.summary import _read_selection, _read_table

    raw = RawFile(path="a", urls=("https://example.org/a",))
    (folder / "a").write_bytes(b"a")
    optimum = {"gap": 1e-9, "gradient_norm": 0.0, "objective": 0.3, "solver": "newton"}
    surface = {
        "lowest": 0.1, "starts": 3, "lost": 0, "gradient_tolerance": 1e-9,
        "eigenvalue_tolerance": 1e-6, "stationary_points": [], "first": [0.0], "second": [1.0],
        "values": [[0.5]],
    }  # fmt: skip
    selection = {"rule": {}, "runs": {"a": {"selected": "x", "candidates": []}}}
    texts = {"paper": "fmgda", "source": "Fig. 1", "statement": 'it says "x"', "sentence": "f/1"}
    texts |= {"question": "paper"}
    found = Effect(0.1, 0.0, float("inf"), 0.02, "decades", 6, published=0.3, needed=20, p=0.01)
    verdicts = [
        Verdict("a", case, outcome="reproduced", evidence="line\nline", effect=found, **texts)
        for case in ("", "step 1")
    ]
    stream = io.StringIO()
    csv.writer(stream).writerows([PairRow._fields, range(len(PairRow._fields))])
    table = b"run,selected,seeds,diverged_seeds\na,yes,3,0\n"

    def case(name: str, seed: bytes, read: Callable[[Path], Any], tokens: Sequence[bytes]) -> Case:
        return of_file(folder / name, [seed], lambda: read(folder / name), tokens)

    def recorded(lock: Path) -> None:
        verify(raw, folder / "a", "a", lock)

    as_json = {"optimum": (optimum, read_optimum), "surface": (surface, read_surface)}
    as_json |= {"selection": (selection, _read_selection), "lock": ({"b": "sha256:0"}, recorded)}
    cases = [
        case(name, json.dumps(content).encode(), read, JSON_TOKENS)
        for name, (content, read) in as_json.items()
    ]
    rows = [b'"', b"," * 3000, b"a" * 140_000]
    cases.append(case("claims", verdicts_to_csv(verdicts).encode(), read_verdicts, rows))
    cases.append(case("audit", stream.getvalue().encode(), read_attacks, rows))
    cases.append(case("table", table, _read_table, rows))
    return _either(*cases)


# ------------------------------------------------------------------------------ arrays and tables


def checkpoint(folder: Path) -> Case:
    path, identity = folder / "run.npz", {"run": "me"}
    write_checkpoint(
        path, identity, {"round": 3}, {"x": np.arange(6.0).reshape(2, 3), "y": np.array(1)}
    )
    whole = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    tokens = [b"'descr': '|O'", b"'<f8'", b"(1152921504606846976,)", b"'fortran_order': True"]
    tokens += [b"(-1,)", b"'<U99999999'", b"[('a', '<f8')]", b"\x93NUMPY\x03\0", b"(" * 300]

    def of_members(random: Random) -> bytes:
        """Members changed before they are packed, so that their checksums agree."""
        stream = io.BytesIO()
        changed = random.choice(sorted(members))
        method = random.choice((zipfile.ZIP_STORED, zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
        with zipfile.ZipFile(stream, "w", method) as archive:
            for name, content in members.items():
                own = mutated(random, [content], tokens) if name == changed else content
                archive.writestr(name, own)
        return stream.getvalue()

    def run(random: Random) -> Any:
        of_whole = random.random() < 0.5
        path.write_bytes(mutated(random, [whole]) if of_whole else of_members(random))
        loaded = read_checkpoint(path, identity, {})
        if loaded is not None:
            header, arrays = loaded
            assert header["identity"] == identity
            assert all(isinstance(array, np.ndarray) for array in arrays.values())
        return loaded

    return run


def trace(folder: Path, hostile: bool = False) -> Case:
    from fedatlas.store.trace import read_trace, write_trace
    from trace_factory import make_trace

    path = folder / "a.nc"
    made = make_trace(np.geomspace(1, 0.1, 6).reshape(2, 3))
    write_trace(
        made[["gradient_norm", "round", "status"]].drop_vars(["bytes_up", "messages"]), path
    )
    return _of_netcdf(path, lambda: read_trace(path), hostile)


def _of_netcdf(path: Path, read: Callable[[], Any], hostile: bool) -> Case:
    """Cases that damage a sealed file; half of hostile ones seal it again."""
    tokens = [b"OHDR", b"OCHK", b"FRHP", b"BTHD", b"TREE", b"SNOD", b"GCOL", b"\xff" * 8]
    whole = path.read_bytes()

    def sealed_again(content: bytes) -> bytes:
        path.write_bytes(content)
        seal(path)
        return path.read_bytes()

    return of_file(path, [whole], read, tokens, sealed_again if hostile else bytes)


def atlas(folder: Path, hostile: bool = False) -> Case:
    from atlas_factory import write_atlas
    from fedatlas.store.atlas import atlas_runs, open_atlas
    from trace_factory import make_trace

    made = make_trace(np.geomspace(1, 0.1, 6).reshape(2, 3))[["gradient_norm", "status"]]
    write_atlas(folder, {"ours": {"ours-a": ({}, {"first": ("First", {"x": made})})}})
    path = folder / "ours-a.nc"

    def read() -> int:
        tree = open_atlas(path)
        return len([run.trace.load() for run in atlas_runs(tree, all_points=True)])

    return _of_netcdf(path, read, hostile)


TARGETS: dict[str, Callable[[Path], Case]] = {
    "libsvm": libsvm,
    "csv": csv_table,
    "parquet": parquet_table,
    "mimic3": mimic3,
    "idx": idx,
    "cifar_records": cifar_records,
    "cifar_pickle": cifar_pickle,
    "jpeg_folder": jpeg_folder,
    "png_views": png_views,
    "tar": tar,
    "zip": zip_archive,
    "compressed": compressed,
    "catalogue": catalogue,
    "experiments": experiments,
    "results": results,
    "checkpoint": checkpoint,
    "trace": trace,
    "atlas": atlas,
    "hostile_trace": partial(trace, hostile=True),
    "hostile_atlas": partial(atlas, hostile=True),
}
