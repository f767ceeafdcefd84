import csv
import io
import os
import string
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.preprocessing import OneHotEncoder

from catalogue_entry import COLUMNS, PUBLISHED, written
from fedatlas.data.formats import read_raw
from fedatlas.data.formats.columns import OneHot
from fedatlas.data.formats.csv import CsvTable, read_csv
from fedatlas.errors import FedatlasError

SIGNS = {0: -1.0, 1: 1.0}
TABLE = CsvTable.model_validate(COLUMNS)
HEADER = "id,y,a,c,n"


def changed(**changes):
    return CsvTable.model_validate(TABLE.model_dump() | changes)


def test_columns_are_encoded_in_the_order_of_the_catalogue(tmp_path):
    text = f"{HEADER}\n7,1,-2.5,z,0\n8,0,1e+05,x,4\n"
    samples = read_csv(written(tmp_path / "t", text), TABLE, SIGNS)
    assert TABLE.feature_names == ["a", "c=x", "c=y", "c=z", "n=0", "n=1", "n=5"]
    assert samples.features.tolist() == [[-2.5, 0, 0, 1, 1, 0, 0], [1e5, 1, 0, 0, 0, 1, 0]]
    assert samples.label.tolist() == [1, -1]
    assert samples.sample_id.tolist() == [0, 1]
    other = "n,c,a,y,id\n0,z,-2.5,1,7\n4,x,1e+05,0,8\n"
    same = read_csv(written(tmp_path / "u", other), TABLE, SIGNS)
    assert same.features.tolist() == samples.features.tolist()


@pytest.mark.parametrize(
    "text",
    [
        "id,y,a,c,n\r\n1,1,2,x,0\r\n2,0,3,y,1\r\n",
        "id,y,a,c,n\r1,1,2,x,0\r2,0,3,y,1",
        "\ufeffid,y,a,c,n\n1,1,2,x,0\n2,0,3,y,1\n\n \n",
        '\ufeff"id","y","a","c","n"\n"1, ""a""","1","2","x","0"\n2,0,3,y,1',
        "id,y,a,c,n\n1,+1.0, 2 , x,00\n2,-0,3.0,y ,1e0\n",
    ],
)
def test_line_ends_quotes_marks_and_spaces_are_understood(tmp_path, text):
    samples = read_csv(written(tmp_path / "t", text), TABLE, SIGNS)
    assert samples.features[:, :4].tolist() == [[2, 1, 0, 0], [3, 0, 1, 0]]
    assert samples.label.tolist() == [1, -1]


def test_two_categories_make_one_column_and_a_column_may_have_no_name(tmp_path):
    table = CsvTable.model_validate(
        {"label": "y", "ignore": [""], "one_hot": [{"column": "s", "values": [1, 2]}]}
    )
    samples = read_csv(written(tmp_path / "t", '"",y,s\n1,0,2\n2,1,1\n'), table, None)
    assert table.feature_names == ["s=2"] and table.numeric == ()
    assert samples.features.tolist() == [[1], [0]]
    assert samples.label.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("count", "position"), [("0", 0), ("0.5", 0), ("1", 1), ("4", 1), ("5", 2), ("1e9", 2)]
)
def test_a_count_that_is_not_listed_is_the_next_listed_below(tmp_path, count, position):
    samples = read_csv(written(tmp_path / "t", f"{HEADER}\n1,1,0,x,{count}\n"), TABLE, SIGNS)
    assert samples.features[0, 4:].tolist() == np.eye(3)[position].tolist()


