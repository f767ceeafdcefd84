"""Members of archives that would leave the folder, are no files or bear bad names are refused."""

import gzip
import io
import lzma
import tarfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedatlas.data.unpack import decompress_file, unpack_archive
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


NAMES = {
    "../up": "would leave",
    "a/../../up": "would leave",
    "/tmp/absolute": "would leave",
    "//host/share": "would leave",
    "two\nlines": "has a control character",
    "bell\a": "has a control character",
    "escape\x1b[2J": "has a control character",
    "right\u202eto-left": "has a control character",
    "n" * 256: "has too long a name",
    "é" * 128: "has too long a name",
    "/".join(["n" * 200] * 6): "has too long a name",
    "/".join("d" * 65): "lies over 64 folders deep",
}


@pytest.mark.parametrize("kind", ["tar", "zip"])
@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_bad_names_are_refused_by_name(tmp_path, kind, name):
    content = tar_of("good", name) if kind == "tar" else zip_of("good", name)
    problem = refused(tmp_path, kind, content)
    assert NAMES[name] in problem
    assert repr(name)[1:20] in problem or name[:20] in problem


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
    assert "has a control character" in refused(tmp_path, "tar", bytes(header) + bytes(1024))


KINDS = {
    "character device": tarfile.CHRTYPE,
    "block device": tarfile.BLKTYPE,
    "pipe": tarfile.FIFOTYPE,
    "contiguous, unknown": b"Z",
    "sparse": tarfile.GNUTYPE_SPARSE,
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_plain_file_is_refused(tmp_path, kind):
    content = tar_of("good", special("odd", KINDS[kind], "good"))
    problem = "is sparse" if kind == "sparse" else "is a device"
    assert f"'odd' {problem}; refused: pack the archive again" in refused(tmp_path, "tar", content)


@pytest.mark.parametrize("mode", [0o020666, 0o060666, 0o010666, 0o140777])
def test_what_is_no_plain_file_of_a_zip_is_refused(tmp_path, mode):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        member = zipfile.ZipInfo("odd")
        member.external_attr = mode << 16
        archive.writestr(member, "good")
    assert "'odd' is a device" in refused(tmp_path, "zip", stream.getvalue())


PACKED = tar_of(*GOOD, compression="gz")
FLIPPED = bytearray(zip_of(("a", b"hello hello hello")))
FLIPPED[30 + len("a") + 2] ^= 1  # a local header has 30 bytes and the name; then the packed bytes


@pytest.mark.parametrize(
    ("kind", "content", "problem"),
    [
        ("tar", tar_of(special("../d", tarfile.DIRTYPE)), "would leave"),
        ("tar", tar_of("a", "a/b"), "cannot be unpacked"),
        ("tar", tar_of("."), "cannot be unpacked"),
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


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_methods_without_a_bound_on_memory_are_refused(tmp_path, method):
    assert "neither stored nor deflated" in refused(tmp_path, "zip", zip_of("a", method=method))


def test_a_member_that_promises_too_much_is_refused_before_it_is_unpacked(tmp_path):
    member = tarfile.TarInfo("large")
    member.size = 1 << 60
    content = member.tobuf(tarfile.GNU_FORMAT) + bytes(4096)
    assert "unpacks to more than 1048576 bytes" in refused(tmp_path, "tar", content)


def unpacked(folder: Path, kind: str, content: bytes, only: str | None = None) -> dict[str, bytes]:
    """The files that came out, by name; none may be a link."""
    (folder / "archive").write_bytes(content)
    unpack_archive(folder / "archive", kind, folder / "out", 80 * MIB, only)
    files = [path for path in (folder / "out").rglob("*") if not path.is_dir()]
    assert not any(path.is_symlink() for path in files)
    return {path.relative_to(folder / "out").as_posix(): path.read_bytes() for path in files}


def test_any_ratio_passes_below_the_limit(tmp_path):
    (tmp_path / "zeros.gz").write_bytes(gzip.compress(bytes(MIB)) * 70)
    decompress_file(tmp_path / "zeros.gz", "gz", tmp_path / "out", 80 * MIB)
    assert (tmp_path / "out").stat().st_size == 70 * MIB


def test_backslashes_of_a_zip_separate_folders(tmp_path):
    content = zip_of("images\\", ("images\\deep\\1.png", b"one"), ("10:30.csv", b"time"))
    assert unpacked(tmp_path, "zip", content) == {"images/deep/1.png": b"one", "10:30.csv": b"time"}


@pytest.mark.parametrize("name", ["..\\up", "a\\..\\..\\up", "\\\\host\\share"])
def test_backslashes_do_not_lead_out_of_the_folder(tmp_path, name):
    assert "would leave" in refused(tmp_path, "zip", zip_of(name))


LINKED = (
    special("latest", tarfile.SYMTYPE, "v2"),  # a folder
    special("v2/same.txt", tarfile.SYMTYPE, "../alias"),
    special("alias", tarfile.LNKTYPE, "./v2/data.txt"),
    ("v2/data.txt", b"rows"),
    special("home", tarfile.SYMTYPE, "/etc/passwd"),
    special("loop", tarfile.SYMTYPE, "loop"),
)


def test_links_become_copies_of_files_of_the_archive_or_are_left_out(tmp_path, caplog):
    content = tar_of(*LINKED, compression="gz")
    files = dict.fromkeys(["v2/data.txt", "v2/same.txt", "alias"], b"rows")
    assert unpacked(tmp_path, "tar", content) == files
    assert "latest -> v2, home -> /etc/passwd, loop -> loop" in caplog.text


def test_links_of_a_zip_are_links(tmp_path, caplog):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("data/rows", "rows")
        for name, target in (("data/same", "rows"), ("out", "../../up")):
            member = zipfile.ZipInfo(name)
            member.external_attr = 0o120777 << 16
            archive.writestr(member, target)
    files = {"data/rows": b"rows", "data/same": b"rows"}
    assert unpacked(tmp_path, "zip", stream.getvalue()) == files
    assert "out -> ../../up" in caplog.text


def test_a_member_is_taken_beside_links_and_is_none_itself(tmp_path):
    content = tar_of(*LINKED)
    assert unpacked(tmp_path, "tar", content, "v2/data.txt") == {"v2/data.txt": b"rows"}
    for link, target in (("v2/same.txt", "alias"), ("alias", "v2/data.txt")):
        with pytest.raises(FedatlasError, match=f"'{link}' is a link to '{target}': give that"):
            unpack_archive(tmp_path / "archive", "tar", tmp_path / "other", MIB, link)
    # Nothing is written through a link.
    through = tar_of(special("s", tarfile.SYMTYPE, ".."), "s/x")
    assert list(unpacked(tmp_path / "out", "tar", through)) == ["s/x"]


def test_copies_of_links_count_towards_the_limit(tmp_path):
    links = [special(str(number), tarfile.LNKTYPE, "large") for number in range(9)]
    content = tar_of(("large", bytes(200_000)), *links)
    assert "unpacks to more than 1048576 bytes" in refused(tmp_path, "tar", content)


@pytest.mark.parametrize("only", [None, "d/a"])
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_the_last_entry_of_a_name_counts(tmp_path, only):
    entries = (("d/a", b"old, and longer"), special("d/l", tarfile.SYMTYPE, "a"), ("./d/a", b"new"))
    content = tar_of(*entries, ("d/l", b"file"), special("d/a2", tarfile.SYMTYPE, "a"))
    files = {"d/a": b"new", "d/l": b"file", "d/a2": b"new"}
    found = unpacked(tmp_path, "tar", content, only)
    assert found == (files if only is None else {"d/a": b"new"})
    (tmp_path / "z").mkdir()
    content = zip_of(("d/a", b"old"), ("d/a", b"new"))
    assert unpacked(tmp_path / "z", "zip", content, only) == {"d/a": b"new"}


def test_headers_of_a_usual_length_pass(tmp_path):
    name = "/".join(["é" * 100] * 3)
    source = tmp_path / "a.tar"
    source.write_bytes(tar_of(*(f"{name}/{number}" for number in range(50))))
    unpack_archive(source, "tar", tmp_path / "out", MIB)
    assert len([path for path in (tmp_path / "out").rglob("*") if path.is_file()]) == 50


@settings(max_examples=60)
@given(
    parts=st.lists(st.binary(max_size=3000), min_size=1, max_size=4),
    padding=st.integers(0, 3),
    cut=st.integers(1, 31),
)
def test_xz_is_unpacked_as_python_does(tmp_path_factory, parts, padding, cut):
    folder = tmp_path_factory.mktemp("xz")
    packed = (b"\0" * 4 * padding).join(lzma.compress(part, preset=0) for part in parts)
    source, output = folder / "a.xz", folder / "out"
    source.write_bytes(packed)
    decompress_file(source, "xz", output, MIB)
    assert output.read_bytes() == b"".join(parts)
    # Within the last stream, of which the shortest has 32 bytes.
    source.write_bytes(packed[:-cut])
    with pytest.raises(FedatlasError, match=r"a\.xz: cannot be unpacked, it is damaged"):
        decompress_file(source, "xz", output, MIB)


def test_large_xz_files_are_read_in_pieces(tmp_path):
    content = bytes(range(256)) * 40_000
    (tmp_path / "a.xz").write_bytes(lzma.compress(content))
    decompress_file(tmp_path / "a.xz", "xz", tmp_path / "out", 1 << 30)
    assert (tmp_path / "out").read_bytes() == content
