"""What is said of files and tables that cannot be read, or hold what cannot be."""

import gzip
import os
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from refusing import refused

import bayesmdp as bm
from bayesmdp.cli import main
from bayesmdp.data._queries import worded
from bayesmdp.errors import ArgumentError, CountsError

# Ibis 12 calls what DuckDB 2 deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")

HEAD = "state,action,next_state\n"
MANY = "0,0,1\n" * 30_000  # more than an engine looks at to guess types


CSV_FAULTS: dict[str, tuple[str | bytes, tuple[str, ...]]] = {
    "empty": ("", ("`log.csv` is empty.",)),
    "blank": ("\n\n", ("`log.csv` is empty, or its first line is",)),
    "header only": (HEAD, ("`log.csv` holds no rows.",)),
    "binary": (bytes(range(256)) * 40, ("`log.csv` is not text",)),
    "zeros": (bytes(1000), ("`log.csv` is not text: it holds zero bytes",)),
    "Latin-1 header": ("état,state,action,sp\n0,0,0,0\n".encode("latin-1"), ("UTF-8",)),
    "Latin-1": (HEAD.encode() + b"0,0,1\nn\xe9,0,1\n", ("Line 3", "not UTF-8")),
    "UTF-16": ((HEAD + "0,0,1\n").encode("utf-16"), ("`log.csv` is UTF-16",)),
    "short row": (
        HEAD + "0,0,1\n1,0\n",
        ("Line 3 of `log.csv` has 2 fields where the header has 3",),
    ),
    "long row": (HEAD + "0,0,1\n0,0,1,5\n", ("Line 3 of `log.csv`",)),
    "an empty field too many": (
        HEAD + "0,0,1\n0,0,1,\n",
        ("Line 3 of `log.csv` has 4 fields where the header has 3",),
    ),
    "a quoted empty field too many": (HEAD + '0,0,1,""\n', ("Line 2", "has 4 fields")),
    "late empty fields too many": (HEAD + MANY + "1,0,1,,\n", ("Line 30002", "fields")),
    "late short row": (HEAD + MANY + "1,0\n", ("Line 30002 of `log.csv` has 2",)),
    "spaces": ("state action next_state\n0 0 1\n", ("first line", "semicolon")),
    "a title": ("The ward\n" + HEAD, ("first line of `log.csv`", "`The ward`")),
    "one column": ("state\n0\n", ("first line of `log.csv`", "it is `state`")),
    "unclosed quote": (
        HEAD + '0,0,1\n"0,0,1\n0,0,1\n',
        ("Line 3 of `log.csv` has a quote that is never closed",),
    ),
    "endless line": (
        HEAD + "9" * 3_000_000 + ",0,1\n",
        ("Line 2 of `log.csv` is longer than 2 MB",),
    ),
    "gzip under another name": (gzip.compress(HEAD.encode()), ("gzip", "its name")),
    "Parquet under another name": (b"PAR1" * 99, ("Parquet", "its name")),
    "a spreadsheet": (b"PK\x03\x04" * 99, ("`log.csv` is a spreadsheet or an arch",)),
    "quoted empty": (HEAD + '"",0,1\n', ("`state`", "no value in 1 row")),
    "no value said in words": (
        HEAD + "NA,0,1\n",
        ("`state`", "no value in 1 row", "1 missing-value code"),
    ),
    "decimal comma": (
        "state;action;next_state;reward\n1;0;1;0,5\n",
        ("Column `reward`", "row 0", "'0,5'"),
    ),
    "thousands": ("s;a;sp\n1,000;0;1\n", ("Column `s`", "row 0", "'1,000'")),
    "hexadecimal": (HEAD + "0x10,0,1\n", ("Column `state`", "row 0", "'0x10'")),
    "dates": (
        HEAD + "2020-01-01,0,2020-01-02\n",
        ("Column `state` of `log.csv` holds times, such as '2020-01-01'", "labels"),
    ),
    "times": (
        HEAD + "31/12/2020 10:30,0,01/01/2021 08:00\n",
        ("Column `state` of `log.csv` holds times",),
    ),
    "a near miss": ("stat,action,sp\n0,0,0\n", ("did you mean `stat`?", "'stat'")),
    "no action": ("state,drug,sp\n0,0,0\n", ("no column for `action`", "`drug`")),
    "nothing to derive from": (
        "state,action\n0,0\n",
        ("no column for `next_state`", "`episode`", "`step`"),
    ),
    "two candidates": (
        "state,obs,action,sp\n0,0,0,0\n",
        ("several columns for `state`, `state` and `obs`: choose",),
    ),
    "no header": ("0,0,1\n1,0,2\n", ("must name the columns; it is `0,0,1`",)),
    "duplicate name": (
        "state,action,state,next_state\n0,0,0,0\n",
        ("two columns named `state`",),
    ),
    "names that differ by case": (
        "state,action,State,next_state\n0,0,0,0\n",
        ("several columns for `state`, `state` and `State`: choose",),
    ),
    "text among numbers": (
        HEAD + "0,0,1\n1,x,2\n",
        (
            "Column `action` of `log.csv` must hold whole numbers below 2**63: row 1 of"
            " `log.csv` has 'x'; fix it, or give labels=True",
        ),
    ),
    "late text among numbers": (
        HEAD + MANY + "abc,0,1\n",
        ("`state`", "row 30000 of `log.csv` has 'abc'", "labels=True"),
    ),
    "text in next states": (HEAD + "0,0,1\n1,0,x\n", ("`next_state`", "'x'")),
    "late fraction": (
        HEAD + MANY + "0.5,0,1\n",
        ("`state`", "whole numbers", "row 30000 of `log.csv` has '0.5'; fix it"),
    ),
    "empty ids": (
        HEAD + "0,0,1\n1,,2\n1,,2\n",
        ("`action`", "no value in 2 rows, the first row 1 of `log.csv`"),
    ),
    "NaN": (HEAD + "0,0,1\nNaN,0,1\n", ("`state`", "no value in 1 row")),
    "nan": (HEAD + "0,0,1\nnan,0,1\n", ("`state`", "whole numbers", "'nan'")),
    "inf": (HEAD + "0,0,inf\n", ("`next_state`", "whole numbers", "'inf'")),
    "underscores": (HEAD + "1_12,0,1\n", ("`state`", "row 0", "'1_12'")),
    "zeros in front": (HEAD + "01,0,1\n", ("`state`", "row 0", "'01'")),
    "an exponent": (HEAD + "3E1,0,30\n", ("`state`", "row 0", "'3E1'", "labels=True")),
    "an id that is nearly 0": (HEAD + "1e-16,0,0\n", ("`state`", "'1e-16'")),
    "an id that is nearly 1": (
        HEAD + "1.00000000000000000001,0,0\n",
        ("`state`", "'1.00000000000000000001'"),
    ),
    "underscores in a reward": ("s,a,sp,r\n0,0,1,1_0\n", ("`r`", "row 0", "'1_0'")),
    "negative": (HEAD + "0,-1,1\n", ("`action`", "row 0", "-1", "labels=True")),
    "register codes": (
        HEAD + f"0,0,{2**40}\n",
        ("`next_state`", "at most 10**7: row 0", str(2**40), "labels=True"),
    ),
    "beyond 64 bits": (
        HEAD + "99999999999999999999,0,1\n",
        ("`state`", "below 2**63", "row 0", "'99999999999999999999'", "labels=True"),
    ),
    "large and fractions": (
        HEAD + f"{2**60},0,1\n0.5,0,1\n",
        ("`state`", "whole numbers", "row 1", "has '0.5'; fix it"),
    ),
    "text reward": (
        "s,a,sp,r\n0,0,1,0.5\n0,0,1,good\n",
        ("Column `r` of `log.csv` must hold numbers: row 1", "'good'"),
    ),
    "infinite reward": (
        "s,a,sp,r\n0,0,1,0.5\n0,0,1,-inf\n",
        ("Column `r`", "finite: row 1", "-inf"),
    ),
    "missing reward": ("s,a,sp,r\n0,0,1,\n", ("Column `r`", "no value in 1 row")),
    "fractional step": (
        "s,a,episode,t\n0,0,1,0.5\n",
        ("Column `t`", "whole numbers: row 0"),
    ),
    "text step": ("s,a,episode,t\n0,0,1,noon\n", ("Column `t`", "'noon'")),
    "missing episode": ("s,a,episode,t\n0,0,,0\n", ("Column `episode`", "no value")),
    "a step twice": (
        "s,a,icustayid,bloc\n0,0,8,0\n0,0,8,1\n1,0,8,1\n",
        ("`icustayid` 8 has `bloc` 1 2 times",),
    ),
    "nothing follows": (
        "s,a,id,t\n0,0,8,0\n0,0,9,4\n",
        ("0 of 2 rows have one", "no transition is left"),
    ),
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("content", "said"), CSV_FAULTS.values(), ids=CSV_FAULTS)
def test_bad_csv(here: Path, content: str | bytes, said: tuple[str, ...]) -> None:
    data = content.encode() if isinstance(content, str) else content
    (here / "log.csv").write_bytes(data)
    refused(CountsError, "log.csv", *said)