def failure(tmp_path, content, table=TABLE, labels=SIGNS):
    """The error, which starts with the file, without its place."""
    path = written(tmp_path / "t", content)
    with pytest.raises(FedatlasError) as caught:
        read_csv(path, table, labels)
    assert str(caught.value).startswith(f"{path}:")
    return str(caught.value).removeprefix(f"{path}:")


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("2,1,3,x", "3: 4 fields, but the header has 5"),
        ("2,1,3,x,1,9", "3: 6 fields, but the header has 5"),
        ("", "3: the line is blank"),
        (" ", "3: the line is blank"),
        ("2,1,3,x\0,1", r"3: column 'c': 'x\x00' is not one of"),
        ('2,1,3,"x,1', "3: is not CSV text: unexpected end of data"),
        ('2,1,3,"x"y,1', "3: is not CSV text: ',' expected after '\"'"),
        (b"2,1,3,\xff,1", " is not UTF-8 text"),
        *((f"2,1,{a},x,1", f"3: column 'a': '{a}'") for a in ("abc", "1_0", "\uff11", "nan")),
        *((f"2,1,{a},x,1", f"3: column 'a': '{a}'") for a in ("-inf", "1e400")),
        ("2,1," + "9" * 5000 + ",x,1", "3: column 'a': '9"),
        ("2,1,3,w,1", "3: column 'c': 'w' is not one of those under 'values'"),
        *((f"2,1,3,x,{n}", f"3: column 'n': '{n}' is not a num") for n in ("-1", "inf", "few")),
        ("2,2,3,x,1", "3: column 'y': '2' is not one of those under 'labels'"),
        ("2,1,NA,x,1", "3: column 'a' lacks a value; 'drop_missing: true'"),
        ("2,,3,x,1", "3: column 'y' lacks a value"),
        ("2,1,3,x, ", "3: column 'n' lacks a value"),
    ],
)
def test_a_malformed_row_is_named_with_its_line_and_column(tmp_path, row, problem):
    row = row if isinstance(row, bytes) else row.encode()
    content = b"id,y,a,c,n\n1,1,2,x,0\n" + row + b"\n3,0,2,x,0\n"
    assert failure(tmp_path, content).startswith(problem)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", " is empty"),
        ("\ufeff", " is empty"),
        ("\n\n", " is empty"),
        (HEADER, " holds no samples"),
        ("id,y,a,c\n1,1,2,x\n", "1: columns 'n' are missing"),
        ("id,y,a,c,n,a\n1,1,2,x,0,3\n", "1: columns 'a' occur twice"),
        ("id,y,a,c,n,m\n1,1,2,x,0,3\n", "1: columns 'm' are not in the catalogue"),
        ("id,y,A,c,n\n1,1,2,x,0\n", "1: columns 'a' are missing; columns 'A' are not"),
        (
            "id;y;a;c;n\n1;1;2;x;0\n",
            "1: columns 'y', 'a', 'c', 'n', 'id' are missing; columns 'id;",
        ),
        ("id,id,y,a,c,n\n1,1,1,2,x,0\n1,1,1,1", "3: 4 fields, but the header has 6"),
        (HEADER.encode("utf-16"), " is not UTF-8 text"),
    ],
)
def test_a_wrong_file_or_header_is_named(tmp_path, content, problem):
    assert failure(tmp_path, content).startswith(problem)


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_fields_are_divided_by_the_declared_delimiter(tmp_path, delimiter):
    text = f"{HEADER}\n1,1,-2.5,z,0\n2,0,1e5,x,\n,,,,\n".replace(",", delimiter)
    table = changed(drop_missing=True, delimiter=delimiter)
    samples = read_csv(written(tmp_path / "t", text), table, SIGNS)
    assert samples.features.tolist() == [[-2.5, 0, 0, 1, 1, 0, 0]]


def test_rows_that_lack_a_value_are_left_out_where_that_is_declared(tmp_path, caplog):
    text = f"{HEADER}\n1,1,NA,x,0\n,0,2,y,1\n3,1,3,,5\n4,NA,3,z,5\n5,1,4,z,5\n"
    samples = read_csv(written(tmp_path / "t", text), changed(drop_missing=True), SIGNS)
    assert samples.features[:, 0].tolist() == [2, 4]
    assert samples.label.tolist() == [-1, 1]
    assert samples.sample_id.tolist() == [0, 1]
    assert "t: 'drop_missing: true' leaves out 3 of 5 rows, which lack a value: " in caplog.text
    assert "'y' in 1, 'a' in 1, 'c' in 1" in caplog.text
    none = failure(tmp_path, f"{HEADER}\n1,1,NA,x,0\n", changed(drop_missing=True))
    assert none == " every row lacks a value"


letters = st.text(string.ascii_letters + " ,'\"é", min_size=1, max_size=5).filter(
    lambda text: text == text.strip() and text.lower() not in ("na", "nan", "inf", "infinity")
)


