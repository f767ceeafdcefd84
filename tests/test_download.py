import bz2
import gzip
import hashlib
import json
import lzma
import multiprocessing
import os
import re
import shutil
import socket
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from pydantic import ValidationError

from catalogue_entry import written
from fedatlas.data import download as download_module
from fedatlas.data.download import Fetching, decompress_file, download
from fedatlas.data.raw_files import (
    RawFile,
    content_of,
    origin_file,
    read_origin,
    record,
    record_read,
)
from fedatlas.errors import FedatlasError
from made_archives import GOOD, special, tar_of, zip_of

CONTENT = b"+1 1:1\n-1 2:1\n" * 5000
MIB = 1 << 20
LOCK = "results/checksums.lock.json"


def md5(content):
    return f"md5:{hashlib.md5(content).hexdigest()}"


def sha256(content):
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


class Server:
    """A web server on this machine whose answers the tests set and whose requests they count."""

    def __init__(self):
        self.files = {}
        self.failures = {}  # path → answers that are still to be errors
        self.truncated = set()
        self.status = 503
        self.success = 200
        self.promises = True  # a length, before it answers
        self.requests = []
        self.headers = {}
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                outer.requests.append(self.path)
                if outer.failures.get(self.path, 0) > 0:
                    outer.failures[self.path] -= 1
                    self.send_error(outer.status)
                elif self.path not in outer.files:
                    self.send_error(404)
                else:
                    body = outer.files[self.path]
                    self.send_response(outer.success)
                    if outer.promises:
                        self.send_header("Content-Length", str(len(body)))
                    for name, value in outer.headers.items():
                        self.send_header(name, value)
                    self.end_headers()
                    self.wfile.write(body[:100] if self.path in outer.truncated else body)

            def log_message(self, *args):
                pass

        self.httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.httpd.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    def raw(self, body=CONTENT, path="a", **changes):
        """The raw file `path` that this server serves as /path, with this content."""
        self.files[f"/{path}"] = body
        return RawFile(path=path, urls=(self.url(f"/{path}"),), **changes)

    def url(self, path):
        return f"http://127.0.0.1:{self.httpd.server_port}{path}"

    def close(self):
        self.httpd.shutdown()
        self.httpd.server_close()
        self.thread.join()


@pytest.fixture
def server(monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    server = Server()
    yield server
    server.close()


@pytest.fixture
def fetch(tmp_path):
    """`download` to results/raw/data, with pauses that a test can wait for.

    read: whether a reader could read the copy afterwards.
    """

    def run(
        raw_file,
        mirror=None,
        destination=tmp_path / "results" / "raw" / "data",
        read=True,
        **options,
    ):
        lock = tmp_path / LOCK
        options = {"pause": 0.01, "timeout": 5.0, **options}
        download(raw_file, destination, Fetching(mirror, lock, lock.parent / "archives", **options))
        if read:
            record_read([(raw_file, destination)], lock)
        return destination

    return run


def nothing_left(folder):
    """Neither a file nor a scratch folder; lock files of processes are empty and stay."""
    return [path for path in folder.rglob("*") if path.is_file() and path.stat().st_size] == []


def test_a_file_is_fetched_verified_and_put_in_place(server, fetch, tmp_path):
    for checksum in (md5(CONTENT), sha256(CONTENT)):
        output = fetch(server.raw(path="libsvm/a9a", checksum=checksum))
        assert output.read_bytes() == CONTENT
        assert list(output.parent.iterdir()) == [output]
    assert not (tmp_path / LOCK).exists()


def test_a_server_that_fails_twice_is_asked_a_third_time(server, fetch):
    server.failures["/a"] = 2
    assert fetch(server.raw(checksum=md5(CONTENT))).read_bytes() == CONTENT
    assert server.requests == ["/a"] * 3


def test_an_address_that_leads_into_the_local_network_is_refused(server, fetch, monkeypatch):
    """As of services that trust whoever asks from there; an address there may be named itself."""
    raw = server.raw()
    server.files["/moved"], server.headers, server.success = b"", {"Location": "/a"}, 302
    moved = raw.model_copy(update={"urls": (server.url("/moved"),)})
    private = download_module._is_private
    monkeypatch.setattr(download_module, "_is_private", lambda url: private(url) and "/a" in url)
    with pytest.raises(FedatlasError, match=r"/moved: leads to http://127.0.0.1:\d+/a, which is"):
        fetch(moved)
    assert server.requests == ["/moved"]


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        *((host, True) for host in ("127.0.0.1", "10.0.0.1:80", "169.254.169.254", "[::1]")),
        *((host, True) for host in ("2130706433", "localhost", "[::ffff:10.0.0.1]")),
        *((host, False) for host in ("8.8.8.8", "[2001:4860:4860::8888]", "nowhere.invalid", "")),
    ],
)
def test_addresses_of_local_networks_are_known(host, expected):
    assert download_module._is_private(f"http://{host}/a") == expected


