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

from catalogue_entry import PUBLISHED, written
from fedatlas.data.formats import read_raw
from fedatlas.data.formats.csv import CsvTable, read_csv
from fedatlas.errors import FedatlasError

SIGNS = {0: -1.0, 1: 1.0}
TABLE = CsvTable.model_validate(
    {
        "label": "y",
        "ignore": ["id"],
        "numeric": ["a"],
        "one_hot": [
            {"column": "c", "values": ["x", "y", "z"]},
            {"column": "n", "values": [0, 1, 5], "otherwise": "next_below"},
        ],
    }
)
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


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("2,1,3,x", "3: 4 fields, but the header has 5; is the line cut short?"),
        ("2,1,3,x,1,9", "3: 6 fields, but the header has 5"),
        ("", "3: the line is blank"),
        (" ", "3: the line is blank"),
        ("2,1,3,x\0,1", r"3: column 'c': 'x\x00' is not one of the values"),
        ('2,1,3,"x,1', "3: is not CSV text: unexpected end of data; 'quoting: none'"),
        ('2,1,3,"x"y,1', "3: is not CSV text: ',' expected after '\"'; 'quoting: none'"),
        (b"2,1,3,\xff,1", "3: is not UTF-8 text"),
        ("2,1,abc,x,1", "3: column 'a': 'abc' is not a finite number"),
        ("2,1,1_0,x,1", "3: column 'a': '1_0' is not a finite number"),
        ("2,1,\uff11,x,1", "3: column 'a': '\uff11' is not a finite number"),
        ("2,1,nan,x,1", "3: column 'a': 'nan' is not a finite number"),
        ("2,1,-inf,x,1", "3: column 'a': '-inf' is not a finite number"),
        ("2,1," + "9" * 5000 + ",x,1", "3: column 'a': '9"),
        ("2,1,1e400,x,1", "3: column 'a': '1e400' is not a finite number"),
        ("2,1,3,w,1", '3: column \'c\': \'w\' is not one of the values: "x", "y", "z"'),
        ("2,1,3,x,-1", "3: column 'n': '-1' is not a number from 0 on"),
        ("2,1,3,x,inf", "3: column 'n': 'inf' is not a number from 0 on"),
        ("2,1,3,x,few", "3: column 'n': 'few' is not a number from 0 on"),
        ("2,2,3,x,1", "3: column 'y': '2' is not one of the allowed labels: 0, 1"),
        ("2,1,NA,x,1", "3: column 'a' lacks a value; 'drop_missing: true'"),
        ("2,,3,x,1", "3: column 'y' lacks a value"),
        ("2,1,3,x, ", "3: column 'n' lacks a value"),
    ],
)
def test_a_malformed_row_is_named_with_its_line_and_column(tmp_path, row, problem):
    row = row if isinstance(row, bytes) else row.encode()
    path = written(tmp_path / "t", b"id,y,a,c,n\n1,1,2,x,0\n" + row + b"\n3,0,2,x,0\n")
    with pytest.raises(FedatlasError) as caught:
        read_csv(path, TABLE, SIGNS)
    assert str(caught.value).startswith(f"{path}:{problem}")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", ": is empty"),
        ("\ufeff", ": is empty"),
        ("\n\n", ": is empty"),
        (HEADER, ": holds no samples"),
        ("id,y,a,c\n1,1,2,x\n", ":1: column 'n' is missing; the header has: id, y, a, c"),
        ("id,y,a,c,n,a\n1,1,2,x,0,3\n", ":1: column 'a' occurs twice"),
        ("id,y,a,c,n,m\n1,1,2,x,0,3\n", ":1: column 'm' is not in the catalogue"),
        ("id,id,y,a,c,n\n1,1,2,x,0,0\n1,1,1,1", ":3: 4 fields, but the header has 6"),
        (HEADER.encode("utf-16"), ":1: is not UTF-8 text"),
    ],
)
def test_a_wrong_file_or_header_is_named(tmp_path, content, problem):
    path = written(tmp_path / "t", content)
    with pytest.raises(FedatlasError) as caught:
        read_csv(path, TABLE, SIGNS)
    assert str(caught.value).startswith(f"{path}{problem}")


def test_a_misspelt_column_is_told_beside_the_one_that_is_meant(tmp_path):
    path = written(tmp_path / "t", "id,y,a,colour,n\n1,1,2,x,0\n")
    table = CsvTable.model_validate(
        {"label": "y", "numeric": ["a", "n"], "ignore": ["id", "color"]}
    )
    with pytest.raises(FedatlasError) as caught:
        read_csv(path, table, SIGNS)
    assert str(caught.value).splitlines() == [
        f"{path}:1: column 'color' is missing; similar: colour; "
        "the header has: id, y, a, colour, n",
        f"{path}:1: column 'colour' is not in the catalogue",
    ]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_fields_are_divided_by_the_declared_delimiter(tmp_path, delimiter):
    text = f"{HEADER}\n1,1,-2.5,z,0\n2,0,1e5,x,\n,,,,\n".replace(",", delimiter)
    table = changed(drop_missing=True, delimiter=delimiter)
    samples = read_csv(written(tmp_path / "t", text), table, SIGNS)
    assert samples.features.tolist() == [[-2.5, 0, 0, 1, 1, 0, 0]]


def test_another_delimiter_than_the_declared_one_is_suspected(tmp_path):
    path = written(tmp_path / "t", "id;y;a;c;n\n1;1;2;x;0\n")
    with pytest.raises(FedatlasError, match=r"t:1: the header is one field, 'id;y;a;c;n'; state"):
        read_csv(path, TABLE, SIGNS)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FedatlasError, match="nowhere: cannot be read: No such file"):
        read_csv(tmp_path / "nowhere", TABLE, SIGNS)


def test_lines_are_counted_across_blocks(tmp_path):
    rows = [f"{i},1,{i}.25,x,0" for i in range(200_000)]
    rows[150_000] = "1,1"
    path = written(tmp_path / "t", "\n".join([HEADER, *rows]))
    with pytest.raises(FedatlasError, match=r"t:150002: 2 fields"):
        read_csv(path, TABLE, SIGNS)
    rows[150_000] = "1,1,x,x,0"
    with pytest.raises(FedatlasError, match=r"t:150002: column 'a': 'x'"):
        read_csv(written(path, "\n".join([HEADER, *rows])), TABLE, SIGNS)


def test_rows_that_lack_a_value_are_left_out_where_that_is_declared(tmp_path, caplog):
    text = f"{HEADER}\n1,1,NA,x,0\n,0,2,y,1\n3,1,3,,5\n4,NA,3,z,5\n5,1,4,z,5\n"
    samples = read_csv(written(tmp_path / "t", text), changed(drop_missing=True), SIGNS)
    assert samples.features[:, 0].tolist() == [2, 4]
    assert samples.label.tolist() == [-1, 1]
    assert samples.sample_id.tolist() == [0, 1]
    assert "t: 'drop_missing: true' leaves out 3 of 5 rows, which lack a value: " in caplog.text
    assert "'y' in 1, 'a' in 1, 'c' in 1" in caplog.text
    with pytest.raises(FedatlasError, match="t: every row lacks a value"):
        read_csv(
            written(tmp_path / "t", f"{HEADER}\n1,1,NA,x,0\n"), changed(drop_missing=True), None
        )


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
