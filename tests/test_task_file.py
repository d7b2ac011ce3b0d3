"""Task files: what they may say, what is said of those that say something else."""

import re
import tempfile
import tomllib
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bayesmdp as bm
from bayesmdp.errors import CountsError, StorageError, TaskError, TooLargeError
from bayesmdp.storage import read_task, write_template

HEAD = """
discount = 0.9
terminal = ["home"]
state_labels = ["ward", "icu", "home"]
action_labels = ["wait", "treat"]
"""
IDS = "discount = 0.9\nterminal = [2]\nn_states = 3\nn_actions = 2\n"


def read(tmp_path: Path, text: str, data: bm.Transitions | None = None) -> bm.Task:
    path = tmp_path / "task.toml"
    path.write_text(text, encoding="utf-8")
    return read_task(path, data)


def task_template(log: bm.Transitions) -> str:
    with tempfile.TemporaryDirectory() as folder:
        return write_template(log, Path(folder, "task.toml")).read_text("utf-8")


def frame(**columns: list[Any]) -> bm.Transitions:
    import polars as pl

    return bm.read_transitions(pl.DataFrame(columns))


LOG = bm.Transitions.from_arrays([0, 1, 1], [0, 1, 0], [1, 2, 0])
NAMED = frame(state=["icu", "ward"], action=["a", "b"], next_state=["home", "icu"])


@pytest.mark.parametrize(
    ("labelled", "by_id", "reward"),
    [
        (
            "reward.state = { home = 1, icu = -0.5 }",
            "reward.state = { 2 = 1, 1 = -0.5 }",
            [0, -0.5, 1],
        ),
        ("reward.state = {}", "[reward.state]", [0, 0, 0]),
        (
            "[reward.state_action.icu]\ntreat = -0.1\nwait = 2",
            "reward.state_action = { 1 = { 1 = -0.1, 0 = 2 } }",
            [[0, 0], [2, -0.1], [0, 0]],
        ),
        (
            "[[reward.transition]]\nstate='icu'\naction='treat'\nnext_state='home'\n"
            "value=1\n[[reward.transition]]\nstate='ward'\naction='wait'\n"
            "next_state='icu'\nvalue=2.5",
            "reward.transition = [{ state=1, action=1, next_state=2, value=1 },"
            "{ state='0', action=0, next_state=1, value=2.5 }]",
            ([1, 0], [1, 0], [2, 1], [1, 2.5]),
        ),
    ],
    ids=["state", "empty", "state_action", "transition"],
)
def test_rewards_by_name_and_by_id_mean_the_same(
    tmp_path: Path, labelled: str, by_id: str, reward: Any
) -> None:
    form = reward if isinstance(reward, tuple) else np.array(reward, dtype=float)
    wanted = bm.Task(3, 2, form, discount=0.9, terminal=[2])
    grid = np.indices((3, 2, 3)).reshape(3, -1)
    for text in (HEAD + labelled, IDS + by_id):
        found = read(tmp_path, text)
        assert found.transition_reward(*grid).tolist() == (
            wanted.transition_reward(*grid).tolist()
        )
        assert type(found.reward) is type(wanted.reward)
        assert found.terminal.tolist() == [2]
        assert found.discount == 0.9
        assert (found.n_states, found.n_actions) == (3, 2)
        assert np.array_equal(found.start, wanted.start)


PARTLY = "icu = { treat = 2 }\nward = {}\nhome = { wait = 1 }\n"