def test_the_next_url_is_tried_and_a_missing_file_is_not_asked_for_again(server, fetch):
    server.files["/b"] = CONTENT
    server.files["/wrong"] = b"something else"
    urls = tuple(server.url(path) for path in ("/missing", "/wrong", "/b"))
    raw = RawFile(path="a9a", urls=urls, checksum=md5(CONTENT))
    assert fetch(raw).read_bytes() == CONTENT
    assert server.requests == ["/missing", "/wrong", "/b"]


@pytest.mark.parametrize("old", [True, False])
def test_a_corrupted_file_is_reported_with_both_sums_and_the_old_one_left(
    server, fetch, tmp_path, old
):
    raw = server.raw(path="libsvm/a9a", checksum=md5(CONTENT))
    output = fetch(raw) if old else None
    damaged = server.files["/libsvm/a9a"] = CONTENT[:-1] + b"X"
    with pytest.raises(FedatlasError) as caught:
        fetch(raw)
    for part in (md5(CONTENT), md5(damaged), server.url("/libsvm/a9a")):
        assert part in str(caught.value)
    if output is None:
        assert nothing_left(tmp_path)
    else:
        assert output.read_bytes() == CONTENT and list(output.parent.iterdir()) == [output]


@pytest.mark.parametrize("checksum", [md5(CONTENT), None])
def test_a_truncated_transfer_is_tried_again_and_not_kept(server, fetch, tmp_path, checksum):
    server.truncated.add("/a")
    with pytest.raises(FedatlasError, match="IncompleteRead"):
        fetch(server.raw(checksum=checksum))
    assert server.requests == ["/a"] * 3
    assert nothing_left(tmp_path)


def test_without_a_network_the_error_says_what_to_do(fetch, tmp_path):
    with socket.socket() as probe:  # a port that was free a moment ago: nobody answers there
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}/a9a"
    (tmp_path / "mirror").mkdir()
    raw = RawFile(path="libsvm/a9a", urls=(url,), checksum=md5(CONTENT))
    with pytest.raises(FedatlasError) as caught:
        fetch(raw, mirror=tmp_path / "mirror")
    message = str(caught.value)
    assert url in message
    assert f"the mirror {tmp_path / 'mirror'} does not hold libsvm/a9a" in message
    assert "--config mirror=DIR" in message and "FEDATLAS_MIRROR" in message
    assert nothing_left(tmp_path)


def test_a_file_behind_a_login_is_explained(fetch):
    raw = RawFile(path="kaggle/x.csv", login="Sign in at example.org and press Download.")
    with pytest.raises(FedatlasError) as caught:
        fetch(raw)
    assert "It needs an account. Sign in at example.org" in str(caught.value)
    assert "kaggle/x.csv" in str(caught.value) and "FEDATLAS_MIRROR" in str(caught.value)


def test_a_labelled_encoding_does_not_change_the_bytes(server, fetch):
    packed = gzip.compress(CONTENT)
    server.headers["Content-Encoding"] = "gzip"
    assert fetch(server.raw(packed, "a.gz", checksum=md5(packed))).read_bytes() == packed


