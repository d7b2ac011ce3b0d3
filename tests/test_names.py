"""Names of states and actions: every source reads the same, and no two become one."""

import csv
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tables import ENGINES

import bayesmdp as bm
from bayesmdp.errors import CountsError

# Ibis 12 calls what DuckDB 2 deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")

Table = dict[str, list[Any]]
CODES = ("NA", "NaN", "NULL", ".", "")


def in_csv(table: Table, path: Path, quoting: Any = csv.QUOTE_MINIMAL) -> Path:
    with path.with_suffix(".csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, quoting=quoting)
        writer.writerow(table)
        writer.writerows(zip(*table.values(), strict=True))
    return path.with_suffix(".csv")


def in_json(table: Table, path: Path) -> Path:
    rows = zip(*table.values(), strict=True)
    lines = (json.dumps(dict(zip(table, row, strict=True))) for row in rows)
    path = path.with_suffix(".jsonl")
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def in_parquet(table: Table, path: Path) -> Path:
    pq.write_table(pa.table(table), path.with_suffix(".parquet"))
    return path.with_suffix(".parquet")


def in_engine(name: str) -> Callable[[Table, Path], Any]:
    return lambda table, _: ENGINES[name](table)


FILES: dict[str, Callable[[Table, Path], Any]] = {
    "CSV": in_csv,
    "CSV, all quoted": lambda table, path: in_csv(table, path, csv.QUOTE_ALL),
    "JSON": in_json,
    "Parquet": in_parquet,
}
SOURCES = FILES | {name: in_engine(name) for name in ENGINES}
EVERY = pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)


def moves(names: Sequence[str]) -> Table:
    """Go from each name to the one before it, by the action of its own name."""
    return {
        "state": [*names],
        "action": [*names],
        "next_state": [names[-1], *names[:-1]],
    }


def texts(labels: Sequence[Any] | None) -> list[str]:
    assert labels is not None
    return [str(x) for x in labels]


def triplets(log: bm.Transitions) -> set[tuple[str, str, str]]:
    """What was logged, by name."""
    state, action = texts(log.state_labels), texts(log.action_labels)
    c = log.counts()
    assert c.total == c.state.size
    return {
        (state[s], action[a], state[t])
        for s, a, t in zip(c.state, c.action, c.next_state, strict=True)
    }


#: In the order in which they must come back.
NASTY: dict[str, list[str]] = {
    "underscores": ["0_4", "11_2", "1_12"],
    "exponents": ["3E1", "3E2", "4W1"],
    "infinity": ["-inf", "Infinity", "inf", "infinity"],
    "no codes": ["NONE", "None", "n/a", "na", "nan", "none", "null"],
    "truth": ["FALSE", "True", "false", "true"],
    "case and blanks": [" a", "A", "a", "a "],
    "accents": ["e\u0301", "\u00e9"],
    "other digits": ["\u0661", "\uff11"],
    "delimiters": ['"', '""', "'", ",", ";", "a,b", "x\ny", "|"],
    "other bases": ["0b11", "0x", "0x10"],
    "numbers at the end": ["bed", "w1", "w02", "w2", "w10", "w100", "x3"],
    "long numbers at the end": ["w" + "9" * 5000, "w1" + "0" * 5000],
}
#: Some of these are numbers, so that the rest may be names only by request.
NUMERALS: dict[str, list[str]] = {
    "underscores and numbers": ["4", "112", "0_4", "11_2", "1_12"],
    "exponents and numbers": ["30", "1000", "1e3", "3E1"],
    "signs": ["-1", "0", "1", "+1", "-0"],
    "zeros in front": ["1", "10", "001", "01"],
    "fractions": [".5", "0.5", "0.50"],
    "tiny": ["0", "0.0000000000000000001", "1e-16"],
    "beyond 64 bits": ["99999999999999999991", "99999999999999999992"],
    "blanks": ["1", "\t2", " 1", "1 ", "x"],
    "times": ["10:30", "2020-01-01", "2020-01-02"],
}
ALL = list(dict.fromkeys(x for names in (NASTY | NUMERALS).values() for x in names))