@pytest.mark.parametrize(
    ("reward", "where"),
    [
        ("[reward.state_action]\n" + PARTLY, "reward.state_action"),
        ("[cost.state_action]\n" + PARTLY, "cost.state_action"),
        (
            "[reward.qaly.state_action]\nicu = { treat = 1, wait = 1 }\n"
            "[reward.cost.state_action]\n" + PARTLY,
            "reward.cost.state_action",
        ),
    ],
    ids=["reward", "cost", "several"],
)
def test_an_action_left_out_of_a_state_that_is_named_is_warned_of(
    tmp_path: Path, reward: str, where: str
) -> None:
    """Not of states that are terminal, or of which nothing is said."""
    with pytest.warns(bm.BayesmdpWarning) as caught:
        task = read(tmp_path, HEAD + reward)
    (message,) = (str(x.message) for x in caught)
    assert message == (
        f"`{where}` leaves out 1 action of states that it names (first: state icu, "
        "action wait) and pays 0 there: give every action of these states a number, 0 "
        "where that is meant."
    )
    pays = list(task.parts.values())[-1]
    paid = pays.reward if pays.cost is None else pays.cost
    assert np.array_equal(paid, [[0, 0], [0, 2], [1, 0]])


@pytest.mark.parametrize("n", [2, 30, 31])
def test_a_template_lists_every_action_or_says_that_there_are_more(
    tmp_path: Path, n: int
) -> None:
    data = bm.Transitions.from_arrays(np.zeros(n, int), np.arange(n), np.ones(n, int))
    write_template(data, tmp_path / "task.toml")
    (line,) = re.findall("# state_action.*", (tmp_path / "task.toml").read_text())
    assert line.count("= 0.0") == min(n, 30)
    assert line.endswith(", ... }") == (n > 30)


def test_numbers_that_are_names_are_names(tmp_path: Path) -> None:
    """Also in a template, whose rewards and labels come from the data."""
    import polars as pl

    table = pl.DataFrame(
        {"s": [20, 1], "a": [1, 2], "sp": [1, 0], "r": [0.0, 7.0], "done": [0, 1]}
    )
    data = bm.read_transitions(table, labels=True)
    template = task_template(data).replace('"uniform"', '"20"')
    found = read(tmp_path, template, data)
    assert found.state_labels == ("0", "1", "20")
    assert found.terminal.tolist() == [0]
    assert found.start.tolist() == [0, 0, 1]
    by_id = read_task({"discount": 1, "terminal": [0], "start": 1}, data)
    assert (by_id.terminal.tolist(), by_id.start.tolist()) == ([0], [0, 1, 0])


def test_four_states_and_as_many_transitions_as_actions(tmp_path: Path) -> None:
    # Four columns of two could be taken for the rows of a table [4, 2].
    text = "discount=1\nterminal=[3]\nn_states=4\nn_actions=2\n" + "".join(
        f"[[reward.transition]]\nstate={s}\naction=1\nnext_state=3\nvalue={s + 5}\n"
        for s in (0, 2)
    )
    found = read(tmp_path, text).transition_reward(
        np.array([0, 1, 2]), np.array([1, 1, 1]), np.array([3, 3, 3])
    )
    assert found.tolist() == [5, 0, 7]


@pytest.mark.parametrize(
    ("start", "wanted"),
    [
        ("'uniform'", [0.5, 0.5, 0]),
        ("'icu'", [0, 1, 0]),
        ("0", [1, 0, 0]),
        ("[0.25, 0.75, 0]", [0.25, 0.75, 0]),
        ("{ icu = 0.75, ward = 0.25 }", [0.25, 0.75, 0]),
    ],
)
def test_starts(tmp_path: Path, start: str, wanted: list[float]) -> None:
    found = read(tmp_path, f"start = {start}\n{HEAD}\nreward.state.home = 1")
    assert found.start.tolist() == wanted


def test_sizes_and_names_come_from_the_data(tmp_path: Path) -> None:
    text = "discount = 0.9\nterminal = [{}]\nreward.state = {{ {} = 1.0 }}"
    found = read(tmp_path, text.format("'home'", "home"), NAMED)
    assert found.state_labels == ("home", "icu", "ward")
    assert found.action_labels == ("a", "b")
    assert found.terminal.tolist() == [0]
    assert found.reward.tolist() == [1, 0, 0]  # type: ignore[union-attr]
    found = read(tmp_path, text.format("2", "2"), LOG)
    assert (found.n_states, found.n_actions, found.state_labels) == (3, 2, None)
    found = read(tmp_path, "n_states = 9\n" + text.format("2", "8"), LOG)
    assert found.n_states == 9


