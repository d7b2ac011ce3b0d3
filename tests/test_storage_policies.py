"""Policies by name and from files, as people write them."""

import os
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import bayesmdp as bm
from bayesmdp import storage
from bayesmdp._io import check_file
from bayesmdp.cli._runs import Job
from bayesmdp.errors import BayesmdpError, PolicyError, StorageError

TASK = bm.Task(
    4,
    2,
    reward=[0, 0, 1, 0],
    discount=0.9,
    terminal=["home", "death"],
    state_labels=["ward", "icu", "home", "death"],
    action_labels=["wait", "treat"],
)
COUNTS = bm.Counts.from_arrays([0, 0, 1, 1], [0, 1, 1, 1], [1, 2, 3, 0], [4, 3, 2, 2])
JOB = Job(seed=7, threads=None, as_json=False, quiet=True, path=Path("run"))
POSTERIOR = bm.fit(
    COUNTS, TASK, min_count=1, prior=bm.SymmetricPrior()
)  # waiting in the icu is unavailable
MIXED = np.array([[0.25, 0.75], [0.0, 1.0], [0, 0], [0, 0]])


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(text: str, name: str = "p.csv") -> Path:
    path = Path(name)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "text",
    [
        "state,action,probability\nward,wait,0.25\nward,treat,0.75\nicu,treat,1\n",
        "probability,action,state\n1.0,1,1\n.75,1,0\n2.5e-1,0,0\n",
        "\ufeffstate,action,probability\r\nicu,treat,1\r\nward,wait,0.25\r\n"
        "ward, treat ,0.75\r\nhome,wait,1\r\n",
    ],
    ids=["labels", "ids", "spreadsheet"],
)
def test_tables_with_labels_or_ids_are_read(text: str) -> None:
    assert np.array_equal(storage.read_policy(write(text), POSTERIOR), MIXED)


def test_one_action_a_state_needs_no_probability() -> None:
    path = write("state,action\nward,treat\nicu,treat\n")
    found = storage.read_policy(path, POSTERIOR)
    assert found.argmax(axis=1)[:2].tolist() == [1, 1]


def test_arrays_are_read() -> None:
    np.save("p.npy", MIXED)
    assert np.array_equal(storage.read_policy("p.npy", POSTERIOR), MIXED)
    np.save("p.npy", np.array([1, 1, 0, 0]))
    assert storage.read_policy("p.npy", POSTERIOR)[0].tolist() == [0, 1]


def test_what_is_written_is_read_back() -> None:
    rng = np.random.default_rng(0)
    world = bm.worlds.synthetic(0)
    posterior = bm.fit(world.sample(50, seed=0), world.task, prior=bm.SymmetricPrior())
    policy = rng.dirichlet(np.ones(5), size=5)
    policy[2] = [0, 1, 0, 0, 0]
    path = storage.write_policy(policy, posterior, "p.csv")
    assert np.allclose(storage.read_policy(path, posterior), policy, 0, 1e-16)
    assert path.read_text().splitlines()[0] == "state,action,probability"
    assert len(path.read_text().splitlines()) == 1 + 20 + 1
    storage.write_policy(MIXED, POSTERIOR, path)  # replaced
    assert path.read_text() == (
        "state,action,probability\nward,wait,0.25\nward,treat,0.75\nicu,treat,1.0\n"
    )
    assert [x.name for x in Path().iterdir()] == ["p.csv"]


