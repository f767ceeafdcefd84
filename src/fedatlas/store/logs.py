"""Read logs of other programs into one long frame: a row for each run, seed and round.

Nothing in them is executed or unpickled.
"""

import json
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from io import StringIO
from math import inf, nan
from pathlib import Path
from struct import unpack, unpack_from
from typing import Any, NamedTuple

import pandas as pd
import xarray as xr

from fedatlas.errors import FedatlasError, NotReadNowError, first_line, similar
from fedatlas.schema.models import read_json, read_yaml

#: Column with the name of the file, folder or run that a row is of.
NAME = "(name)"
# MLflow's databases have it in place of infinity.
_LARGEST = 1.7976931348623157e308
_PANDAS, _XARRAY = "pandas", "xarray"


class Log(NamedTuple):
    """where: the source, as errors name it. kind: its format. name: of the source.

    beside: other formats of which there are files that were not read.
    """

    where: str
    kind: str
    name: str
    frame: pd.DataFrame
    beside: str = ""

    @property
    def columns(self) -> list[str]:
        """Names of what the source holds."""
        return [str(column) for column in self.frame if column != NAME]

    @property
    def has_names(self) -> bool:
        """Whether files, folders or runs have names."""
        return self.kind not in (_PANDAS, _XARRAY)

    def at(self, row: int) -> str:
        """The place of a row in its source; for CSV the line, as editors count them."""
        names = self.frame[NAME].sort_index()
        own = int((names.loc[:row] == names.loc[row]).sum())
        of = f" of {names.loc[row]}" if names.nunique() > 1 else ""
        return f"line {own + 1}{of}" if self.kind == FORMATS["csv"].title else f"row {own}{of}"

    def error(self, told: str) -> FedatlasError:
        """An error that names the source."""
        return FedatlasError(f"{self.where}: {told}")


class _Format(NamedTuple):
    """matches: names of its files, of which a folder may hold some anywhere. read: one of these.

    holds: what is expected in them. in_folder: whether the folder, not the file, has the name of a
    run. is_one: whether a file of such a name is one.
    """

    title: str
    matches: str
    holds: str
    read: Callable[[Path], pd.DataFrame]
    in_folder: bool = False
    is_one: Callable[[Path], bool] = lambda _: True

    def files(self, folder: Path) -> list[Path]:
        """Its files anywhere in a folder."""
        return sorted(file for file in folder.rglob(self.matches) if self.is_one(file))


def _read_csv(file: Path) -> pd.DataFrame:
    return pd.read_csv(file, sep="\t" if file.suffix == ".tsv" else ",")


def _by_step(numbers: Iterable[tuple[str, Any, Any]]) -> pd.DataFrame:
    """A row for each step, of names, steps and values; the last value of a step counts."""
    rows: dict[Any, dict[str, Any]] = {}
    for name, step, value in numbers:
        rows.setdefault(step, {"step": step})[name] = value
    return pd.DataFrame([*rows.values()])


def _read_tensorboard(file: Path) -> pd.DataFrame:
    """All files of a folder, of which a run that was resumed has several; from its first one."""
    files = sorted(file.parent.glob("*tfevents*")) or [file]
    first = files if file == files[0] else ()
    return _by_step(one for each in first for one in _scalars(each.read_bytes()))


def _scalars(data: bytes) -> Iterator[tuple[str, int, float]]:
    """Tags, steps and values of events, each behind its length and a checksum of that."""
    at, start = 0, None
    while at + 12 <= len(data):
        (length,) = unpack_from("<Q", data, at)
        if at + 12 + length > len(data):
            return  # a program writes it still, or was stopped
        event = fields_of(data[at + 12 : at + 12 + length])
        at += 16 + length
        (time,), step = unpack("<d", event[1][0]), event.get(2, [0])[0]
        for value in fields_of(event.get(5, [b""])[0]).get(1, ()):
            own = fields_of(value)
            start = time if start is None else start
            number = own[2][0] if 2 in own else _tensor(fields_of(own.get(8, [b""])[0]))
            if number:
                (found,) = unpack("<f" if len(number) == 4 else "<d", number)
                yield "seconds", step, time - start
                yield own[1][0].decode(), step, found