@pytest.mark.parametrize("labelled", [False, True])
def test_what_the_file_leaves_out_the_data_say(tmp_path: Path, labelled: bool) -> None:
    log = bm.Transitions.from_arrays(
        [0, 1],
        [0, 1],
        [1, 2],
        reward=[3, 4],
        terminated=[False, True],
        episode=[0, 1],
        step=[0, 0],
    )
    names = "state_labels = ['a', 'b', 'c']\n"
    more = names if labelled else ""
    at = np.array([[0, 1], [0, 1], [1, 2]])
    for text in ("discount = 0.5\n", "discount = 0.5\n[reward]\nfrom_data = true\n"):
        found = read(tmp_path, more + text, log)
        assert found.terminal.tolist() == [2]
        assert found.transition_reward(*at).tolist() == [3, 4]
        assert found.state_labels == (("a", "b", "c") if labelled else None)
    found = read(tmp_path, "start = 'logged'\n" + IDS + "reward.state = {}", log)
    assert found.start.tolist() == [0.5, 0.5, 0]
    found = read(tmp_path, "terminal = ['b']\ndiscount = 1\nstart = 'a'\n" + names, log)
    assert found.terminal.tolist() == [1]
    assert found.start.tolist() == [1, 0, 0]
    found = read(tmp_path, "terminal = [1]\ndiscount = 0.5", log)
    assert found.terminal.tolist() == [1]
    assert found.transition_reward(*at).tolist() == [3, 4]
    found = read(tmp_path, "discount = 0.5\nreward.state = { 2 = 7 }", log)
    assert found.reward.tolist() == [0, 0, 7]  # type: ignore[union-attr]
    assert found.terminal.tolist() == [2]
    with pytest.raises(CountsError, match="which does not stand in the task's `state_"):
        read(tmp_path, "discount = 0.5\nstate_labels = ['x', 'y', 'z']", NAMED)
    with pytest.raises(TaskError, match="`state_labels` names 2, but `data` has 3 sta"):
        read(tmp_path, "discount = 0.5\nstate_labels = ['0', '1']", log)


@pytest.mark.parametrize("given", ["", "terminal = ['home']\n", "reward.state = {}\n"])
def test_the_order_of_labels_does_not_matter(tmp_path: Path, given: str) -> None:
    """Also with a state and an action that the log does not have."""
    columns = {"state": ["icu", "ward", "icu"], "action": ["wait", "treat", "treat"]}
    columns |= {"next_state": ["ward", "home", "home"], "terminated": [0, 1, 1]}
    order = {"reward": [1, 2, 3], "episode": [1, 1, 2], "step": [0, 1, 0]}
    data = bm.read_transitions(pa.table(columns | order))
    text = "discount = 0.5\nstart = 'logged'\n" + given
    names = "state_labels = ['ward', 'dead', 'home', 'icu']\naction_labels = "
    found = read(tmp_path, names + "['treat', 'wait', 'x']\n" + text, data)
    plain = read(tmp_path, text, data)
    assert found.state_labels == ("ward", "dead", "home", "icu")
    assert [found.state_name(x) for x in found.terminal] == ["home"]
    assert found.start.tolist() == [0, 0, 0, 1]
    at = [[task.state(x) for x in columns["state"]] for task in (found, plain)]
    to = [[task.state(x) for x in columns["next_state"]] for task in (found, plain)]
    by = [[task.action(x) for x in columns["action"]] for task in (found, plain)]
    one, other = (
        task.transition_reward(*map(np.array, (at[i], by[i], to[i]))).tolist()
        for i, task in enumerate((found, plain))
    )
    assert one == other
    bm.fit(data, found)