@settings(max_examples=50)
@given(st.data())
def test_the_encoding_is_that_of_scikit_learn(tmp_path, data):
    kinds = st.one_of(letters, st.integers(-99, 99).map(str))
    values = data.draw(st.lists(kinds, min_size=2, max_size=5, unique_by=str.casefold))
    numbers = st.floats(allow_nan=False, allow_infinity=False)
    row = st.tuples(numbers, st.sampled_from(values), st.sampled_from(["p", "q"]), numbers)
    rows = data.draw(st.lists(row, min_size=1, max_size=12))
    frame = pd.DataFrame(rows, columns=["number", "kind", "pair", "y"])
    ending = data.draw(st.sampled_from(["\n", "\r\n"]))
    quoting = data.draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
    text = frame.to_csv(index=False, lineterminator=ending, quoting=quoting)
    table = CsvTable.model_validate(
        {
            "label": "y",
            "numeric": ["number"],
            "one_hot": [
                {"column": "kind", "values": values},
                {"column": "pair", "values": ["p", "q"]},
            ],
        }
    )
    samples = read_csv(written(tmp_path / "data", text), table, None)
    encoder = OneHotEncoder(
        categories=[values, ["p", "q"]], drop="if_binary", sparse_output=False
    ).fit(frame[["kind", "pair"]])
    expected = np.column_stack([frame["number"], encoder.transform(frame[["kind", "pair"]])])
    assert np.array_equal(samples.features, expected)
    assert samples.label.tolist() == frame["y"].tolist()
    encoded = (f"kind={v}" for v in (values if len(values) > 2 else values[1:]))
    assert table.feature_names == ["number", *encoded, "pair=q"]


def small(**table):
    """A table with a label y and a number a, unless more is given."""
    return CsvTable.model_validate({"label": "y", "numeric": ["a"], **table})


def read(tmp_path, text, labels=None, **table):
    """Labels and features of a file of a small table."""
    samples = read_csv(written(tmp_path / "t", text), small(**table), labels)
    return samples.label.tolist(), samples.features.tolist()


def test_quoted_values_are_texts_and_bare_ones_numbers(tmp_path):
    codes = {"column": "v", "values": ["3.10", "3.1", "007", 7, 3, "1E2"]}
    texts = ["3.10", "3.1", "007", "7", "7.0", "07", "3", "3.00", "1E2", " 3.1 "]
    text = "y,v\n" + "".join(f"0,{text}\n" for text in texts)
    _, features = read(tmp_path, text, numeric=[], one_hot=[codes])
    assert [row.index(1) for row in features] == [0, 1, 2, 3, 3, 3, 4, 4, 5, 1]
    for other in ("3.100", "100"):
        with pytest.raises(FedatlasError, match=f"t:2: column 'v': '{other}' is not one of"):
            read(tmp_path, f"y,v\n0,{other}\n", numeric=[], one_hot=[codes])
    labels = {"01": 1.0, 1: -1.0}
    assert read(tmp_path, "y,a\n01,0\n1,0\n1.0,0\n", labels)[0] == [1, -1, -1]
    with pytest.raises(FedatlasError, match=r"column 'y': '1.0' is not one of"):
        read(tmp_path, "y,a\n1.0,0\n", {"0": -1.0, "1": 1.0})


listable = st.one_of(
    st.integers(-30, 30),
    st.sampled_from([0.5, 1.0, 2.50, 1e20]),
    st.from_regex(r"[0-9]{1,3}(\.[0-9]{1,2})?|[a-c]{1,2}|nan|NA|\?", fullmatch=True),
)


@settings(max_examples=50)
@given(st.lists(listable, min_size=2, max_size=6), st.data())
def test_a_listed_value_is_found_by_its_own_text_before_any_number(tmp_path, values, data):
    try:
        one = OneHot(column="v", values=values)
    except ValueError:
        return  # two that cannot be told apart
    position = data.draw(st.integers(0, len(values) - 1))
    raw = values[position]
    texts = [str(raw)]
    if not isinstance(raw, str):
        quoted = [value for value in values if isinstance(value, str)]
        texts += [x for x in (f"+{abs(raw)}", f"00{abs(raw)}", f"{raw:.3f}") if x not in quoted]
        texts = [x for x in texts if float(x) == raw]
    for text in texts:
        table = {"numeric": ["a"], "one_hot": [one], "missing": ["?", "NA", "nan"]}
        _, features = read(tmp_path, f"y,a,v\n1,1,{text}\n", **table)
        encoded = np.eye(len(values))[position, -len(one.feature_names) :]
        assert features == [[1, *encoded]]