def _tensor(own: dict[int, list[Any]]) -> bytes:
    """The bytes of a number of single or double precision; none of what is another tensor."""
    size = {1: 4, 2: 8}.get(own.get(1, [0])[0])
    found: bytes = next((own[place][0] for place in (4, 5, 6) if place in own), b"")
    return found if len(found) == size else b""


def _read_wandb(file: Path) -> pd.DataFrame:
    config, rows = dict[str, Any](), list[dict[str, Any]]()
    for record in map(fields_of, _wandb_records(file.read_bytes())):
        for run in map(fields_of, record.get(17, ())):
            config[NAME] = run.get(8, run[1])[0].decode()
            for own in run.get(4, ()):
                config |= _wandb_items(own)
        for own in record.get(5, ()):
            config |= _wandb_items(own)
        rows += [_wandb_items(own) for own in record.get(2, ())]
    given = {key: value for key, value in config.items() if isinstance(value, str | int | float)}
    return pd.DataFrame([given | row for row in rows])


def _wandb_items(data: bytes) -> dict[str, Any]:
    """The items of a record of history or configuration: key, or nested keys, and value as JSON."""
    items = map(fields_of, fields_of(data).get(1, ()))
    return {b"/".join(own.get(1) or own[2]).decode(): json.loads(own[16][0]) for own in items}


def _wandb_records(data: bytes) -> Iterator[bytes]:
    """Records in the blocks of a log of LevelDB, which parts of a record may end and begin."""
    block, at, record = 1 << 15, 7, b""  # behind the file's own head
    if data[:4] != b":W&B":
        raise ValueError("it does not begin with W&B's mark")
    while at + 7 <= len(data):
        if block - at % block < 7:
            at += block - at % block
            continue
        _, length, kind = unpack_from("<IHB", data, at)
        if at + 7 + length > len(data):
            return
        record = (b"" if kind in (1, 2) else record) + data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # whole, or the last part
            yield record


def fields_of(message: bytes) -> dict[int, list[Any]]:
    """A protobuf message by the numbers of its fields, which never change.

    TensorBoard's own library would bring 20 MB; W&B's 60 MB, without a reader in Python.
    """
    found: dict[int, list[Any]] = {}
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            value |= (message[at] & 127) << shift
            at, shift = at + 1, shift + 7
            if message[at - 1] < 128:
                return value

    while at < len(message):
        key = varint()
        size = {1: 8, 5: 4}.get(key & 7)
        if key & 7 == 0:
            found.setdefault(key >> 3, []).append(varint())
            continue
        size = varint() if size is None else size
        found.setdefault(key >> 3, []).append(message[at : at + size])
        at += size
    return found


def _read_mlflow(file: Path) -> pd.DataFrame:
    """A run's folder; file: its meta.yaml. That of an experiment or a model has no rows."""
    declared = read_yaml(file)
    if "run_id" not in declared or declared.get("lifecycle_stage") == "deleted":
        return pd.DataFrame()
    metrics = [one for one in file.parent.glob("metrics/**/*") if one.is_file()]
    frame = _by_step(
        (str(one.relative_to(file.parent / "metrics")), int(step), float(value))
        for one in metrics
        for _, value, step, *_ in map(str.split, one.read_text(encoding="utf-8").splitlines())
    )
    given = {one.name: one.read_text(encoding="utf-8") for one in file.parent.glob("params/*")}
    return _with_parameters(frame, given, str(declared.get("run_name") or declared["run_id"]))


def _read_mlflow_database(file: Path) -> pd.DataFrame:
    """The runs of a SQLite database that are not deleted; NaN has a column of its own there."""
    with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)) as database:
        database.execute("PRAGMA trusted_schema = OFF")
        active = (
            "SELECT run_uuid, runs.name, experiments.name FROM runs LEFT JOIN experiments "
            "USING (experiment_id) WHERE runs.lifecycle_stage = 'active'"
        )
        runs, frames = database.execute(active).fetchall(), []
        several = len({experiment for *_, experiment in runs}) > 1
        for run, name, experiment in runs:
            asked = (
                "SELECT key, step, value, is_nan FROM metrics WHERE run_uuid = ? ORDER BY timestamp"
            )
            numbers = database.execute(asked, [run]).fetchall()
            frame = _by_step(
                (key, step, nan if is_nan else inf if abs(value) >= _LARGEST else value)
                for key, step, value, is_nan in numbers
            )
            given = database.execute("SELECT key, value FROM params WHERE run_uuid = ?", [run])
            named = f"{experiment}/{name or run}" if several else name or run
            frames.append(_with_parameters(frame, dict(given.fetchall()), named))
    if not frames:
        raise ValueError("it has no active runs")
    return pd.concat(frames)