BAD: list[tuple[str, str]] = [
    ("discount = \nx=1", "in TOML: Invalid value (at line 1, column 12)."),
    ("discount = 1\ndiscount = 1\n", "(at line 2, column 13)"),
    ("x", "is not a task file in TOML"),
    ('{"discount": 0.9}', "; write it in TOML, not JSON."),
    ("a=" + "[" * 20_000, "is not a task file in TOML"),
    ("", "`discount` is missing"),
    ("discunt = 1", "`discunt` is not a key of a task (did you mean 'discount'?)"),
    (IDS + "[reward]\nstats = {}", "`reward.stats` is not a key"),
    (IDS + "[reward]\nstats = {}", "did you mean 'state'?"),
    (IDS + "reward = [1, 2]", "`reward` must be 'alive', or a table"),
    (IDS + "[reward]", "must say one of state, state_action"),
    (IDS + "reward.state={}\nreward.state_action={}", "it has state and state_action"),
    (IDS + "reward.from_data = false", "`reward.from_data` must be true"),
    (IDS + "reward.from_data = true", "There are no data to read the task off: give"),
    (IDS, "There are no data to read the task off: give `reward`."),
    (
        "discount=1\nn_states=2\nn_actions=1\nreward.state={}",
        "There are no data to read the task off: give `terminal` ([] for none).",
    ),
    (IDS + "reward.state = 3", "`reward.state` must be a table"),
    (IDS + "reward.state.7 = 3", "`reward.state` must be in 0..2; got 7"),
    (IDS + "reward.state.icu = 3", "'icu' is a label, but the task has none"),
    (HEAD + "reward.state.hme = 3", "'hme' is not among the labels (did you mean"),
    (HEAD + "reward.state.1 = 3", "'1' is not among the labels"),
    (HEAD + "reward.state.home = 'x'", "`reward.state.home` must be a number"),
    (HEAD + "reward.state.home = true", "`reward.state.home` must be a number"),
    (HEAD + "reward.state.home = nan", "`reward.state.home` must be finite"),
    (HEAD + "reward.state.home = inf", "`reward.state.home` must be finite"),
    (HEAD + "reward.state_action.icu = 1", "`reward.state_action.icu` must be a table"),
    (HEAD + "reward.state_action.icu.cut = 1", "`reward.state_action.icu` 'cut'"),
    (HEAD + "reward.transition = 1", "must be a list of tables: [[reward.transition]]"),
    (HEAD + "reward.transition = [1]", "`reward.transition 0` must be a table"),
    (HEAD + "reward.transition = [{}]", "`reward.transition` 0 lacks `state`"),
    (HEAD + "reward.transition = [{vlue=1}]", "did you mean 'value'?"),
    (
        IDS + "reward.transition = [" + "{state=0,action=0,next_state=0,value=1}," * 2
        + "]",
        "`reward.transition` 1 repeats 0",
    ),
    (IDS.replace("0.9", "2") + "reward.state={}", "`discount` must be in [0, 1]"),
    (IDS.replace("0.9", "'x'") + "reward.state={}", "`discount` must be a number"),
    (IDS.replace("[2]", "2") + "reward.state={}", "`terminal` must be a list"),
    (IDS.replace("[2]", "[3]") + "reward.state={}", "`terminal` must be in 0..2"),
    (IDS.replace("[2]", "[true]") + "reward.state={}", "`terminal` must be a whole"),
    (IDS.replace("[2]", "[0,1,2]") + "reward.state={}", "holds every state"),
    (IDS.replace("= 3", "= 0") + "reward.state={}", "`n_states` must be at least 1"),
    (IDS.replace("= 3", "= 1.5") + "reward.state={}", "must be a whole number"),
    (IDS.replace("= 3", "= 100_000_000") + "reward.state={}", "at most 10000001"),
    (IDS.replace("n_states", "#"), "`n_states` is missing: give it, or `state_labels`"),
    ("n_states = 4" + HEAD, "`n_states` is 4, but there are 3 names"),
    (HEAD.replace("icu", "home") + "reward.state={}", "must be distinct: 'home'"),
    (HEAD.replace('"icu"', "1") + "reward.state={}", "must hold text; got 1"),
    (IDS + "state_labels = 'x'", "`state_labels` must be a list"),
    (HEAD + "cost.state.home = 'x'", "`cost.state.home` must be a number"),
    (HEAD + "cost.a.state={}\ncost.b.state={}", "`cost` must be a single one"),
    ("start = 'logged'" + HEAD + "reward.state={}", "give another `start`"),
    ("start = 'hom'" + HEAD + "reward.state={}", "`start` 'hom' is not among"),
    ("start = {home=1}" + HEAD + "reward.state={}", "lies on terminal states only"),
    ("start = [1]" + HEAD + "reward.state={}", "`start` must have shape (3,)"),
    ("start = 1979-05-27" + HEAD + "reward.state={}", "`start` must"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "said"), BAD, ids=range(len(BAD)))