@pytest.mark.parametrize(
    ("missing", "kept"),
    [
        (["?", "N/A"], [5, -1]),  # NA is none then, and no number either
        (["?", "N/A", "NA", -1], [5]),
        (["?", "N/A", "NA", "-1"], [5, -1]),
    ],
)
def test_declared_codes_stand_for_missing_values(tmp_path, missing, kept):
    rows = "0,?\n0, N/A \n1,5\n1,\n1,-1.0\n" + ("1,NA\n" if "NA" in missing else "")
    labels, features = read(tmp_path, f"y,a\n{rows}", drop_missing=True, missing=missing)
    assert [value for (value,) in features] == kept and labels == [1] * len(kept)
    with pytest.raises(FedatlasError, match="t:2: column 'a' lacks a value"):
        read(tmp_path, f"y,a\n{rows}", missing=missing)
    count = {"column": "n", "values": [0, 2], "otherwise": "next_below"}
    counted = read(
        tmp_path, "y,n\n0,9\n1,-1\n", numeric=[], one_hot=[count], missing=[-1], drop_missing=True
    )
    assert counted == ([0], [[1]])


def test_what_is_listed_is_a_value_though_it_looks_missing(tmp_path):
    land = {"column": "land", "values": ["NA", "nan", "", "?"]}
    text = "y,land\nNA,nan\nb,NA\nb,\nb,?\n"
    labels, features = read(
        tmp_path, text, {"NA": 1.0, "b": -1.0}, numeric=[], one_hot=[land], missing=["?", "NA"]
    )
    assert labels == [1, -1, -1, -1]
    assert [row.index(1) for row in features] == [1, 0, 2, 3]


def test_decimal_commas(tmp_path):
    text = "y;a\n0,5;-1,25e2\n2;,5\n"
    assert read(tmp_path, text, delimiter=";", decimal=",") == ([0.5, 2], [[-125], [0.5]])
    for number in ("1.5", "1.234,5", "1,2,3"):
        table = small(delimiter=";", decimal=",")
        assert f"'{number}' is not" in failure(tmp_path, f"y;a\n0;{number}\n", table, None)
    assert "2: column 'y': '0,5'" in failure(tmp_path, text, small(delimiter=";"), None)


def test_ignored_columns_may_share_a_name(tmp_path):
    assert read(tmp_path, "x\ty\ta\tx\n9\t1\t2\t9\n", delimiter="\t", ignore=["x"]) == ([1], [[2]])
    assert read(tmp_path, "y|a||\n1|2||\n", delimiter="|", ignore=[""]) == ([1], [[2]])
    assert failure(tmp_path, "y,a\n1,2,\n", small()).startswith("2: 3 fields, but the header has 2")


def test_quoted_fields_hold_line_breaks_and_lines_are_still_counted(tmp_path):
    note = 'y,a,note\n1,1,"two\r\nor ""three"",\nlines"\n0,2,x\n'
    table = {"ignore": ["note"]}
    assert read(tmp_path, note, **table) == ([1, 0], [[1], [2]])
    bad = {"1,x,z": "column 'a': 'x'", "1,2": "2 fields", "1,,z": "column 'a' l"}
    for row, problem in bad.items():
        assert failure(tmp_path, f"{note}{row}\n", small(**table), None).startswith(f"6: {problem}")
    unclosed = failure(tmp_path, f'{note}1,2,"open\n3,4,x\n', small(**table), None)
    assert unclosed.startswith("6: is not CSV text")


def test_quotes_may_be_plain_characters(tmp_path):
    inches = 'y,a,note\n1,1,5" nail\n0,2,3"\n'
    assert read(tmp_path, inches, ignore=["note"]) == ([1, 0], [[1], [2]])
    table = {"ignore": ["note"], "quoting": "none"}
    text = 'y,a,note\n1,1,"big" nail\n0,2,"\n'
    assert read(tmp_path, text, **table) == ([1, 0], [[1], [2]])
    assert "'quoting: none'" in failure(tmp_path, text, small(ignore=["note"]), None)


