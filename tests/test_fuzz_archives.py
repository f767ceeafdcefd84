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
    "C:drive": "would leave",
    "c:/drive": "would leave",
    "a\\b": "would leave",
    "a/b:stream": "would leave",
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
    "symbolic link": tarfile.SYMTYPE,
    "hard link": tarfile.LNKTYPE,
    "character device": tarfile.CHRTYPE,
    "block device": tarfile.BLKTYPE,
    "pipe": tarfile.FIFOTYPE,
    "contiguous, unknown": b"Z",
    "sparse": tarfile.GNUTYPE_SPARSE,
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_plain_file_is_refused(tmp_path, kind):
    content = tar_of("good", special("odd", KINDS[kind], "good"))
    assert "'odd' is a link or a device" in refused(tmp_path, "tar", content)


@pytest.mark.parametrize("mode", [0o120777, 0o020666, 0o060666, 0o010666, 0o140777])
def test_what_is_no_plain_file_of_a_zip_is_refused(tmp_path, mode):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        member = zipfile.ZipInfo("odd")
        member.external_attr = mode << 16
        archive.writestr(member, "good")
    assert "'odd' is a link or a device" in refused(tmp_path, "zip", stream.getvalue())


PACKED = tar_of(*GOOD, compression="gz")
FLIPPED = bytearray(zip_of(("a", b"hello hello hello")))
FLIPPED[30 + len("a") + 2] ^= 1  # a local header has 30 bytes and the name; then the packed bytes


@pytest.mark.parametrize(
    ("kind", "content", "problem"),
    [
        ("tar", tar_of(special("../d", tarfile.DIRTYPE)), "would leave"),
        ("tar", tar_of(special("s", tarfile.SYMTYPE, ".."), "s/x"), "'s' is a link"),
        ("tar", tar_of("a", "./a"), "'./a' occurs twice"),
        ("tar", tar_of("a", "a/b"), "cannot be unpacked"),
        ("tar", tar_of("."), "refused"),
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


def test_duplicate_zip_members_are_refused(tmp_path):
    with pytest.warns(UserWarning, match="Duplicate name"):
        content = zip_of("a", "a")
    assert "'a' occurs twice" in refused(tmp_path, "zip", content)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_methods_without_a_bound_on_memory_are_refused(tmp_path, method):
    assert "neither stored nor deflated" in refused(tmp_path, "zip", zip_of("a", method=method))


def test_a_member_that_promises_too_much_is_refused_before_it_is_unpacked(tmp_path):
    member = tarfile.TarInfo("large")
    member.size = 1 << 60
    content = member.tobuf(tarfile.GNU_FORMAT) + bytes(4096)
    assert "unpacks to more than 1048576 bytes" in refused(tmp_path, "tar", content)


def test_a_ratio_that_no_data_set_has_is_refused(tmp_path):
    source = tmp_path / "a.gz"
    source.write_bytes(gzip.compress(bytes(MIB)) * 80)
    with pytest.raises(FedatlasError, match=r"a\.gz: unpacks to more than 250 times its \d+ bytes"):
        decompress_file(source, "gz", tmp_path / "out", 1 << 33)
    # Up to 64 MiB any ratio is harmless.
    source.write_bytes(gzip.compress(bytes(MIB)) * 60)
    decompress_file(source, "gz", tmp_path / "out", 1 << 33)
    assert (tmp_path / "out").stat().st_size == 60 * MIB


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