OPTION_FAULTS: dict[str, tuple[str, dict[str, Any], tuple[str, ...]]] = {
    "columns swapped": (
        HEAD + "0,1,1\n3,700,2\n",
        {"n_states": 716, "n_actions": 25},
        ("Column `action`", "below the size given, 25: row 1", "700"),
    ),
    "an end that is too far": (
        HEAD + "0,1,1\n3,0,716\n",
        {"n_states": 716},
        ("Column `next_state`", "below the size given, 716: row 1"),
    ),
    "more names than states": (
        HEAD + "a,0,b\n",
        {"n_states": 1},
        ("`n_states` is 1, but `log.csv` has 2",),
    ),
    "an outcome that is text": (
        "s,a,id,t,end\n0,0,1,0,home\n",
        {"columns": {"outcome": "end"}},
        ("Column `end`", "row 0", "'home'"),
    ),
}


@pytest.mark.parametrize(
    ("content", "options", "said"), OPTION_FAULTS.values(), ids=OPTION_FAULTS
)
def test_bad_csv_for_what_was_asked(
    here: Path, content: str, options: dict[str, Any], said: tuple[str, ...]
) -> None:
    (here / "log.csv").write_text(content)
    refused(CountsError, "log.csv", *said, **options)


def test_broken_gzip(here: Path) -> None:
    whole = gzip.compress((HEAD + MANY).encode())
    for content, said in (
        (b"hello, this is no gzip" + whole, "not packed with gzip, as its name says"),
        (whole[:40], "cut short"),
        (whole[:-9], "cut short"),
        (whole + b"more", "damaged"),
    ):
        (here / "log.csv.gz").write_bytes(content)
        refused(CountsError, "log.csv.gz", "`log.csv.gz`", said)