def test_fields_may_be_long(tmp_path):
    text = f"y,a,note\n1,1,{'x' * 3_000_000}\n"
    assert read(tmp_path, text, ignore=["note"]) == ([1], [[1]])


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "shift_jis"])
def test_text_may_be_of_a_declared_encoding(tmp_path, encoding):
    city, other = ("東京", "大阪") if encoding == "shift_jis" else ("Köln", "Bonn")
    text = f"y,city\n1,{city}\n0,{other}\n".encode(encoding)
    one_hot = [{"column": "city", "values": [other, city]}]
    found = read(tmp_path, text, numeric=[], one_hot=one_hot, encoding=encoding)
    assert found == ([1, 0], [[1], [0]])
    undeclared = failure(tmp_path, text, small(numeric=[], one_hot=one_hot))
    assert "is not UTF-8 text" in undeclared and "'encoding'" in undeclared


def test_a_file_may_lack_a_header_line(tmp_path):
    text = "39, Gov, 1\n50, Private, 0\n"
    work = {"column": "work", "values": ["Private", "Gov"]}
    table = {"one_hot": [work], "header": ["a", "work", "y"]}
    assert read(tmp_path, text, **table) == ([1, 0], [[39, 1], [50, 0]])
    for content, problem in {"1,Gov,1\nx,Gov,1\n": "2: column 'a': 'x'", "\n": " holds no"}.items():
        assert failure(tmp_path, content, small(**table), None).startswith(problem)
    assert "'header'" in failure(tmp_path, text, small(one_hot=[work]), None)


GIVE_ME_SOME_CREDIT = """\
"","SeriousDlqin2yrs","RevolvingUtilizationOfUnsecuredLines","age",\
"NumberOfTime30-59DaysPastDueNotWorse","DebtRatio","MonthlyIncome",\
"NumberOfOpenCreditLinesAndLoans","NumberOfTimes90DaysLate","NumberRealEstateLoansOrLines",\
"NumberOfTime60-89DaysPastDueNotWorse","NumberOfDependents"
1,1,0.766126609,45,2,0.802982129,9120,13,0,6,0,2
2,0,0.957151019,40,0,0.121876201,2600,4,0,0,0,1
3,0,0.23381,30,0,36,NA,5,0,0,0,0
4,0,0.9999999,27,98,0.01,NA,0,98,0,98,NA
5,0,0.5,65,98,0.25,3500.0,8,16,54,98,12
"""


def test_give_me_some_credit_reaches_the_papers_number_of_features(tmp_path):
    entry = PUBLISHED["give-me-some-credit"]
    samples = read_raw(entry, "train", [written(tmp_path / "t.csv", GIVE_ME_SOME_CREDIT)])
    assert samples.features.shape == (3, 92)
    assert samples.label.tolist() == [1, -1, -1]
    assert samples.features[2, :5].tolist() == [0.5, 65, 0.25, 3500, 8]
    names = entry.csv.feature_names
    held = [names[j] for j in range(5, 92) if samples.features[2, j]]
    assert held == [
        "NumberOfTime30-59DaysPastDueNotWorse=98",
        "NumberOfTimes90DaysLate=15",
        "NumberRealEstateLoansOrLines=25",
        "NumberOfTime60-89DaysPastDueNotWorse=98",
        "NumberOfDependents=10",
    ]


def test_the_credit_cards_are_encoded_as_pandas_does():
    mirror = os.environ.get("FEDATLAS_MIRROR")
    path = Path(mirror or "", "kaggle", "UCI_Credit_Card.csv")
    if not mirror or not path.is_file():
        pytest.skip("needs kaggle/UCI_Credit_Card.csv in the folder that FEDATLAS_MIRROR names")
    entry = PUBLISHED["uci-credit-card"]
    samples = read_raw(entry, "train", [path])
    frame = pd.read_csv(io.BytesIO(path.read_bytes()))
    one_hot = [one.column for one in entry.csv.one_hot]
    numeric = frame.drop(columns=["ID", "default.payment.next.month", *one_hot])
    # Every value that occurs has a column, and every column a row.
    indicators = pd.get_dummies(frame[one_hot].astype(str)).drop(columns="SEX_1")
    assert samples.features.shape == (30000, 90) == (len(frame), 14 + indicators.shape[1])
    assert np.array_equal(samples.features[:, :14], numeric)
    names = [name.replace("=", "_") for name in entry.csv.feature_names[14:]]
    assert np.array_equal(samples.features[:, 14:], indicators[names])
    assert (samples.label == 1).sum() == 6636