def test_a_bad_file_gets_one_sentence(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(TaskError) as caught:
        read(tmp_path, text)
    message = str(caught.value)
    assert said in message, message
    assert f"`{tmp_path / 'task.toml'}`" in message
    assert "\n" not in message


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot be read: No such file"):
        read_task(tmp_path / "x.toml")
    with pytest.raises(StorageError, match="is not a plain file"):
        read_task(tmp_path)
    with pytest.raises(StorageError, match="`path` must be"):
        read_task(3)  # type: ignore[arg-type]
    (tmp_path / "x.toml").write_bytes(b"discount = '\xff'")
    with pytest.raises(TaskError, match="is not UTF-8"):
        read_task(tmp_path / "x.toml")
    with pytest.raises(TaskError, match="`data` must be of type Transitions"):
        read_task({"discount": 1}, LOG.counts())  # type: ignore[arg-type]


def test_a_table_that_does_not_fit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BAYESMDP_MEMORY", "1kB")
    with pytest.raises(TooLargeError, match=r"say `reward\.transition`"):
        read(tmp_path, IDS.replace("= 2", "= 999") + "reward.state_action = {}")


def test_a_template_is_a_task_file_that_says_what_the_data_show(tmp_path: Path) -> None:
    text = task_template(NAMED)
    found = tomllib.loads(text)
    assert found["terminal"] == ["home"]
    assert found["reward"] == {"state": {"home": 0.0}}
    assert '# state_labels = ["home", "icu", "ward"]' in text
    assert "2 transitions of 3 states and 2 actions" in text
    task = read(tmp_path, text, NAMED)
    assert task.terminal.tolist() == [0]
    assert bm.fit(NAMED, task, prior=bm.SymmetricPrior()).counts.total == 2


def test_every_line_of_a_template_that_is_a_setting_is_one(tmp_path: Path) -> None:
    for log in (NAMED, LOG):
        text = task_template(log)
        head, choices = text.split("# Or one of these")
        base = head[: head.index("[reward]")] + "[reward]\n"
        lines = [x[2:] for x in choices.splitlines() if " = " in x]
        assert len(lines) == 3
        for line in lines:
            read(tmp_path, base + line, log)


def test_a_template_takes_rewards_from_data_that_have_some() -> None:
    log = bm.Transitions.from_arrays([0], [0], [1], reward=[1])
    assert tomllib.loads(task_template(log))["reward"] == {"from_data": True}


def test_a_template_never_replaces_a_file_unasked(tmp_path: Path) -> None:
    path = write_template(LOG, tmp_path / "task.toml")
    path.write_text("mine")
    with pytest.raises(StorageError, match="is there already"):
        write_template(LOG, path)
    assert path.read_text() == "mine"
    write_template(LOG, path, overwrite=True)
    assert read_task(path).n_states == 3
    with pytest.raises(StorageError, match=r"there is no directory .*; make it first"):
        write_template(LOG, tmp_path / "no" / "task.toml")


UNKNOWN = (
    "na",
    "n/a",
    "nan",
    "null",
    "none",
    "alive",
    "lost",
    "ltfu",
    "censor",
    "withdr",
)
names = st.text(
    st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=6
).filter(
    lambda x: (
        x.strip()
        and not x.strip().lstrip("+-").isdigit()
        and not x.strip().casefold().startswith(UNKNOWN)
    )  # no ends that are proposed
)


@settings(max_examples=50, deadline=None)
@given(st.lists(names, min_size=2, max_size=4, unique=True))
def test_any_names_can_stand_in_a_template(labels: list[str]) -> None:
    log = bm.Transitions(LOG.table, tuple(sorted(labels * 3)[:3]), tuple(labels[:2]))
    found = tomllib.loads(task_template(log))
    assert found["terminal"] == [log.state_labels[2]]  # type: ignore[index]
    assert list(found["reward"]["state"]) == found["terminal"]


KEYS = ["discount", "terminal", "start", "n_states", "n_actions", "state_labels"]
KEYS += ["action_labels", "reward", "state", "action", "state_action", "transition"]
KEYS += ["next_state", "value", "from_data", "home", "0", "1", "x"]
keys = st.sampled_from(KEYS)
values = st.recursive(
    st.booleans()
    | st.integers(-2, 4)
    | st.integers()
    | st.floats()
    | st.sampled_from(["uniform", "home", "0", ""]),
    lambda x: st.lists(x, max_size=4) | st.dictionaries(keys, x, max_size=4),
    max_leaves=8,
)
GOOD: dict[str, Any] = tomllib.loads(HEAD + "reward.state.home = 1")


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(keys, values, max_size=4), st.booleans())
def test_any_settings_give_a_task_or_a_sentence(
    changes: dict[str, Any], labelled: bool
) -> None:
    base = GOOD if labelled else tomllib.loads(IDS + "reward.state.2 = 1")
    for record in (base | changes, changes):
        with suppress(bm.BayesmdpError):
            read_task(record)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=60), st.integers(0, 200))
