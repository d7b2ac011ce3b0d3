"""The reference: one page per task, written from what rooms list and docstrings say.

Rooms of the package are stages of an analysis, so that their ``__all__`` is the
grouping by task. A name that the package offers at the top is shown there, because that
is how it is written. Records tell their fields, with the axes of arrays, from the
comments beside them.
"""

import ast
import importlib
import inspect
import re
import textwrap
from dataclasses import is_dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import bayesmdp as bm

HERE = Path(__file__).parents[1] / "api"
#: Rooms in the order of an analysis, and what one looks for there.
PAGES = {
    "data": "Read and check a log",
    "model": "Say what is known: tasks and policies",
    "priors": "Say what is assumed: priors",
    "posterior": "Beliefs and draws",
    "evaluation": "Evaluate and compare policies",
    "policies": "Policies to compare with",
    "optimisation": "Find the best policy",
    "information": "What would more data be worth?",
    "economics": "Costs and effects",
    "diagnostics": "Should we believe it?",
    "worlds": "Worlds with exact answers",
    "reporting": "The report",
    "plots": "Pictures",
    "storage": "Keep results",
    "errors": "Errors and warnings",
}
FIELD = re.compile(r"^    (\w+): (.+?)(?:  # (.*))?$", re.M)


listed_before: set[int] = set()  # a name that two rooms list stands in the first


def names_of(room: Any) -> list[str]:
    """Full names of what a room offers: everyday names first."""
    listed = getattr(room, "__all__", None) or [
        name for name, item in vars(room).items() if inspect.isclass(item)
    ]
    items = {name: getattr(room, name) for name in listed}
    items = {
        name: item for name, item in items.items() if id(item) not in listed_before
    }
    listed_before.update(id(item) for item in items.values())
    known = {id(getattr(bm, name)) for name in bm.__all__}
    everyday = [n for n, x in items.items() if id(x) in known and shown(x)]
    others = [n for n, x in items.items() if n not in everyday and shown(x)]
    path = f"bayesmdp.{room.__name__.rsplit('.', 1)[-1]}"
    return [f"bayesmdp.{n}" for n in everyday] + [f"{path}.{n}" for n in others]


def shown(item: Any) -> bool:
    """Whether users call it: classes, and functions with an example."""
    if inspect.isclass(item):
        return bool(item.__doc__) and not getattr(item, "_is_protocol", False)
    return inspect.isfunction(item) and ">>>" in (item.__doc__ or "")


def write_pages() -> list[str]:
    """Write a page per room, leave alone what has not changed, and say which.

    Before Sphinx looks which pages there are, so that a new room is found at once.
    """
    HERE.mkdir(exist_ok=True)
    rows, every = [], set()
    for name, title in PAGES.items():
        if name != "plots" and find_spec(f"bayesmdp.{name}") is None:
            continue
        room = (
            bm.plots if name == "plots" else importlib.import_module(f"bayesmdp.{name}")
        )
        names = names_of(room)
        if name == "plots":
            names = [f"bayesmdp.reporting.plots.{x}" for x in room.__all__]
        said = (inspect.getdoc(room) or "").split("\n\n")[0]
        listing = "\n".join(f"   {x}" for x in names)
        rows.append(name)
        every.update(names)
        write(
            HERE / f"{name}.rst",
            f"{title}\n{'=' * len(title)}\n\n{said}\n\n"
            f".. autosummary::\n   :toctree: generated\n\n{listing}\n",
        )
    for old in (*HERE.glob("generated/*.rst"), *HERE.glob("*.rst")):
        if old.stem not in {*every, *rows, "index"}:  # of names that are gone
            old.unlink()
    listing = "\n".join(f"   {x}" for x in rows)
    write(
        HERE / "index.rst",
        "Reference\n=========\n\n``import bayesmdp as bm`` gives the everyday names; "
        "others are reached through their room, as in ``bm.data.discretise``. Pages "
        "follow an analysis from its log to its report, and each name ends with the "
        "gallery scripts that use it. Axes of arrays: S states, A actions, D draws, M "
        "models, E entries (possible transitions), P policies or priors. The command "
        "line says the same with "
        "``bayesmdp --help``.\n\n.. toctree::\n   :maxdepth: 1\n\n" + listing + "\n",
    )
    return [f"api/{name}.rst" for name in rows]


