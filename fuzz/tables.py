"""Tables of logged transitions, most of them sound, some of them hostile.

A cell is text, as a file holds it. Hostile cells are few in each table, so that about
half of the tables can be read.
"""

import csv
import io
import json
from collections.abc import Sequence

from fuzz import Case
from fuzz.naive import ALIASES

NAMES = [
    "ward",
    "icu",
    "home",
    "death",
    "Ward",
    "ward ",
    " icu",
    "naïve",
    "nai\u0308ve",
]
NAMES += ["日本", "a,b", 'a"b', "a;b", "a|b", "a\tb", "'", "\\", "=1+1", "None", "true"]
NAMES += ["x" * 300, "\u200b", "e\u0301", "🙂", "-", "n/a", "state", "\u00a0", "a\nb"]
CLEAN = ["ward", "icu", "home", "death", "intensive care", "B2"]
MISSING = ["", "NA", "NaN", "NULL", "."]
NUMERALS = ["1.0", "01", "+1", " 1", "1 ", "1e0", "1E1", "1.", "-0", "0.0", "1_0", "1_"]
NUMERALS += ["-1", "0.5", "nan", "inf", "-inf", "1e400", "99999999999999999999", "0x1"]
NUMERALS += ["99999999999999999998", "18446744073709551617", "9007199254740992"]
NUMERALS += [
    "9007199254740993",
    "10000001",
    "10000000",
    "1e7",
    "٣",
    "\uff11",
    "1,5",
    "1d",
]
NUMERALS += ["1__0", "1e", "e1", "+", "--1", "1 0", "1'000", "TRUE", "½", "1\u00a0"]
REWARDS = ["0", "1", "-1", "0.1", "0.2", "0.3", "1e-300", "1e150", "-2.5", "3", "1e3"]
HOSTILE_REWARDS = [
    "1e308",
    "1e309",
    "nan",
    "inf",
    "",
    "NA",
    "1_0",
    "0,5",
    "x",
    "-1e308",
]
FLAGS = ["true", "false", "True", "FALSE", "0", "1"]
JUNK = ["", "7", "x", "2020-01-01", "NA", "a b", "\u00e9"]

Table = dict[str, list[str]]


def table(case: Case) -> tuple[Table, dict[str, str]]:
    """Make columns by name, and say which of them the caller must name."""
    pick = case.random
    n_rows = pick.choice([1, 2, 3, 5, 8, 13, 30])
    columns: Table = {}
    states, actions = _alphabet(case), _alphabet(case)
    derive = case.happens(0.35)
    roles = ["state", "action"] + ([] if derive else ["next_state"])
    for role in roles:
        cells = states if role != "action" else actions
        columns[_alias(case, role)] = [pick.choice(cells) for _ in range(n_rows)]
    if derive or case.happens(0.3):
        _add_episodes(case, columns, n_rows)
    if case.happens(0.4):
        among = REWARDS + (HOSTILE_REWARDS if case.happens(0.1) else [])
        columns[_alias(case, "reward")] = [pick.choice(among) for _ in range(n_rows)]
    for role in ("terminated", "truncated"):
        if case.happens(0.2):
            among = pick.choice([FLAGS, FLAGS, ["0", "1"], ["0", "1", "2", "yes", ""]])
            columns[_alias(case, role)] = [pick.choice(among) for _ in range(n_rows)]
    while case.happens(0.3):
        name = pick.choice(
            ["age", "x y", "é", "State", "reward ", "ward", "a.b", "b", ""]
        )
        columns.setdefault(name, [pick.choice(JUNK) for _ in range(n_rows)])
    named: dict[str, str] = {}
    if derive and case.happens(0.5):
        named["outcome"] = "end of stay"
        ends = [*states, "", "", ""]
        columns["end of stay"] = [pick.choice(ends) for _ in range(n_rows)]
    order = list(columns)
    pick.shuffle(order)
    return {name: columns[name] for name in order}, named


def _alias(case: Case, role: str) -> str:
    name = case.random.choice(ALIASES[role])
    return case.random.choice([name, name, name, name.upper(), name.capitalize()])


def _alphabet(case: Case) -> list[str]:
    """Choose a few cells that states, or actions, are called."""
    pick = case.random
    kind = pick.random()
    if kind < 0.45:
        found = [str(i) for i in range(pick.randint(1, 6))]
        return found + pick.sample(NUMERALS, pick.choice([0, 0, 0, 0, 0, 1, 2]))
    if kind < 0.5:
        return pick.sample(NUMERALS, 3)
    found = pick.sample(CLEAN, pick.randint(2, 5))
    found += pick.sample(NAMES, pick.choice([0, 0, 1, 3]))
    if case.happens(0.06):
        found += pick.sample(MISSING, 1)
    if case.happens(0.06):
        found += pick.sample(NUMERALS, 1)
    return found