@EVERY
def test_nasty_names_are_read_alike(source: Any, tmp_path: Path) -> None:
    by_hand = bm.Transitions.from_arrays(
        range(len(ALL)), range(len(ALL)), [len(ALL) - 1, *range(len(ALL) - 1)]
    ).counts()
    log = bm.read_transitions(source(moves(ALL), tmp_path / "log"), labels=True)
    assert texts(log.state_labels) == texts(log.action_labels)
    assert sorted(texts(log.state_labels)) == sorted(ALL)
    place = np.array([ALL.index(x) for x in texts(log.state_labels)])
    c = log.counts()
    assert by_hand == bm.Counts.from_arrays(
        place[c.state], place[c.action], place[c.next_state], c.count
    )
    for names in (NASTY | NUMERALS).values():  # wherever they stand among others
        assert [x for x in texts(log.state_labels) if x in names] == names


@pytest.mark.parametrize("source", [in_csv, in_json], ids=["CSV", "JSON"])
@pytest.mark.parametrize("case", [*NASTY, *NUMERALS])
def test_text_of_files_is_no_number_by_chance(
    source: Any, case: str, tmp_path: Path
) -> None:
    names = (NASTY | NUMERALS)[case]
    table = moves(names)
    rows = set(zip(*table.values(), strict=True))
    read = source(table, tmp_path / "log")
    log = bm.read_transitions(read, labels=True)
    assert texts(log.state_labels) == names
    assert triplets(log) == rows
    if case in NASTY:
        assert triplets(bm.read_transitions(read)) == rows
    else:
        with pytest.raises(CountsError, match="labels=True"):
            bm.read_transitions(read)


@EVERY
def test_names_that_are_no_numbers_need_no_labels(source: Any, tmp_path: Path) -> None:
    names = [x for case in NASTY.values() for x in case]
    log = bm.read_transitions(source(moves(names), tmp_path / "log"))
    assert triplets(log) == set(zip(*moves(names).values(), strict=True))
    with pytest.raises(CountsError, match="labels=True"):
        bm.read_transitions(source(moves([*names, "30"]), tmp_path / "log"))


@pytest.mark.parametrize("source", [in_csv, in_json], ids=["CSV", "JSON"])
def test_ids_are_numbers(source: Any, tmp_path: Path) -> None:
    """A table with gaps has floats, also where another column of states has none."""
    table = {"s": ["0", "1"], "a": ["1.", " 1"], "sp": ["1.0", "2.00"]}
    counts = bm.read_transitions(source(table, tmp_path / "log")).counts()
    assert counts == bm.Counts.from_arrays([0, 1], [1, 1], [1, 2])


@pytest.mark.parametrize("engine", ENGINES)
def test_tiny_ids_are_not_zero(engine: str, tmp_path: Path) -> None:
    for tiny in (1e-16, -1e-16, 5e-324):
        table = {"state": [0.0, tiny], "action": [0, 0], "next_state": [1, 1]}
        for labels in (False, True):
            with pytest.raises(CountsError, match=r"`state`.* whole numbers"):
                bm.read_transitions(ENGINES[engine](table), labels=labels)


def test_names_of_numbers_are_numbers(tmp_path: Path) -> None:
    """Text stays text in tables that have types; files have none."""
    table = moves(["-3", "4", "30"])
    for source in (in_csv, in_json):
        log = bm.read_transitions(source(table, tmp_path / "log"), labels=True)
        assert log.state_labels == (-3, 4, 30)
    for source in (in_parquet, in_engine("pandas")):
        log = bm.read_transitions(source(table, tmp_path / "log"), labels=True)
        assert log.state_labels == ("-3", "4", "30")