def test_the_mirror_wins_and_is_verified(server, fetch, tmp_path):
    mirror = tmp_path / "mirror"
    (mirror / "libsvm").mkdir(parents=True)
    (mirror / "libsvm" / "a9a").write_bytes(CONTENT)
    raw = RawFile(path="libsvm/a9a", urls=(server.url("/a9a"),), checksum=md5(CONTENT))
    output = fetch(raw, mirror=mirror)
    assert output.read_bytes() == CONTENT
    assert server.requests == []
    output.unlink()
    (mirror / "libsvm" / "a9a").write_bytes(b"damaged")
    with pytest.raises(FedatlasError) as caught:
        fetch(raw, mirror=mirror)
    assert str(mirror / "libsvm" / "a9a") in str(caught.value)
    assert md5(CONTENT) in str(caught.value) and md5(b"damaged") in str(caught.value)
    assert not output.exists()


def test_an_unknown_checksum_is_recorded_once_read_and_verified_ever_after(server, fetch, tmp_path):
    lock = tmp_path / LOCK
    raw = RawFile(path="libsvm/a", urls=(server.url("/a"),))
    server.files["/a"] = b"what no reader can read"
    fetch(raw, read=False)
    assert not lock.exists()
    server.files["/a"] = CONTENT  # taken without more ado
    output = fetch(raw)
    recorded = f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"
    assert json.loads(lock.read_text()) == {"libsvm/a": recorded}
    fetch(raw)  # the same file passes

    server.files["/a"] = b"changed"
    with pytest.raises(FedatlasError) as caught:
        fetch(raw)
    message = str(caught.value)
    assert recorded in message and hashlib.sha256(b"changed").hexdigest() in message
    assert f'delete "libsvm/a" from {lock}' in message
    assert output.read_bytes() == CONTENT

    lock.write_text("{}")  # as the message says
    assert fetch(raw).read_bytes() == b"changed"


def test_an_own_file_is_taken_again_once_it_changed_in_the_mirror(fetch, tmp_path, caplog):
    lock = tmp_path / LOCK
    own = written(tmp_path / "own", CONTENT)
    raw = RawFile(path="own")
    output = fetch(raw, mirror=tmp_path)
    assert not caplog.records and own.write_bytes(b"mended")
    fetch(raw, mirror=tmp_path)
    assert output.read_bytes() == b"mended"
    old, new = sha256(CONTENT), sha256(b"mended")
    assert f"{own}: has changed, from {old} to {new}; taken, as it is your own" in caplog.text
    assert json.loads(lock.read_text()) == {"own": new}
    # A file that others have stays what it was, also from a mirror.
    shared = RawFile(path="own", urls=("http://127.0.0.1:9/own",))
    own.write_bytes(b"other")
    with pytest.raises(FedatlasError, match="own: own differs from the file that was"):
        fetch(shared, mirror=tmp_path)


def edited(mirror):
    (mirror / "v1/own.gz").write_bytes((mirror / "v2/own.gz").read_bytes())


def switched(mirror):
    (mirror / "now").unlink()
    (mirror / "now").symlink_to("v2")


def replaced(mirror):
    (mirror / "v2/own.gz").rename(mirror / "v1/own.gz")


@pytest.mark.parametrize("change", [edited, switched, replaced])
@pytest.mark.parametrize("raw", [RawFile(path="own.gz"), RawFile(path="own.gz", decompress="gz")])
def test_every_change_of_an_own_file_is_noticed(fetch, tmp_path, monkeypatch, raw, change):
    """Of equal size, and older than the copy; without one the file is not read."""
    contents = [gzip.compress(rows, mtime=0) for rows in (b"1 1:1\n", b"1 1:9\n")]
    for folder, content, time in zip(("v1", "v2"), contents, (2 << 60, 1 << 60), strict=True):
        (tmp_path / folder).mkdir()
        written(tmp_path / folder / "own.gz", content)
        os.utime(tmp_path / folder / "own.gz", ns=(time, time))
    (tmp_path / "now").symlink_to("v1")
    before, after = map(sha256, contents)
    mirror, copy, lock = tmp_path / "now", tmp_path / "results/raw/data", tmp_path / LOCK
    assert content_of(raw, None, copy, lock) is None
    assert content_of(raw, mirror, copy, lock) == before
    fetch(raw, mirror=mirror)
    os.utime(copy, ns=(3 << 60, 3 << 60))
    with monkeypatch.context() as patch:
        patch.setattr("fedatlas.data.raw_files.file_digest", None)
        assert content_of(raw, mirror, copy, lock) == content_of(raw, None, copy, lock) == before
    kept = origin_file(copy).rename(tmp_path / "kept")  # as after results/raw was removed
    assert content_of(raw, None, copy, lock) == before
    kept.rename(origin_file(copy))

    change(tmp_path)
    assert content_of(raw, mirror, copy, lock) == after
    fetch(raw, mirror=mirror)
    assert content_of(raw, mirror, copy, lock) == after