def test_damaged_gzip(here: Path) -> None:
    """No bit may flip, but for those that say when and where the file was packed."""
    rng = np.random.default_rng(0)
    rows = "".join(f"{s},{a},{t}\n" for s, a, t in rng.integers(0, 9, (400, 3)))
    whole = gzip.compress((HEAD + rows).encode(), mtime=0)
    for bit in rng.choice(range(80, 8 * len(whole)), 300, replace=False):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << (bit % 8)
        (here / "log.csv.gz").write_bytes(damaged)
        refused(CountsError, "log.csv.gz", "`log.csv.gz` was cut short or damaged")
    (here / "log.csv.gz").write_bytes(whole + whole[: len(whole) - 1])
    refused(CountsError, "log.csv.gz", "cut short")


def test_gzip_of_several_parts(here: Path) -> None:
    parts = [gzip.compress(x.encode()) for x in (HEAD, MANY, "", "5,0,6\n")]
    (here / "log.csv.gz").write_bytes(b"".join(parts))
    assert bm.read_transitions("log.csv.gz").n_rows == 30_001


def test_gzip_of_nothing(here: Path) -> None:
    (here / "log.csv.gz").write_bytes(gzip.compress(b""))
    refused(CountsError, "log.csv.gz", "`log.csv.gz` is empty")


