"""What errors about raw files say that their user is to do."""

import json

import pytest

from catalogue_entry import tiny, written
from fedatlas.data.catalogue import with_remedies
from fedatlas.data.prepare import prepare
from fedatlas.errors import FedatlasError

OWN = {"path": "libsvm/own"}
SHARED = {"path": "libsvm/own", "urls": ["https://example.org/own"]}
ZIPPED = OWN | {"archive": {"path": "own.zip", "unpack": "zip"}, "member": "rows"}


def told(tmp_path, content, file, **changes):
    """The lines of the error, with the copy's name for its path."""
    dataset = tiny(**{"splits": {"train": {"files": [file]}}, **changes})
    raw = [written(tmp_path / "copy", content)]
    with (
        pytest.raises(FedatlasError) as caught,
        with_remedies(dataset.split("train").files, raw, tmp_path / "mirror", tmp_path / "lock"),
    ):
        prepare(dataset, "train", raw, tmp_path / "out.parquet")
    return str(caught.value).replace(f"{tmp_path}/", "").splitlines()


@pytest.mark.parametrize(
    ("file", "remedy"),
    [
        (OWN, ["Where the file is at fault, mend mirror/libsvm/own; copy is its copy"]),
        (
            SHARED,
            ["To take another libsvm/own than the first, delete copyRECORDED, and run again"],
        ),
        (
            ZIPPED,
            [
                "Where the file is at fault, mend member rows of mirror/own.zip, or of "
                "mirror/libsvm/own; copy is its copy"
            ],
        ),
        (SHARED | {"checksum": f"md5:{'0' * 32}"}, []),
    ],
)
@pytest.mark.parametrize("recorded", [True, False])
def test_a_malformed_file_is_traced_to_where_it_is_to_be_mended(tmp_path, file, remedy, recorded):
    line = " and the line of libsvm/own in lock" if recorded else ""
    remedy = [text.replace("RECORDED", line) for text in remedy]
    if recorded:
        (tmp_path / "lock").write_text(json.dumps({"libsvm/own": f"sha256:{'0' * 64}"}))
    lines = told(tmp_path, "1 1:1\n\n0 1:2\n", file)
    assert lines == ["copy:2: missing label: the line is blank", *remedy]
    if remedy:
        wrong = {"splits": {"train": {"files": [file], "rows": 9}}}
        assert told(tmp_path, "1 1:1\n0 1:2\n", file, **wrong)[1:] == remedy