def test_nothing_half_written_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    path = write("as it was")
    with pytest.raises(PolicyError, match="`policy` rows must sum to 1"):
        storage.write_policy(MIXED / 2, POSTERIOR, path)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(StorageError, match=r"`p.csv` cannot be written: No space"):
        storage.write_policy(MIXED, POSTERIOR, path)
    assert path.read_text() == "as it was"
    assert [x.name for x in Path().iterdir()] == ["p.csv"]
    with pytest.raises(StorageError, match=r"`p.csv/below.csv` cannot be written: "):
        storage.write_policy(MIXED, POSTERIOR, path / "below.csv")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no column 'state'"),
        ("stat,action\n", "has no column 'state' (did you mean 'stat'?)"),
        ("state,act\n", "has no column 'action'"),
        ("state,action,prob\n", "a column 'prob', which means nothing"),
        ("state,action,probabilty\n", "(did you mean 'probability'?)"),
        ("state,action\nwrad,wait\n", "line 2: there is no state 'wrad' in the task's"),
        ("state,action\nwrad,wait\n", "(did you mean 'ward'?)"),
        ("state,action\nward,2\n", "there is no action '2'"),
        ("state,action\nward\n", "there is no action ''"),
        ("state,action\nward,wait,1\n", "line 2 has more cells than the first line"),
        (
            "state,action\nward,wait\nward,treat\n",
            "line 3: state ward, action treat is",
        ),
        ("state,action,probability\nward,wait,1\nward,wait,0\n", "is one too many"),
        ("state,action,probability\nward,wait,x\n", "must be a finite number; got 'x'"),
        ("state,action,probability\nward,wait,nan\n", "line 2: `probability` must be"),
        ("state,action,state\nward,wait,icu\n", "two columns 'state': leave out one"),
        ("state;action\nward;wait\n", "has no column 'state'"),
        ("state,action\nward,wait\n", "no row for 1 of 2 states that are not terminal"),
        ("state,action\nward,wait\n", "the first icu"),
        (
            "state,action,probability\nward,wait,.5\nicu,treat,1\n",
            "`p.csv` rows must sum to 1: state ward sums to 0.5",
        ),
        ("state,action\nward,wait\nicu,wait\n", "state icu, action wait; `bm.restrict"),
        ('state,action\n"ward,wait\n', "cannot be read: unexpected end of data"),
    ],
)
def test_bad_tables_are_refused_in_one_sentence(text: str, said: str) -> None:
    with pytest.raises(BayesmdpError) as caught:
        storage.read_policy(write(text), POSTERIOR)
    assert said in str(caught.value)
    assert str(caught.value).startswith("`p.csv`")