@EVERY
def test_missing_value_codes_are_missing(source: Any, tmp_path: Path) -> None:
    names = ["icu", "ward"]
    table = {"state": names, "action": ["none", "treat"], "next_state": names[::-1]}
    holey = {
        role: values + values[:1] * 5 * i + [*CODES] + values[:1] * 5 * (2 - i)
        for i, (role, values) in enumerate(table.items())
    }
    read = source(holey, tmp_path / "log")
    with pytest.raises(CountsError) as caught:
        bm.read_transitions(read, labels=source is in_csv)
    first = "" if source is SOURCES["Ibis"] else ", the first row 2"
    where = f"{first} of `{read}`" if isinstance(read, Path) else first
    assert (
        f"has no value in 5 rows{where}, with 4 missing-value codes (NA, NaN, NULL or"
        " .): drop or fix"
    ) in str(caught.value)
    found = bm.validate(read, labels=source is in_csv).errors
    assert [(x.code, x.column, x.count) for x in found] == [
        ("missing-next-states", "next_state", 5),
        ("missing-values", "action", 5),
        ("missing-values", "state", 5),
    ]


@EVERY
def test_codes_of_outcomes_are_counted_in_notes(source: Any, tmp_path: Path) -> None:
    table = {
        "episode": [1, 1, 2, 3],
        "step": [0, 1, 0, 0],
        "state": ["icu", "ward", "ward", "ward"],
        "action": ["none", "treat", "none", "none"],
        "end": ["NA", "home", ".", "death"],
    }
    read = source(table, tmp_path / "log")
    columns = {"outcome": "end"}
    log = bm.read_transitions(read, columns=columns)
    assert log.state_labels == ("death", "home", "icu", "ward")
    assert log.action_labels == ("none", "treat")
    assert log.n_rows == 3
    derived, codes = log.notes
    assert "3 of 4 rows have one; 1 last row censored" in derived
    said = "has 2 missing-value codes (NA, NaN, NULL or .), taken as no value"
    assert said in codes
    told = [x for x in bm.validate(read, columns=columns) if said in x.message]
    assert [(x.code, x.severity, x.count) for x in told] == [
        ("missing-values", "note", 2)
    ]


@pytest.mark.parametrize("source", FILES.values(), ids=FILES)
def test_codes_among_numbers_are_missing_too(source: Any, tmp_path: Path) -> None:
    table = {"state": ["0", "NA", "2"], "action": ["0"] * 3, "next_state": ["2"] * 3}
    if source is in_parquet:
        table = {
            **table,
            "state": [0, None, 2],
            "action": [0] * 3,
            "next_state": [2] * 3,
        }
    with pytest.raises(
        CountsError, match=r"`state`.* no value in 1 row, the first row 1"
    ):
        bm.read_transitions(source(table, tmp_path / "log"))


# As many names out as in --------------------------------------------------------------

#: What a careless reader takes for few numbers.
FORMS = ["{}", "+{}", "-{}", "0{}", " {}", "{}.0", "{}e0", "{}E1", "1_{}", "{}_1"]
SPELLED = st.builds(str.format, st.sampled_from(FORMS), st.integers(0, 12))
NUMBERISH = st.text("0123456789_+-.eE xX,", min_size=1, max_size=5)
# Text files hold no zeros, and DuckDB takes a lone carriage return for a line's end.
ANYTHING = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0\r"),
    min_size=1,
    max_size=4,
)


def lists_of(names: st.SearchStrategy[str]) -> st.SearchStrategy[list[str]]:
    real = names.filter(lambda x: x not in CODES)
    return st.lists(real, min_size=2, max_size=40, unique=True)


NAMES = lists_of(SPELLED) | lists_of(NUMBERISH | ANYTHING)


@settings(max_examples=8)
@given(names=NAMES)
@pytest.mark.parametrize("name", ["CSV", "JSON"])
def test_as_many_names_come_out_as_go_in(
    name: str, tmp_path_factory: pytest.TempPathFactory, names: list[str]
) -> None:
    table = moves(names)
    rows = set(zip(*table.values(), strict=True))
    source = SOURCES[name](table, tmp_path_factory.getbasetemp() / "log")
    log = bm.read_transitions(source, labels=True)
    assert len(texts(log.state_labels)) == len(texts(log.action_labels)) == len(names)
    assert triplets(log) == rows
    with suppress(CountsError):  # of numbers among names
        log = bm.read_transitions(source)
        # Ids are numbers.
        same = {float(x) for x in names} if log.state_labels is None else names
        assert log.counts().total == len(names)
        assert len({*log.counts().state.tolist()}) == len(same)