def test_any_bytes_give_a_task_or_a_sentence(
    tmp_path_factory: pytest.TempPathFactory, junk: bytes, at: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "junk.toml"
    path.write_bytes((HEAD + "reward.state.home = 1").encode()[:at] + junk)
    with suppress(bm.BayesmdpError):
        read_task(path)


@pytest.mark.parametrize(
    ("episode", "step", "wanted"),
    [
        ([0, 0, 1, 2], [0, 1, 0, 0], "logged"),
        ([0, 0, 1, 2], [0, 0, 0, 0], "uniform"),  # which came first is not known
        ([0, 0, 1, 2], None, "uniform"),
        (None, None, "uniform"),
    ],
)
def test_a_template_begins_as_logged_where_the_log_knows(
    tmp_path: Path, episode: list[int] | None, step: list[int] | None, wanted: str
) -> None:
    log = bm.Transitions.from_arrays(
        [0, 1, 1, 1], [0, 0, 1, 0], [1, 2, 2, 2], episode=episode, step=step
    )
    template = task_template(log)
    assert f'\nstart = "{wanted}"\n' in template
    (tmp_path / "task.toml").write_text(template)
    found = read_task(tmp_path / "task.toml", log).start
    begins = {"logged": [1 / 3, 2 / 3, 0], "uniform": [0.5, 0.5, 0]}
    assert found == pytest.approx(begins[wanted])


def test_a_template_has_no_start_at_an_end(tmp_path: Path) -> None:
    log = bm.Transitions.from_arrays(
        [0, 1, 2], [0, 0, 0], [1, 2, 2], episode=[0, 0, 1], step=[0, 1, 0]
    )
    assert 'start = "uniform"' in task_template(log)


def test_alive_pays_in_a_task_file(tmp_path: Path) -> None:
    settings = {"discount": 0.9, "n_states": 3, "n_actions": 1, "terminal": [1]}
    made = read_task({**settings, "reward": "alive"})
    assert np.array_equal(made.reward, [1, 0, 1])
    with pytest.raises(TaskError, match="`reward` must be 'alive', or a table"):
        read_task({**settings, "reward": "dead"})