def test_other_bad_files_are_refused() -> None:
    Path("p.npy").write_bytes(b"no array")
    with pytest.raises(StorageError, match=r"`p.npy` cannot be read"):
        storage.read_policy("p.npy", POSTERIOR)
    np.save("p.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(StorageError, match=r"`p.npy` cannot be read"):
        storage.read_policy("p.npy", POSTERIOR)
    with pytest.raises(StorageError, match=r"`none.csv` cannot be read: No such file"):
        storage.read_policy("none.csv", POSTERIOR)
    Path("p.csv").write_bytes(b"state,action\n\xff,0\n")
    with pytest.raises(PolicyError, match=r"`p.csv` is not UTF-8 text"):
        storage.read_policy("p.csv", POSTERIOR)
    np.savez("p.npz", MIXED)
    Path("p.npz").rename("p.npy")
    with pytest.raises(StorageError, match=r"`p.npy` cannot be read"):
        storage.read_policy("p.npy", POSTERIOR)


class _Trap:
    """Leaves a file behind where it is unpickled."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return Path.touch, (Path("sprung"),)  # type: ignore[return-value]


def test_nothing_is_unpickled() -> None:
    np.save("p.npy", np.array([_Trap()]), allow_pickle=True)
    with pytest.raises(StorageError, match=r"`p.npy` cannot be read"):
        storage.read_policy("p.npy", POSTERIOR)
    assert not Path("sprung").exists()
    np.load("p.npy", allow_pickle=True)
    assert Path("sprung").exists()  # the trap works


def test_labels_with_spaces_come_back() -> None:
    task = bm.Task(2, 1, reward=[0, 1], discount=0.5, state_labels=["a ", "a, b"])
    posterior = bm.fit(
        bm.Counts.from_arrays([0, 1], [0, 0], [1, 0]), task, prior=bm.SymmetricPrior()
    )
    path = storage.write_policy([0, 0], posterior, "p.csv")
    assert storage.read_policy(path, posterior).tolist() == [[1.0], [1.0]]


def test_a_table_of_many_labels_takes_no_time() -> None:
    n = 30_000  # by a search of the labels for every row: a minute
    labels = [f"state {i}" for i in range(n)]
    task = bm.Task(n, 1, reward=np.zeros(n), discount=0.5, state_labels=labels)
    counts = bm.Counts.from_arrays(np.arange(n), [0] * n, np.arange(n))
    posterior = bm.fit(counts, task, prior=bm.SparsePrior())
    path = write("state,action\n" + "".join(f"{x},0\n" for x in labels))
    began = time.process_time()
    assert storage.read_policy(path, posterior).sum() == n
    assert time.process_time() - began < 5


def test_only_plain_files_are_replaced() -> None:
    Path("link.csv").symlink_to(os.devnull)
    with pytest.raises(StorageError, match=r"`link.csv` is not a plain file"):
        storage.write_policy(MIXED, POSTERIOR, "link.csv")
    assert Path("link.csv").is_symlink()
    check_file("p.csv")
    assert not Path("p.csv").exists()
    with pytest.raises(StorageError, match=r"`no/p.csv` .* no directory `no`; make"):
        check_file("no/p.csv")


def test_ids_are_refused_where_names_are_numbers() -> None:
    task = bm.Task(2, 1, reward=[0, 1], discount=0.5, state_labels=["7", "9"])
    posterior = bm.fit(
        bm.Counts.from_arrays([0, 1], [0, 0], [1, 0]), task, prior=bm.SymmetricPrior()
    )
    path = write("state,action\n7,0\n9,0\n")
    assert storage.read_policy(path, posterior).tolist() == [[1.0], [1.0]]
    write("state,action\n0,0\n1,0\n")
    with pytest.raises(PolicyError, match="there is no state '0'"):
        storage.read_policy(path, posterior)


def test_unavailable_actions_are_dropped_when_asked() -> None:
    path = write("state,action\nward,wait\nicu,wait\n")
    with pytest.warns(bm.BayesmdpWarning, match="`restrict` dropped"):
        found = storage.read_policy(path, POSTERIOR, restricted=True)
    assert found[1].tolist() == [0, 1]


def test_policies_are_found_by_name() -> None:
    storage.save(POSTERIOR, "run")
    job = replace(JOB)
    named = {
        "behaviour": bm.policies.behaviour(POSTERIOR),
        "mle": bm.policies.mle(POSTERIOR),
        "nominal": bm.policies.nominal(POSTERIOR),
        "second_order": bm.policies.second_order(POSTERIOR),
        "msbi": bm.policies.msbi(POSTERIOR, seed=7),
        "uniform": np.array([[0.5, 0.5], [0, 1], [0, 0], [0, 0]]),
    }
    assert tuple(named) == bm.policies.POLICY_NAMES
    np.save("mine.npy", MIXED)
    found = job.policies([*named, "./mine.npy"])
    for name, policy in (named | {"mine": MIXED}).items():
        assert np.array_equal(found[name], policy)
    fixed = job.policies(["always:treat"])["always:treat"]
    assert fixed.tolist() == [[0, 1], [0, 1], [0, 0], [0, 0]]
    with pytest.warns(bm.BayesmdpWarning, match="`restrict` dropped"):
        kept = replace(JOB, restricted=True).policies(["always:wait"])
    assert kept["always:wait, restricted"].tolist() == [[1, 0], [0, 1], [0, 0], [0, 0]]
    with pytest.raises(PolicyError, match="'treet' is not among the labels"):
        job.policies(["always:treet"])
    with pytest.raises(StorageError, match="no optimised policy yet: `bayesmdp opti"):
        job.policies(["optimised"])
    with pytest.raises(PolicyError, match=r"two policies 'mle': leave out one\."):
        job.policies(["mle", "mle"])
    with pytest.raises(PolicyError, match=r"two policies 'mine': leave out 'mine.csv"):
        job.policies(["mine.npy", "mine.csv"])
    np.save("mle.npy", MIXED)  # not to be taken for the one that is made
    assert list(job.policies(["mle", "mle.npy"])) == ["mle", "mle.npy"]
    method = bm.MirrorAscent(n_steps=1)
    best = bm.optimise(POSTERIOR, method=method, starts=["nominal"])
    storage.save_result("run", "optimised", best)
    found = job.policies(["optimised"])
    assert np.array_equal(found["optimised"], best.policy)


@pytest.mark.parametrize(
    ("said", "meant"),
    [("behavior", "behaviour"), ("optimized", "optimised"), ("second-order", "sec")],
)
def test_a_misspelt_name_is_told(said: str, meant: str) -> None:
    storage.save(POSTERIOR, "run")
    job = replace(JOB)
    with pytest.raises(PolicyError, match=f"policy '{said}' .did you mean '{meant}"):
        job.policies([said])
    with pytest.raises(PolicyError, match="`name` must be one of behaviour, mle"):
        bm.policies.named_policy(said, POSTERIOR)
