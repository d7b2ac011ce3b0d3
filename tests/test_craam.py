"""CSV files of CRAAM as worlds."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bayesmdp as bm
from bayesmdp.errors import ArgumentError, DynamicsError, TaskError, TooLargeError
from bayesmdp.worlds import from_craam, from_mdptoolbox

HEAD = "idstatefrom,idaction,idstateto,probability,reward\n"


def test_a_file_says_the_same_as_arrays(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    model = rng.dirichlet(np.ones(4), size=(2, 4))  # [A, S, S]
    pays = rng.standard_normal(model.shape)
    lines = [
        f"{s},{a},{t},{model[a, s, t]!r},{pays[a, s, t]!r}"
        for a, s, t in np.ndindex(model.shape)
    ]
    rng.shuffle(lines)
    path = tmp_path / "model.csv"
    path.write_text(HEAD + "\n".join(lines).replace("np.float64(", "").replace(")", ""))
    world = from_craam(path, discount=0.9)
    arrays = from_mdptoolbox(model, pays, discount=0.9)
    policy = rng.dirichlet(np.ones(2), size=4)
    assert np.allclose(world.value(policy), arrays.value(policy))
    assert world.task.terminal.size == 0


def test_rows_add_up_and_states_without_rows_are_terminal(tmp_path: Path) -> None:
    path = tmp_path / "model.csv"
    path.write_text(
        "\ufeffIdStateFrom, idaction,idoutcome,idstateto,probability,reward\r\n"
        "0,1,0,3,0.25,8\r\n\r\n0,1,0,3,0.25,0\r\n0,1,0,0,0.5,1\r\n0,0,0,2,0,99\r\n"
    )
    with pytest.warns(
        bm.BayesmdpWarning, match="`from_craam`: rewards vary in 1 transition"
    ):
        world = from_craam(str(path), discount=0.5, start=0)
    assert world.task.terminal.tolist() == [1, 2, 3]
    assert world.available.tolist()[0] == [False, True]
    value = (0.5 * 4 + 0.5 * 1) / (1 - 0.5 * 0.5)
    assert world.value([1, 0, 0, 0])[0] == pytest.approx(value)


BAD: dict[str, tuple[str | bytes, dict[str, Any], type, str]] = {
    "empty": ("", {}, DynamicsError, "`model.csv` holds no rows"),
    "header only": (HEAD, {}, DynamicsError, "`model.csv` holds no rows"),
    "underscores": (
        HEAD + "1_2,0,0,1,0\n",
        {},
        DynamicsError,
        "Line 2 .*`idstatefrom`; got '1_2'",
    ),
    "no header": ("0,0,0,1,0\n", {}, DynamicsError, "must name `idstatefrom` once"),
    "twice": (HEAD[:-1] + ",reward\n", {}, DynamicsError, "must name `reward` once"),
    "short": (HEAD + "0,0,0,1\n", {}, DynamicsError, "Line 2 .* 4 fields .* has 5"),
    "text": (
        HEAD + "a,0,0,1,0\n",
        {},
        DynamicsError,
        "Line 2 .*`idstatefrom`; got 'a'",
    ),
    "negative": (HEAD + "0,-1,0,1,0\n", {}, DynamicsError, "`idaction`; got '-1'"),
    "fraction": (HEAD + "0,0,0.5,1,0\n", {}, DynamicsError, "`idstateto`; got '0.5'"),
    "far": (HEAD + "0,0,99999999,1,0\n", {}, DynamicsError, r"in 0\.\.10000000"),
    "percent": (HEAD + "0,0,0,50,0\n", {}, DynamicsError, r"in \[0, 1\]"),
    "NaN": (HEAD + "0,0,0,1,nan\n", {}, DynamicsError, "`reward`; got 'nan'"),
    "sum": (HEAD + "0,0,0,0.9,0\n", {}, DynamicsError, "action 0 sums to 0.9"),
    "robust": (
        "idoutcome," + HEAD + "0,0,0,0,1,0\n1,0,0,0,1,0\n",
        {},
        DynamicsError,
        "Line 3 .* `idoutcome` '1'",
    ),
    "Latin-1": (HEAD.encode() + b"\xe9", {}, DynamicsError, "it is not text"),
    "zeros": (bytes(100), {}, DynamicsError, "must name|cannot be read"),
    "start": (HEAD + "0,0,0,1,0\n", {"start": 4}, TaskError, "`start` must be in 0"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_are_refused(name: str, tmp_path: Path) -> None:
    text, options, error, said = BAD[name]
    path = tmp_path / "model.csv"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(error, match=said) as caught:
        from_craam(path, discount=0.9, **options)
    assert type(caught.value) is error
    assert "\n" not in str(caught.value)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        DynamicsError, match=r"nowhere\.csv` cannot be read: No such file"
    ):
        from_craam(tmp_path / "nowhere.csv", discount=0.9)
    with pytest.raises(DynamicsError, match="cannot be read: Is a directory"):
        from_craam(tmp_path, discount=0.9)
    (tmp_path / "far.csv").write_text(f"{HEAD}0,9999999,9999999,1,0\n")
    with pytest.raises(TooLargeError, match=r"far\.csv` has ids up to .* without gaps"):
        from_craam(tmp_path / "far.csv", discount=0.9)
    with pytest.raises(ArgumentError, match="got int"):
        from_craam(3, discount=0.9)  # type: ignore[arg-type]