def write(path: Path, text: str) -> None:
    """Write what differs, so that unchanged pages are not read again."""
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def add_fields(
    app: Any, what: str, name: str, item: Any, options: Any, lines: list[str]
) -> None:
    """Add a table of the fields of a record, unless its docstring lists them."""
    if what != "class" or not is_dataclass(item) or ":Parameters:" in lines:
        return
    found = fields_of(item)
    if not found:
        return
    table = ["", ".. list-table::", "   :header-rows: 1", "   :class: fields", ""]
    table += ["   * - field", "     - type", "     - what it is"]
    for field, kind, comment in found:
        table.append(f"   * - ``{field}``")
        table.append(f"     - ``{kind.split(' = ')[0]}``")
        table.append(f"     - {escaped(comment)}".rstrip())
    at = next((i for i, x in enumerate(lines) if x.startswith(".. rubric")), len(lines))
    lines[at:at] = [*table, ""]


def escaped(comment: str) -> str:
    """Text of a comment as plain text of a page."""
    return re.sub(r"([*|`_\\])", r"\\\1", comment)


def fields_of(item: Any) -> list[tuple[str, str, str]]:
    """Name, type with default, and comment of each field that a class itself has."""
    try:
        source = inspect.getsource(item)
    except OSError:
        return []
    body = re.split(r"^    (?:def|@)", source, maxsplit=1, flags=re.M)[0]
    found = FIELD.findall(body.rsplit('"""', 1)[-1])
    return [x for x in found if x[0][0] != "_" and "ClassVar" not in x[1]]


def _of_fields(item: Any) -> str:
    """Signature of a class that users make; records are made for them."""
    if "Parameters\n" not in (inspect.getdoc(item) or ""):
        return "(...)"
    kinds = {
        name: kind.split(" = ")[0]
        for base in reversed(item.__mro__[:-1])
        for name, kind, _ in fields_of(base)
    }
    parts: list[str] = []
    for name, field in inspect.signature(item).parameters.items():
        if field.kind is field.KEYWORD_ONLY and "*" not in parts:
            parts.append("*")
        default = "" if field.default is field.empty else f" = {field.default!r}"
        parts.append(f"{name}: {kinds.get(name, 'Any')}{default}")
    return f"({', '.join(parts)})"


def as_written(
    app: Any, what: str, name: str, item: Any, options: Any, signature: Any, back: Any
) -> tuple[str, str | None] | None:
    """Show the signature with the names that the source has, not what they stand for.

    ``PolicyLike`` says more than the twelve kinds of arrays that it allows.
    """
    target = item.__init__ if inspect.isclass(item) else item
    target = inspect.unwrap(getattr(target, "__func__", target))
    generated = getattr(target, "__code__", None)
    if what == "class" and is_dataclass(item) and generated.co_filename == "<string>":
        return _of_fields(item), None
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(target)))
    except (OSError, TypeError, SyntaxError):
        return None
    function = tree.body[0]
    if not isinstance(function, ast.FunctionDef):
        return None
    of = function.args
    if what in ("class", "method") and of.args and of.args[0].arg in ("self", "cls"):
        of.args = of.args[1:]
    for each in (*of.args, *of.kwonlyargs):
        if isinstance(each.annotation, ast.Constant):  # quoted
            each.annotation = ast.parse(str(each.annotation.value)).body[0].value
    returned = function.returns
    if isinstance(returned, ast.Constant) and isinstance(returned.value, str):
        returned = ast.parse(returned.value).body[0].value
    back = None if what == "class" or returned is None else ast.unparse(returned)
    return f"({ast.unparse(of)})", back


def setup(app: Any) -> dict[str, bool]:
    """Join the build; fields come after what numpydoc makes of a docstring."""
    app.connect("autodoc-process-docstring", add_fields, priority=900)
    app.connect("autodoc-process-signature", as_written)
    return {"parallel_read_safe": True}