OTHER_FAULTS: dict[str, tuple[str, bytes, tuple[str, ...]]] = {
    "text as Parquet": ("log.parquet", HEAD.encode() * 9, ("is no Parquet file",)),
    "tiny Parquet": ("log.pq", b"PAR1", ("`log.pq` was cut short",)),
    "cut Parquet": ("log.pq", b"PAR1" + bytes(99), ("`log.pq` was cut short",)),
    "text as zstd": ("log.csv.zst", HEAD.encode(), ("not packed with zstd",)),
    "zeros as JSON": ("log.json", bytes(99), ("`log.json` is not text",)),
    "JSON of columns": (
        "log.json",
        b'{"state": [1, 2], "action": [0, 0], "next_state": [1, 1]}',
        ("Column `state` of `log.json`", "holds lists"),
    ),
    "JSON of objects": (
        "log.jsonl",
        b'{"s": {"x": 1}, "a": 0, "sp": {"x": 1}}\n',
        ("Column `s`", "holds structs"),
    ),
    "a key twice": ("log.jsonl", b'{"s": 1, "s": 2, "a": 0, "sp": 2}\n', ('"s"',)),
    "keys that differ by case": (
        "log.jsonl",
        b'{"s": 1, "S": 2, "a": 0, "sp": 2}\n',
        ("`log.jsonl` has keys that differ only in case",),
    ),
    "Latin-1 in JSON": (
        "log.jsonl",
        b'{"s": "\xe9", "a": 0, "sp": "b"}\n',
        ("`log.jsonl` is not UTF-8",),
    ),
    "null in JSON": (
        "log.jsonl",
        b'{"s": 1, "a": null, "sp": 2}\n',
        ("Column `a`", "no value in 1 row, the first row 0"),
    ),
    "text as JSON": ("log.json", b"hello\n", ("log.json",)),
    "broken JSON": ("log.jsonl", b'{"state": 1, "ac\n', ("log.jsonl",)),
    "JSON without objects": ("log.jsonl", b"1\n2\n", ("a row is an object",)),
    "JSON of nothing": ("log.json", b"[]", ("`log.json` holds no rows",)),
    "JSON without a column": ("log.jsonl", b'{"state": 1}\n', ("`action`",)),
    "empty JSON": ("log.jsonl", b"\n", ("`log.jsonl`",)),
    "text in JSON": (
        "log.jsonl",
        b'{"s": 1, "a": 0, "sp": 2}\n{"s": "x", "a": 0, "sp": 2}\n',
        ("Column `s`", "row 1 of `log.jsonl` has 'x'"),
    ),
    "a key that is missing once": (
        "log.jsonl",
        b'{"s": 1, "a": 0, "sp": 2}\n{"s": 1, "sp": 2}\n',
        ("Column `a`", "no value in 1 row", "row 1"),
    ),
    "a fraction in JSON": (
        "log.jsonl",
        b'{"s": 1, "a": 0, "sp": 2}\n' * 30_000 + b'{"s": 1, "a": 0.5, "sp": 2}\n',
        ("Column `a`", "row 30000", "0.5"),
    ),
}


@pytest.mark.parametrize(
    ("name", "content", "said"), OTHER_FAULTS.values(), ids=OTHER_FAULTS
)
def test_bad_parquet_and_json(
    here: Path, name: str, content: bytes, said: tuple[str, ...]
) -> None:
    (here / name).write_bytes(content)
    refused(CountsError, name, *said)


def test_the_file_among_several_is_named(here: Path) -> None:
    (here / "a.csv").write_text(HEAD + "0,0,1\n0,0,1\n")
    (here / "b.csv").write_text(HEAD + "0,0,1\n0,0,1.5\n")
    refused(CountsError, "*.csv", "row 1 of `b.csv` has '1.5'")
    (here / "b.csv").write_text(HEAD + "0,0\n")
    refused(CountsError, "*.csv", "Line 2 of `b.csv` has 2 fields")
    (here / "b.csv").write_text("state,action\n0,0\n")
    refused(
        CountsError,
        "*.csv",
        "`b.csv` has no column `next_state`, which other files have",
    )
    (here / "a.csv").write_text("state,action,episode,step,end\n0,0,1,0,2\n")
    (here / "b.csv").write_text("state,action,episode,step,to\n0,0,1,0,2\n")
    said = "but `b.csv` has them in `to`"
    with pytest.raises(ArgumentError, match=said):
        bm.read_transitions("*.csv", columns={"outcome": "end", "next_state": "to"})
    with pytest.raises(ArgumentError, match=r"which the table in `a.csv` and 1 more"):
        bm.read_transitions("*.csv", columns={"outcome": "ends"})
    for name, value in (("a", 1.0), ("b", np.nan)):
        table = pd.DataFrame({"state": [0.0, value], "action": 0, "next_state": 1})
        table.to_parquet(here / f"{name}.parquet")
    refused(CountsError, "*.parquet", "no value in 1 row, the first row 1 of `b.parq")


