"""Members of archives that would leave the folder, are no files or bear bad names are refused."""

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from pathlib import Path

import pytest

from fedatlas.data.download import decompress_file, unpack_archive
from fedatlas.errors import FedatlasError
from made_archives import GOOD, special, tar_of, zip_of

MIB = 1 << 20


def refused(folder: Path, kind: str, content: bytes) -> str:
    """The error; nothing may be left."""
    source = folder / f"archive.{kind}"
    source.write_bytes(content)
    with pytest.raises(FedatlasError) as caught:
        unpack_archive(source, kind, folder / "below" / "out", MIB)
    assert str(source) in str(caught.value)
    assert [path.name for path in folder.rglob("*") if path.is_file()] == [source.name]
    assert not (folder / "below" / "out").exists()
    return str(caught.value)


NAMES = [
    "../up", "a/../../up", "/tmp/absolute", "//host/share",
    "two\nlines", "bell\a", "escape\x1b[2J", "right\u202eto-left",
]  # fmt: skip


@pytest.mark.parametrize("kind", ["tar", "zip"])
@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_bad_names_are_refused_by_name(tmp_path, kind, name):
    content = tar_of("good", name) if kind == "tar" else zip_of("good", name)
    assert f"{name!r} would leave the folder or has no plain name" in refused(
        tmp_path, kind, content
    )


def test_names_with_nul_do_not_become_others(tmp_path):
    # Both formats cut names at NUL, as C does.
    for kind, content in (("tar", tar_of("a\0.png")), ("zip", zip_of("a#../../x"))):
        source, output = tmp_path / kind, tmp_path / "out" / kind
        source.write_bytes(content.replace(b"#", b"\0"))
        unpack_archive(source, kind, output, MIB)
        assert [path.name for path in output.rglob("*")] == ["a"]


def test_names_that_are_no_utf8_are_refused(tmp_path):
    member = tarfile.TarInfo("latin-XX")
    content = member.tobuf(tarfile.GNU_FORMAT).replace(b"XX", b"\xe9\xff")
    header = bytearray(content)
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    assert "has no plain name" in refused(tmp_path, "tar", bytes(header) + bytes(1024))


@pytest.mark.parametrize("kind", [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE])
def test_devices_are_refused(tmp_path, kind):
    content = tar_of("good", special("odd", kind, "good"))
    assert "'odd' is a device; refused" in refused(tmp_path, "tar", content)


PROMISED = tarfile.TarInfo("large")
PROMISED.size = 1 << 60
PACKED = tar_of(*GOOD, compression="gz")
FLIPPED = bytearray(zip_of(("a", b"hello hello hello")))
FLIPPED[30 + len("a") + 2] ^= 1  # a local header has 30 bytes and the name; then the packed bytes


@pytest.mark.parametrize(
    ("kind", "content", "problem"),
    [
        ("tar", tar_of(special("../d", tarfile.DIRTYPE)), "would leave"),
        ("tar", tar_of("a", "a/b"), "cannot be unpacked"),
        ("tar", tar_of("."), "cannot be unpacked"),
        ("tar", PROMISED.tobuf(tarfile.GNU_FORMAT) + bytes(4096), "damaged"),
        ("tar", tar_of(("a", bytes(range(256)) * 400))[:9000], "damaged"),
        ("tar", tar_of(*GOOD, compression="xz")[:-9], "damaged"),
        ("tar", PACKED[:-8] + bytes(8), "damaged"),  # a wrong sum
        ("tar", PACKED[:-30], "damaged"),
        ("tar", b"hello" * 1000, "damaged"),
        ("tar", tar_of(("zeros", bytes(4 * MIB)), compression="gz"), "more than 1048576 bytes"),
        ("tar", tar_of(*map(str, range(2100)), compression="gz"), "more than 1048576 bytes"),
        ("zip", zip_of("a", "b/../a"), "refused"),
        ("zip", zip_of(*GOOD)[:-30], "damaged"),
        ("zip", bytes(FLIPPED), "damaged"),
        ("zip", zip_of(("zeros", bytes(4 * MIB))), "more than 1048576 bytes"),
        ("zip", b"hello", "damaged"),
    ],
)
def test_a_hostile_or_damaged_archive_leaves_nothing(tmp_path, kind, content, problem):
    assert problem in refused(tmp_path, kind, content)