def _add_episodes(case: Case, columns: Table, n_rows: int) -> None:
    """Add steps within episodes; some are lost, some repeated, some are odd."""
    pick = case.random
    kind = pick.choice(["{}", "{}", "stay {}", "{}.5", "00{}", "x{}"])
    first = pick.choice([0, 1, -2])
    keys = [(kind.format(i // 4), str(first + i % 4)) for i in range(2 * n_rows)]
    lost = set(pick.sample(range(2 * n_rows), n_rows)) if case.happens(0.3) else set()
    keys = [key for i, key in enumerate(keys) if i not in lost][:n_rows]
    if case.happens(0.1):
        keys[pick.randrange(n_rows)] = (pick.choice([*MISSING, "7", "1e0", "7.0"]), "0")
    if case.happens(0.1):
        keys[0] = (keys[0][0], pick.choice(NUMERALS))
    pick.shuffle(keys)
    columns[_alias(case, "episode")] = [episode for episode, _ in keys]
    columns[_alias(case, "step")] = [step for _, step in keys]


def as_csv(case: Case, columns: Table) -> bytes:
    """Write text in one of the ways that programs write it."""
    pick = case.random
    stream = io.StringIO(newline="")
    writer = csv.writer(
        stream,
        delimiter=pick.choice(",,,;\t|"),
        lineterminator=pick.choice(["\n", "\n", "\r\n"]),
        quoting=pick.choice([csv.QUOTE_MINIMAL, csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    )
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    text = stream.getvalue()
    if case.happens(0.2):
        text = text.rstrip("\r\n")
    if case.happens(0.15):
        text = _broken(case, text)
    encoding = pick.choice(["utf-8"] * 8 + ["utf-8-sig", "utf-8-sig", "latin-1"])
    try:
        return text.encode(encoding)
    except UnicodeEncodeError:
        return text.encode("utf-8")


def _broken(case: Case, text: str) -> str:
    """Break lines, delimiters or quotes."""
    pick = case.random
    lines = text.split("\n")
    i = pick.randrange(len(lines))
    how = pick.choice(
        ["more", "less", "empty", "blank", "quote", "twice", "cut", "zero"]
    )
    if how == "more":
        lines[i] += ",7"
    elif how == "less":
        lines[i] = lines[i].rpartition(",")[0]
    elif how == "empty":
        lines[i] += pick.choice([",", ";", ",,", "\t"])
    elif how == "blank":
        lines.insert(i, pick.choice(["", " ", ",", "#"]))
    elif how == "quote":
        at = pick.randint(0, len(lines[i]))
        lines[i] = lines[i][:at] + pick.choice(['"', '""', "'", "\\"]) + lines[i][at:]
    elif how == "twice":
        lines.insert(i, lines[0])
    elif how == "cut":
        return text[: pick.randint(0, len(text))]
    else:
        lines[i] += pick.choice(["\0", "\x1a", "\x0b", "\u2028", "\r", "\x85"])
    return "\n".join(lines)


def as_json(case: Case, columns: Table) -> bytes:
    """Write objects, lines or an array; numbers as numbers or as text."""
    pick = case.random
    bare = case.happens(0.7)
    rows = zip(*columns.values(), strict=True)
    texts = [_object(case, dict(zip(columns, row, strict=True)), bare) for row in rows]
    if case.happens(0.2):
        texts[pick.randrange(len(texts))] = pick.choice(
            ["{}", "[1]", "7", "null", '{"state": [1]}', '{"state": {"a": 1}}', "{"]
        )
    if case.happens(0.4):
        return f"[{','.join(texts)}]".encode()
    return "\n".join(texts).encode()


def _object(case: Case, row: dict[str, str], bare: bool) -> str:
    pairs = []
    for name, cell in row.items():
        if cell == "" and case.happens(0.5):
            if case.happens(0.5):
                pairs.append(f"{json.dumps(name)}: null")
            continue
        written = json.dumps(cell, ensure_ascii=case.happens(0.5))
        if bare and _is_json_number(cell):
            written = cell
        pairs.append(f"{json.dumps(name)}: {written}")
    return "{" + ", ".join(pairs) + "}"


def _is_json_number(cell: str) -> bool:
    try:
        return isinstance(json.loads(cell), int | float) and cell not in ("NaN",)
    except ValueError:
        return False


def damaged(case: Case, content: bytes) -> bytes:
    """Flip, cut, repeat or insert bytes."""
    pick = case.random
    found = bytearray(content)
    for _ in range(pick.choice([1, 1, 2, 5])):
        at = pick.randrange(len(found) + 1)
        how = pick.choice(["flip", "flip", "flip", "cut", "insert", "repeat", "drop"])
        if how == "flip" and found:
            found[at % len(found)] ^= 1 << pick.randrange(8)
        elif how == "cut" and at:
            del found[at:]
        elif how == "insert":
            found[at:at] = pick.randbytes(pick.choice([1, 4, 40]))
        elif how == "repeat":
            found[at:at] = found[at : at + 20]
        elif how == "drop":
            del found[at : at + pick.choice([1, 4])]
    return bytes(found)


def choose(case: Case, among: Sequence[str]) -> str:
    """Pick one."""
    return case.random.choice(among)