def test_files_that_differ(here: Path) -> None:
    whole = pd.DataFrame({"state": [0], "action": [0], "next_state": [1]})
    for kind in ("csv", "parquet"):
        write = f"to_{kind}"
        getattr(whole, write)(here / f"a.{kind}")
        getattr(whole.assign(reward=1.0), write)(here / f"b.{kind}")
        refused(CountsError, f"*.{kind}", f"`a.{kind}` has no column `reward`")
        getattr(whole.rename(columns={"state": "State"}), write)(here / f"b.{kind}")
        refused(CountsError, f"*.{kind}", f"`a.{kind}` and 1 more", "`State`")
        getattr(whole.astype(str).assign(action="x"), write)(here / f"b.{kind}")
        refused(CountsError, f"*.{kind}", "Column `", "`a.", "and 1 more")


def test_parquet_that_cannot_be_a_log(here: Path) -> None:
    whole = pd.DataFrame({"state": [0], "action": [0], "next_state": [1]})
    for change, said in (
        ({"State": [5]}, "two columns named `State`, but for the case"),
        ({"state": pd.to_datetime(["2020-01-01"])}, "`state` of `log.parquet`"),
        ({"state": [[1]]}, "it holds List"),
        ({"state": [b"x"]}, "it holds Binary"),
    ):
        whole.assign(**change).to_parquet(here / "log.parquet")
        refused(CountsError, "log.parquet", said)
    whole[:0].to_parquet(here / "log.parquet")
    refused(CountsError, "log.parquet", "`log.parquet` holds no rows")
    data = bytearray((here / "log.parquet").read_bytes())
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    data[footer : footer + 40] = b"\xff" * 40
    (here / "log.parquet").write_bytes(data)
    refused(CountsError, "log.parquet", "`log.parquet` cannot be read")