def test_a_file_that_changes_while_it_is_copied_is_refused(fetch, tmp_path, monkeypatch):
    own = written(tmp_path / "own", CONTENT)
    copyfile = shutil.copyfile

    def copy_and_edit(source, target):
        copyfile(source, target)
        own.write_bytes(b"more")

    monkeypatch.setattr("shutil.copyfile", copy_and_edit)
    with pytest.raises(FedatlasError, match="own: changed while it was copied"):
        fetch(RawFile(path="own"), mirror=tmp_path)
    assert nothing_left(tmp_path / "results")


def test_a_damaged_origin_is_no_hindrance(fetch, tmp_path):
    own = written(tmp_path / "own", CONTENT)
    copy = fetch(RawFile(path="own"), mirror=tmp_path)
    assert read_origin(copy).checksum == sha256(CONTENT)
    origin_file(copy).write_text("{")
    assert content_of(RawFile(path="own"), tmp_path, copy) == sha256(CONTENT)
    own.write_bytes(b"mended")
    assert fetch(RawFile(path="own"), mirror=tmp_path).read_bytes() == b"mended"


@pytest.mark.parametrize("content", ["not JSON", "[]", '{"a": 1}'])
def test_a_damaged_lock_file_is_named(server, fetch, tmp_path, content):
    server.files["/a"] = CONTENT
    lock = tmp_path / LOCK
    lock.parent.mkdir()
    lock.write_text(content)
    with pytest.raises(FedatlasError, match=r"checksums\.lock\.json: "):
        fetch(RawFile(path="a", urls=(server.url("/a"),)))


def _record_many(lock, folder, first, count):
    for i in range(first, first + count):
        path = folder / str(i)
        path.write_text(str(i))
        record(RawFile(path=f"f/{i}", urls=("http://127.0.0.1/",)), sha256(path.read_bytes()), lock)


def test_processes_that_record_at_once_lose_nothing(tmp_path):
    context = multiprocessing.get_context("fork")
    lock = tmp_path / "lock.json"
    writers = [
        context.Process(target=_record_many, args=(lock, tmp_path, 20 * i, 20)) for i in range(3)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    expected = {
        f"f/{i}": f"sha256:{hashlib.sha256(str(i).encode()).hexdigest()}" for i in range(60)
    }
    assert json.loads(lock.read_text()) == expected


XHTML = (
    '<?xml version="1.0"?>\n<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Strict//EN" "x"><html/>'
)
LFS = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("\n<!DOCTYPE html><title>Please log in</title>", "is a web page"),
        ("<HTML lang=en>", "is a web page"),
        ("<!-- from the cache -->\n<html><body>Sign in", "is a web page"),
        ("\ufeff \n<!doctype HTML><script>", "is a web page"),
        (XHTML, "is a web page"),
        ("\ufeff" + XHTML, "is a web page"),
        ("<script>location = '/challenge'</script>", "is a web page"),
        ("", "is empty"),
        ('{"error": {"code": 404}}\n', "is a web page or a message"),
        (LFS, "is Git LFS's pointer to a: get the file itself"),
    ],
)
def test_what_is_evidently_not_the_file_is_refused(server, fetch, tmp_path, body, problem):
    with pytest.raises(FedatlasError, match=re.escape(problem)):
        fetch(server.raw(body.encode()))
    assert server.requests == ["/a"] and nothing_left(tmp_path)
    (tmp_path / "a").write_text(body)
    with pytest.raises(FedatlasError, match=rf"{tmp_path}/a: {re.escape(problem)}"):
        fetch(RawFile(path="a"), mirror=tmp_path)


