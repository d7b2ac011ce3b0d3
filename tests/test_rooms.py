"""The folders are rooms in the order of the data's way; imports point upwards only."""

import ast
import re
from pathlib import Path

import pytest

import bayesmdp

PACKAGE = Path(bayesmdp.__file__).parent
ROOMS = ["data", "model", "priors", "posterior", "engine", "worlds", "evaluation"]
ROOMS += ["policies", "optimisation", "information", "diagnostics", "economics"]
ROOMS += ["storage", "reporting", "cli"]
SHARED = {"errors", "_checks", "_typing", "_jit", "_resources", "_version"}
SHARED |= {"_sheet", "_labelled", "_io", "_startup"}
SHARED |= {"_kernel_parts"}
DOORS = {"__init__", "__main__"}  # the front door lists every room
GUESTS = {"cli"}  # comes in by the front door, as users do


def imports(source: str) -> set[tuple[str, ...]]:
    """Modules of the package that a file imports, anywhere in it, as parts."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            start = "." * node.level + (node.module or "")
            names |= {f"{start}.{alias.name}" for alias in node.names}
    parts = [tuple(name.split(".")) for name in names]
    return {p[1:] for p in parts if p[0] in ("bayesmdp", "")}


def faults(where: tuple[str, ...], source: str) -> list[str]:
    """What is wrong with the imports of the file at ``where`` (room first)."""
    room, found = where[0], []
    for there in sorted(imports(source)):
        said = f"{'/'.join(where)} imports {'.'.join(there) or 'the front door'}"
        first = there[0] if there else "__init__"
        by_the_door = len(there) < 2 and first not in ROOMS and room in GUESTS
        if not first:
            found.append(f"{said}: relative")
        elif first in SHARED or by_the_door or (room in DOORS and len(there) <= 2):
            continue
        elif room not in ROOMS or first not in ROOMS:
            found.append(f"{said}: not a room above it")
        elif ROOMS.index(first) > ROOMS.index(room):
            found.append(f"{said}: a room below it")
        elif first != room and any(part[0] == "_" for part in there[1:]):
            found.append(f"{said}: private to another room")
    return found


FILES = {
    path.relative_to(PACKAGE).with_suffix("").parts: path
    for path in sorted(PACKAGE.rglob("*.py"))
}
STUDIES = sorted((Path(__file__).parents[1] / "studies").glob("*.py"))


def test_imports_point_one_way_and_private_files_stay_in_their_room() -> None:
    assert len(FILES) > 30
    wrong = [
        fault
        for where, path in FILES.items()
        for fault in faults(where, path.read_text())
    ]
    assert wrong == []


def test_no_private_name_of_narwhals_is_imported() -> None:
    private = re.compile(r"narwhals(\.\w+)*\._|narwhals[\w.]* import .*\b_")
    assert private.search("from narwhals import _namespace")
    assert private.search("import narwhals._utils")
    assert [x for x, path in FILES.items() if private.search(path.read_text())] == []


def test_every_folder_is_a_room_and_every_other_file_is_shared_by_all() -> None:
    assert {where[0] for where in FILES} <= {*ROOMS, *SHARED, *DOORS}


@pytest.mark.parametrize(
    ("where", "source", "fault"),
    [
        ("model/_task", "from bayesmdp.engine import sweep", "below"),
        ("model/_task", "def f():\n    import bayesmdp.cli", "below"),
        ("model/_task", "from bayesmdp import posterior", "below"),
        ("engine/_sweep", "from bayesmdp.posterior._random import philox", "private"),
        ("engine/_sweep", "from bayesmdp.model import _task", "private"),
        ("cli/commands/demo", "from bayesmdp.data._counts import x", "private"),
        ("engine/_sweep", "from . import _kernel", "relative"),
        ("engine/_sweep", "from .._typing import Array", "relative"),
        ("_checks", "from bayesmdp.model import Task", "not a room"),
        ("engine/_sweep", "from bayesmdp.elsewhere import x", "not a room"),
        ("engine/_sweep", "from bayesmdp import evaluate", "not a room"),
        ("engine/_sweep", "import bayesmdp as bm", "not a room"),
        ("cli/_main", "from bayesmdp.elsewhere import x", "not a room"),
    ],
)
def test_a_wrong_import_is_caught(where: str, source: str, fault: str) -> None:
    (found,) = faults(tuple(where.split("/")), source)
    assert fault in found


@pytest.mark.parametrize(
    ("where", "source"),
    [
        ("engine/_sweep", "from bayesmdp.engine._kernel import sample"),
        ("engine/_sweep", "from bayesmdp.posterior.sampling import uniform"),
        ("evaluation/_evaluate", "from bayesmdp import _checks, engine"),
        ("data/_counts", "import numpy as np\nfrom bayesmdp.errors import CountsError"),
        ("__init__", "from bayesmdp.evaluation import evaluate"),
        ("cli/commands/demo", "import bayesmdp as bm\nfrom bayesmdp import Evaluation"),
    ],
)
def test_a_right_import_passes(where: str, source: str) -> None:
    assert faults(tuple(where.split("/")), source) == []


def test_the_package_knows_nothing_of_what_lies_beside_it() -> None:
    beside = re.compile(r"^\s*(from|import) (studies|benchmarks|tests)\b", re.M)
    assert [x for x in FILES.values() if beside.search(x.read_text())] == []
    assert any(beside.search(x.read_text()) for x in STUDIES)


def test_studies_come_in_as_the_command_line_does() -> None:
    assert len(STUDIES) > 20
    wrong = [fault for x in STUDIES for fault in faults(("cli", x.stem), x.read_text())]
    assert wrong == []


def test_no_file_is_longer_than_500_lines() -> None:
    paths = [*FILES.values(), *STUDIES]
    lengths = {path: len(path.read_text().splitlines()) for path in paths}
    assert {path: n for path, n in lengths.items() if n > 500} == {}