def unpacked(folder: Path, kind: str, content: bytes, only: str | None = None) -> dict[str, bytes]:
    """The files that came out, by name; none may be a link."""
    (folder / "archive").write_bytes(content)
    unpack_archive(folder / "archive", kind, folder / "out", 80 * MIB, only)
    files = [path for path in (folder / "out").rglob("*") if not path.is_dir()]
    assert not any(path.is_symlink() for path in files)
    return {path.relative_to(folder / "out").as_posix(): path.read_bytes() for path in files}


def test_backslashes_of_a_zip_separate_folders(tmp_path):
    content = zip_of("images\\", ("images\\deep\\1.png", b"one"), ("10:30.csv", b"time"))
    assert unpacked(tmp_path, "zip", content) == {"images/deep/1.png": b"one", "10:30.csv": b"time"}


@pytest.mark.parametrize("name", ["..\\up", "a\\..\\..\\up", "\\\\host\\share"])
def test_backslashes_do_not_lead_out_of_the_folder(tmp_path, name):
    assert "would leave" in refused(tmp_path, "zip", zip_of(name))


def test_links_are_left_out_and_nothing_is_written_through_them(tmp_path, caplog):
    links = [special(name, tarfile.SYMTYPE, to) for name, to in (("s", ".."), ("t", "/etc/passwd"))]
    content = tar_of(*links, special("hard", tarfile.LNKTYPE, "s/x"), ("s/x", b"rows"))
    assert unpacked(tmp_path, "tar", content) == {"s/x": b"rows"}
    assert [name for name in ("'s'", "'t'", "'hard'") if name in caplog.text] == [
        "'s'",
        "'t'",
        "'hard'",
    ]
    with pytest.raises(FedatlasError, match="has no member 't'"):
        unpack_archive(tmp_path / "archive", "tar", tmp_path / "other", MIB, "t")
    stream, member = io.BytesIO(), zipfile.ZipInfo("out")
    member.external_attr = 0o120777 << 16
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("data/rows", "rows")
        archive.writestr(member, "../../up")
    (tmp_path / "z").mkdir()
    assert unpacked(tmp_path / "z", "zip", stream.getvalue()) == {"data/rows": b"rows"}


@pytest.mark.parametrize("only", [None, "d/a"])
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_the_last_entry_of_a_name_counts(tmp_path, only):
    for kind, made in (("tar", tar_of), ("zip", zip_of)):
        (tmp_path / kind).mkdir()
        content = made(("d/a", b"old, and longer"), ("b", b"other"), ("./d/a", b"new"))
        files = {"d/a": b"new", "b": b"other"} if only is None else {"d/a": b"new"}
        assert unpacked(tmp_path / kind, kind, content, only) == files


@pytest.mark.parametrize(("kind", "module"), [("gz", gzip), ("bz2", bz2), ("xz", lzma)])
def test_several_streams_are_one_file_and_a_cut_one_is_damaged(tmp_path, kind, module):
    parts = [b"one", b"", bytes(range(256)) * 4000]
    packed = b"".join(map(module.compress, parts))
    source, output = tmp_path / "packed", tmp_path / "out"
    source.write_bytes(packed)
    decompress_file(source, kind, output, 2 * MIB)
    assert output.read_bytes() == b"".join(parts)
    for cut in (1, 9, 31):
        source.write_bytes(packed[:-cut])
        with pytest.raises(FedatlasError, match="packed: cannot be unpacked, it is damaged"):
            decompress_file(source, kind, output, 2 * MIB)