@pytest.mark.parametrize("body", ["<OPEN>,<HIGH>\n1,2\n", "{a},{b}\n1,2\n", "<header>,y\n1,2\n"])
def test_tables_that_look_a_little_like_pages_pass(server, fetch, body):
    assert fetch(server.raw(body.encode())).read_text() == body


@pytest.mark.parametrize("status", [202, 204, 206])
def test_other_answers_than_a_whole_file_are_refused(server, fetch, tmp_path, status):
    server.success = status
    with pytest.raises(FedatlasError, match=f"answered with status {status} "):
        fetch(server.raw(b"" if status == 204 else CONTENT))
    assert nothing_left(tmp_path)


@pytest.mark.parametrize("promised", [True, False])
def test_a_download_stops_at_its_limit(server, fetch, tmp_path, promised):
    server.promises = promised
    raw = server.raw(bytes(3 * MIB), unpacked_limit_gib=2 / 1024)
    with pytest.raises(FedatlasError, match=r"larger than 0\.00195312 GiB.*'unpacked_limit_gib'"):
        fetch(raw)
    assert nothing_left(tmp_path)
    assert fetch(raw.model_copy(update={"unpacked_limit_gib": 3 / 1024})).stat().st_size == 3 * MIB


COMPRESSIONS = pytest.mark.parametrize(
    ("compression", "compress"),
    [("gz", gzip.compress), ("bz2", bz2.compress), ("xz", lzma.compress)],
)


@COMPRESSIONS
def test_a_compressed_file_is_verified_as_served_and_decompressed(
    server, fetch, tmp_path, compression, compress
):
    packed, path = compress(CONTENT), f"a.{compression}"
    raw = server.raw(packed, path, decompress=compression, checksum=md5(packed))
    output = fetch(raw)
    assert output.read_bytes() == CONTENT
    output.unlink()

    # Damage that no checksum notices, because none is known: nothing is kept, nothing recorded.
    server.files[f"/{path}"] = packed[: len(packed) // 2]
    with pytest.raises(FedatlasError, match="it is damaged"):
        fetch(raw.model_copy(update={"checksum": None}))
    assert nothing_left(tmp_path)


@COMPRESSIONS
def test_a_bomb_is_stopped_at_the_bound(tmp_path, compression, compress):
    bomb = tmp_path / "bomb"
    bomb.write_bytes(compress(bytes(8 * MIB)))
    with pytest.raises(FedatlasError, match=r"bomb: unpacks to more than 3145728 bytes.*unpacked_"):
        decompress_file(bomb, compression, tmp_path / "out", 3 * MIB)
    assert (tmp_path / "out").stat().st_size <= 3 * MIB
    decompress_file(bomb, compression, tmp_path / "out", 8 * MIB)
    assert (tmp_path / "out").read_bytes() == bytes(8 * MIB)


def tree(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


GOOD_TREE = {"images/1.png": b"one", "images/deep/2.png": b"two", "empty": b""}


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("tar", tar_of(special("images", tarfile.DIRTYPE), *GOOD, compression="gz")),
        ("tar", tar_of(*GOOD)),
        ("tar", tar_of(*GOOD, compression="bz2")),
        ("tar", tar_of(*GOOD, compression="xz")),
        ("zip", zip_of(("images/", b""), *GOOD)),
    ],
)
def test_a_sound_archive_is_unpacked(server, fetch, kind, content):
    raw = server.raw(content, f"x.{kind}", unpack=kind, checksum=md5(content))
    output = fetch(raw)
    assert tree(output) == GOOD_TREE
    (output / "stale").write_text("from an older version")
    assert tree(fetch(raw)) == GOOD_TREE
    assert list(output.parent.iterdir()) == [output]