def _with_parameters(frame: pd.DataFrame, given: Mapping[str, str], name: str) -> pd.DataFrame:
    """A run's metrics with its parameters, but for those that are called as a metric is."""
    own = {key: value for key, value in given.items() if key not in frame}
    return frame.assign(**{**own, NAME: name})


def _is_mlflow_database(file: Path) -> bool:
    """Whether a file is SQLite with MLflow's tables."""
    try:
        with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)) as database:
            tables = database.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
            return {"runs", "metrics", "params"} <= {name for (name,) in tables}
    except sqlite3.Error:
        return False


def _read_flower(file: Path) -> pd.DataFrame:
    """`vars` of a History, or the metrics of a Result, by round, as JSON."""
    return _by_step(_flower_numbers(read_json(file)))


def _flower_numbers(content: Any) -> Iterator[tuple[str, int, Any]]:
    if not isinstance(content, dict) or not all(
        isinstance(own, dict | list) for own in content.values()
    ):
        raise ValueError("it is neither a History nor a Result")
    for kind, own in content.items():
        where = "fit" if "fit" in kind or "train" in kind else "clients"
        where = "server" if kind.endswith(("centralized", "serverapp")) else where
        if isinstance(own, list):  # losses of a History
            own = {"loss": own}
        for key, values in own.items():
            if isinstance(values, list):  # of a History: name → pairs
                yield from ((f"{where}/{key}", int(at), value) for at, value in values)
            else:  # of a Result: round → names
                yield from ((f"{where}/{name}", int(key), one) for name, one in values.items())


def _read_ioh(file: Path) -> pd.DataFrame:
    """The tables that IOHprofiler's JSON names, in which each run begins with a heading."""
    told, frames = read_json(file), []
    for scenario in told["scenarios"]:
        text = (file.parent / scenario["path"]).read_text(encoding="utf-8")
        parts = re.split(r"^(?=evaluations)", text, flags=re.MULTILINE)[1:]
        for part, run in zip(parts, scenario["runs"], strict=True):
            frame = pd.read_csv(StringIO(part), sep=r"\s+")
            about = {"algorithm": told["algorithm"]["name"], "seed": run["instance"]}
            frames.append(frame.assign(**about, dimension=scenario["dimension"]))
    return pd.concat(frames)


#: By the name that `--format` takes, in the order in which they are looked for: folders of some
#: hold JSON, CSV and other files besides.
FORMATS = {
    "tensorboard": _Format(
        "TensorBoard", "*tfevents*", "events with scalars", _read_tensorboard, True
    ),
    "wandb": _Format("W&B", "*.wandb", "the history of an offline run", _read_wandb),
    "mlflow": _Format("MLflow", "meta.yaml", "a run_id, beside metrics/", _read_mlflow),
    "mlflow-database": _Format(
        *("MLflow database", "*.db", "SQLite with runs and metrics", _read_mlflow_database),
        is_one=_is_mlflow_database,
    ),
    "ioh": _Format("IOHprofiler", "IOHprofiler_*.json", "scenarios with runs", _read_ioh),
    "parquet": _Format("Parquet", "*.parquet", "a table", pd.read_parquet),
    "csv": _Format("CSV", "*.[ct]sv", "a line of names, then lines of numbers", _read_csv),
    "flower": _Format("Flower", "*.json", "metrics of a History or a Result", _read_flower),
}
# Formats whose files may lie beside the logs of others, and be none.
_USUAL = ("parquet", "csv", "flower")
_PACKED = (".gz", ".xz", ".bz2", ".zip", ".zst", ".tar")