def test_paths_that_are_read(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pattern that is a name, a home, a folder called like a column."""
    table = pd.DataFrame({"state": [0], "action": [0], "next_state": [1]})
    monkeypatch.setenv("HOME", str(here))
    (here / "state=7").mkdir()
    for name in ("log[1]*.csv", "state=7/log.csv"):
        table.to_csv(here / name, index=False)
    table.to_parquet(here / "state=7" / "log.parquet")
    (here / "link.csv").symlink_to("log[1]*.csv")
    for source in (
        "log[1]*.csv",
        here / "log[1]*.csv",
        "~/state=7/log.csv",
        "state=7/log.parquet",
        "**/log.parquet",
        "state*",
        ["link.csv", "state=7/log.csv"],
    ):
        if source == "state*":  # a directory is no file that matches
            refused(ArgumentError, source, "no file matches")
            continue
        counts = bm.read_transitions(source).counts()
        assert set(counts.state.tolist()) == {0}


def test_paths_that_lead_nowhere(here: Path) -> None:
    (here / "logs").mkdir()
    (here / "log.xlsx").write_text("x")
    (here / "a.csv").write_text(HEAD + "0,0,1\n")
    (here / "a.jsonl").write_text('{"state": 1}\n')
    refused(ArgumentError, "ward.csv", "there is no file `ward.csv`")
    refused(ArgumentError, ["a.csv", "ward.csv"], "there is no file `ward.csv`")
    refused(ArgumentError, "ward*.csv", "no file matches `ward*.csv`")
    refused(ArgumentError, "logs", "`logs` is a directory", "logs/*.parquet")
    refused(ArgumentError, "log.xlsx", "`log.xlsx`", ".parquet")
    refused(ArgumentError, [], "empty list")
    refused(ArgumentError, [3], "a list with 3")
    refused(ArgumentError, "a.*", "mixes kinds of files: `a.csv` and `a.jsonl`")
    refused(ArgumentError, ["a.csv", here / "a.csv"], "a.csv` twice")
    refused(ArgumentError, "", "an empty path")
    refused(ArgumentError, "https://example.org/log.csv", "is an address", "fetch it")
    refused(ArgumentError, "s3://ward/log.parquet", "is an address", "DuckDB relation")
    refused(ArgumentError, "~nobody-of-that-name/log.csv", "a user unknown here")
    refused(ArgumentError, "x" * 5000 + ".csv", "name too long")
    refused(ArgumentError, "x" * 5000 + "*.csv", "no file matches")
    refused(ArgumentError, "a\0b.csv", "null")
    refused(ArgumentError, "\udcff.csv", "is not UTF-8: rename the file")
    refused(ArgumentError, "/dev/null", "is no plain file")
    (here / "loop.csv").symlink_to("loop.csv")
    refused(ArgumentError, "loop.csv", "links")
    (here / "nowhere.csv").symlink_to("gone.csv")
    refused(ArgumentError, "nowhere.csv", "there is no file `nowhere.csv`")
    os.mkfifo(here / "pipe.csv")  # must not wait for somebody to write
    refused(ArgumentError, "pipe.csv", "`pipe.csv` is no plain file")
    (here / "b.parquet.gz").write_bytes(gzip.compress(b"PAR1"))
    refused(ArgumentError, "b.parquet.gz", "packed twice", "unpack it")


def test_no_permission(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = here / "log.csv"
    path.write_text(HEAD + "0,0,1\n")
    path.chmod(0)
    # The superuser may read everything, so the system's answer is played.
    monkeypatch.setattr(os, "access", lambda *_: False)
    refused(ArgumentError, path, "may not be read: permission denied")


def test_a_file_that_changes_is_noticed(here: Path) -> None:
    path = here / "log.csv"
    path.write_text("s,a,sp,r,id\n0,0,1,2,1\n0,0,1,2,2\n")
    log = bm.read_transitions(path)
    path.write_text("s,a,sp,r,id\n0,0,1,2,1\n0,0,1,2,2\n0,0,1,2,3\n")
    said = r"log\.csv` has changed since it was read: 2 rows then, 3 now; read it again"
    with pytest.raises(CountsError, match=said):
        log.reward_statistics()
    with pytest.raises(CountsError, match=said):
        log.counts_by_fold(2)
    assert log.counts().total == 2


def test_too_little_memory_is_told_from_bad_files() -> None:
    with pytest.raises(bm.errors.TooLargeError, match="BAYESMDP_MEMORY"), worded("x"):
        raise duckdb.OutOfMemoryException("Out of Memory Error: could not allocate")


def test_the_command_line_refuses_with_exit_code_2(here: Path) -> None:
    files = {f"{name} (CSV)": ("log.csv", x[0]) for name, x in CSV_FAULTS.items()}
    files |= {name: x[:2] for name, x in OTHER_FAULTS.items()}
    some = list(files.items())[::4]  # the library refuses each, above
    assert len(some) >= 10
    for case, (name, content) in some:
        data = content.encode() if isinstance(content, str) else content
        (here / name).write_bytes(data)
        found = CliRunner().invoke(main, ["validate", name])
        assert found.exit_code == 2, (case, found.output)
        assert isinstance(found.exception, SystemExit), case
        assert name in found.output, case
        (here / name).unlink()


def test_ctrl_c_in_an_engine_is_no_fault_of_the_file() -> None:
    with pytest.raises(KeyboardInterrupt), worded("x"):
        raise duckdb.InterruptException("Interrupted!")


def test_a_file_that_vanishes_is_a_sentence(here: Path) -> None:
    path = here / "log.csv"
    path.write_text("s,a,sp,r\n0,0,1,2\n")
    log = bm.read_transitions(path)
    path.unlink()
    with pytest.raises(CountsError, match=r"log\.csv") as caught:
        log.reward_statistics()
    assert caught.value.__cause__ is not None