def test_what_users_pack_themselves_may_be_packed_again(fetch, tmp_path):
    raw = RawFile(path="x.tar", unpack="tar", login="Pack it.", self_made=True)
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    (mirror / "x.tar").write_bytes(tar_of(("images/other", b"1")))
    fetch(raw, mirror=mirror)
    (mirror / "x.tar").write_bytes(tar_of(*GOOD))
    assert tree(fetch(raw, mirror=mirror)) == GOOD_TREE
    assert not (tmp_path / LOCK).exists()
    for other in ({"urls": ("http://a.org/x",)}, {"checksum": md5(b"")}, {"login": None}):
        with pytest.raises(ValidationError, match="'self_made' goes with 'login'"):
            RawFile(**{**raw.model_dump(), **other})


def test_a_damaged_archive_is_named_as_the_mirror_has_it(fetch, tmp_path):
    (tmp_path / "x.tar").write_bytes(b"no archive")
    with pytest.raises(FedatlasError, match=rf"^{re.escape(str(tmp_path / 'x.tar'))}: "):
        fetch(RawFile(path="x.tar", unpack="tar"), mirror=tmp_path)


def members_of(server, archive, known=True, **contents):
    """Raw files that are members of one archive on the server, which it serves as /x."""
    server.files["/x"] = archive
    checksum = md5(archive) if known else None
    whole = RawFile(
        path="cifar/x.tar.gz", urls=(server.url("/x"),), checksum=checksum, unpack="tar"
    )
    return [
        RawFile(path=f"cifar/{name}", archive=whole, member=f"py/{name}", checksum=md5(content))
        for name, content in contents.items()
    ]


@pytest.mark.parametrize("known", [True, False])
def test_members_share_one_download_of_their_archive(server, fetch, tmp_path, known):
    archive = tar_of(("py/one", b"1"), ("py/two", b"22"))
    one, two = members_of(server, archive, known, one=b"1", two=b"22")
    assert fetch(one).read_bytes() == b"1"
    assert fetch(two).read_bytes() == b"22"
    assert server.requests == ["/x"]
    kept = tmp_path / "results" / "archives" / "cifar" / "x.tar.gz"
    kept.write_bytes(b"damaged on disk")
    assert fetch(two).read_bytes() == b"22"
    assert server.requests == ["/x", "/x"]


def test_a_mirror_may_hold_the_member_or_the_archive(server, fetch, tmp_path):
    archive = tar_of(("py/one", b"1"), ("py/two", b"22"))
    one, two = members_of(server, archive, one=b"1", two=b"22")
    mirror = tmp_path / "mirror" / "cifar"
    mirror.mkdir(parents=True)
    (mirror / "one").write_bytes(b"1")
    assert fetch(one, mirror=mirror.parent).read_bytes() == b"1"
    (mirror / "x.tar.gz").write_bytes(archive)
    assert fetch(two, mirror=mirror.parent).read_bytes() == b"22"
    assert server.requests == []
    (mirror / "x.tar.gz").write_bytes(archive + b"x")
    with pytest.raises(FedatlasError, match="wrong checksum"):
        fetch(two, mirror=mirror.parent)


def test_a_wrong_or_missing_member_is_refused(server, fetch, tmp_path):
    archive = tar_of(("py/one", b"1"))
    wrong, missing = members_of(server, archive, one=b"2", two=b"22")
    with pytest.raises(FedatlasError) as caught:
        fetch(wrong)
    assert md5(b"1") in str(caught.value) and md5(b"2") in str(caught.value)
    with pytest.raises(FedatlasError, match="has no member 'py/two'"):
        fetch(missing)
    assert not (tmp_path / "results" / "raw" / "data").exists()


def test_a_folder_that_cannot_be_written_is_named(server, fetch, tmp_path):
    (tmp_path / "file").write_text("in the way")
    raw = server.raw(checksum=md5(CONTENT))
    with pytest.raises(FedatlasError, match=r"cannot write .*file/a: .*Make the folder"):
        fetch(raw, destination=tmp_path / "file" / "a")