def read_log(
    source: Path | str | Sequence[Path | str] | pd.DataFrame | xr.Dataset, kind: str = ""
) -> Log:
    """The long frame of files or folders of one format, or of a frame or a data set.

    FedatlasError names what cannot be read, and where formats are not told apart.
    """
    if isinstance(source, xr.Dataset):
        return _named(Log("data set", _XARRAY, "mine", source.to_dataframe().reset_index()))
    if isinstance(source, pd.DataFrame):
        return _named(
            Log("frame", _PANDAS, "mine", source.reset_index(drop=source.index.names == [None]))
        )
    if kind and kind not in FORMATS:
        raise FedatlasError(
            f"format: '{kind}' is none of {', '.join(FORMATS)}{similar(kind, FORMATS)}"
        )
    paths = [Path(one) for one in ([source] if isinstance(source, Path | str) else source)]
    where = ", ".join(map(str, paths))
    found = {path: _files(path, kind) for path in paths}
    kinds = {name for name, _ in found.values()}
    if len(kinds) > 1:
        formats = " and ".join(sorted(kinds))
        raise FedatlasError(f"{where}: have the formats {formats}: name one with --format")
    own, beside = FORMATS[min(kinds)], _beside(paths, min(kinds))
    rivals = [one for one in beside if one not in _USUAL]
    if rivals and not kind and min(kinds) not in _USUAL:
        formats = " and ".join([*kinds, *rivals])
        raise FedatlasError(f"{where}: has the formats {formats}: name one with --format")
    frames = [_frame(path, file, own) for path, (_, files) in found.items() for file in files]
    stem = paths[0].resolve().name.partition(".")[0]
    stem = re.sub(r"[-_ ]*\d*$", "", stem) if len(paths) > 1 else stem  # without its seed
    stem = re.sub(r"[^\w.-]+", "-", stem) or "mine"
    frame = pd.concat(frames, ignore_index=True)
    log = Log(where, own.title, stem, frame, ", ".join(FORMATS[one].title for one in beside))
    return _named(log, f" of {own.title}: {own.holds} are expected")


def _beside(paths: Iterable[Path], kind: str) -> list[str]:
    """Other formats of which folders hold files."""
    folders = [path for path in paths if path.is_dir()]
    return [
        other
        for other, own in FORMATS.items()
        if other != kind
        and any(
            not file.match(FORMATS[kind].matches) for path in folders for file in own.files(path)
        )
    ]


def _files(path: Path, asked: str) -> tuple[str, list[Path]]:
    """The format that is asked for, or the first of which there are files, and these."""
    if not path.exists():
        raise FedatlasError(f"{path}: does not exist: name a file or a folder")
    kinds = [asked] if asked else [*FORMATS]
    for kind in kinds:
        pattern = FORMATS[kind].matches
        alone = [path] * (bool(asked) or path.match(pattern))
        if files := FORMATS[kind].files(path) if path.is_dir() else alone:
            return kind, files
    if path.suffix in _PACKED:
        raise FedatlasError(f"{path}: is packed: unpack it first")
    known = ", ".join(f"{kind} ({FORMATS[kind].matches})" for kind in kinds)
    raise FedatlasError(f"{path}: holds no files of {known}")


def _frame(path: Path, file: Path, own: _Format) -> pd.DataFrame:
    """A file's rows, with its name, or that of its folder, below the path."""
    try:
        frame = own.read(file)
    except NotReadNowError:
        raise
    except Exception as error:  # of any library, or of bytes that mean nothing
        told = first_line(error).removeprefix(f"{file}: ") if file.stat().st_size else "it is empty"
        told += ": save it as UTF-8" if isinstance(error, UnicodeDecodeError) else ""
        raise FedatlasError(
            f"{file}: cannot be read as {own.title} ({own.matches}, {own.holds}): {told}"
        ) from None
    if NAME not in frame:
        named = file.parent if own.in_folder else file.with_suffix("")
        below = named.relative_to(path) if path.is_dir() and named != path else Path(named.name)
        frame[NAME] = str(below)
    return frame


def _named(log: Log, expected: str = "") -> Log:
    """With a name where there is none; FedatlasError without a row."""
    if not len(log.frame):
        raise log.error(f"holds no rows{expected}")
    return log if NAME in log.frame else log._replace(frame=log.frame.assign(**{NAME: "mine"}))
