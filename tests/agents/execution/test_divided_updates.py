"""An update that is divided among threads is the update of the single program, up to the order of summation."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from adaqn import SAC, SEARL, TD3, AdaDQN, AdaSAC, AdaTD3, Convolution, Hyperparameters, RandomSearch, UserError
from adaqn.agents.execution.divided_actor_critic import DividedUpdate
from adaqn.agents.execution.divided_value import DividedPrograms
from adaqn.agents.protocol import Clock, Operation
from adaqn.model.model import Model
from adaqn.networks.xla.lanes import Lanes
from adaqn.networks.xla.threads import Resumed, Threads, lane_count
from adaqn.replay.protocol import Batch
from adaqn.runs.checkpoint import Checkpointer, CheckpointStore, recorded_threads

THREE = [
    Hyperparameters(hidden=(16, 16), learning_rate=1e-3),
    Hyperparameters(hidden=(16, 16), learning_rate=3e-4, max_grad_norm=0.1),
    Hyperparameters(hidden=(24,), activation="tanh", optimizer="rmsprop", learning_rate=1e-3),
]
IMAGE = Hyperparameters(hidden=(16,), convolutions=(Convolution(8, 3, 1),), learning_rate=1e-3)
CONTINUOUS: dict[str, Any] = {
    "env": "Pendulum-v1",
    "learning_starts": 210,
    "batch_size": 192,
    "buffer_size": 500,
    "seed": 3,
}
DISCRETE: dict[str, Any] = {
    "env": "CartPole-v1",
    "learning_starts": 40,
    "batch_size": 48,
    "buffer_size": 500,
    "seed": 3,
}
IMAGES = DISCRETE | {"env": "MinAtar/Breakout"}
SPACE = {"hidden": {"layers": [1, 2], "neurons": [4, 12]}, "learning_rate": [1e-4, 1e-2]}

CASES: dict[str, Callable[..., Model]] = {
    "sac": partial(SAC, **CONTINUOUS, policy_kwargs={"net_arch": [16, 16]}),
    "sac with delays": partial(
        SAC, **CONTINUOUS, policy_delay=2, gradient_steps=2, policy_kwargs={"net_arch": [16, 16]}
    ),
    "adasac": partial(AdaSAC, **CONTINUOUS, members=THREE),
    "adasac with a mixture": partial(AdaSAC, **CONTINUOUS, members=THREE, selection="softmax"),
    "adasac in a space": partial(AdaSAC, **CONTINUOUS, space=SPACE, population=3, generation_interval=212),
    "td3": partial(TD3, **CONTINUOUS, policy_kwargs={"net_arch": [16, 16]}),
    "adatd3": partial(AdaTD3, **CONTINUOUS, members=THREE),
    "adadqn": partial(AdaDQN, **DISCRETE, members=THREE),
    "double dqn": partial(AdaDQN, **DISCRETE, members=THREE, double_q=True),
    "adadqn in two environments": partial(AdaDQN, **DISCRETE, members=THREE, n_envs=2),
    "adadqn, normalized": partial(AdaDQN, **DISCRETE, members=THREE, normalize_observations=True),
    "adadqn with a mixture": partial(AdaDQN, **DISCRETE, members=THREE, selection="softmax"),
    "images": partial(AdaDQN, **IMAGES, members=[IMAGE, IMAGE.replace(optimizer="lamb")]),
    "search with sac": partial(RandomSearch, **CONTINUOUS, base="sac", space=SPACE, trial_steps=212),
}


@pytest.fixture
def made_in_lanes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of calls of each time that lanes were used."""
    counts: list[int] = []
    run = Lanes.run

    def counted(lanes: Lanes, calls: Any) -> Any:
        counts.append(len(calls))
        return run(lanes, calls)

    monkeypatch.setattr(Lanes, "run", counted)
    return counts


def with_lanes(name: str, number: int) -> Model:
    """A model with lanes for images too, although the suite's XLA has one thread, with which they only take turns."""
    return CASES[name](threads=Resumed(Threads(1, number)))


def arrays_of(model: Model) -> dict[str, np.ndarray]:
    return model.trainer.agent.to_arrays(model.trainer.state)[0]


def assert_equal(
    found: dict[str, np.ndarray], expected: dict[str, np.ndarray], rtol: float = 0.0, atol: float = 0.0
) -> None:
    """The same arrays, to the byte if no tolerance is given."""
    assert found.keys() == expected.keys()
    for path, array in expected.items():
        assert found[path].dtype == array.dtype and found[path].shape == array.shape
        np.testing.assert_allclose(found[path], array, rtol, atol, err_msg=path)


@pytest.mark.parametrize(("name", "lanes"), [*((name, 2) for name in CASES), ("adasac", 3), ("adadqn", 3)])
def test_a_divided_update_changes_what_the_single_program_changes(
    name: str, lanes: int, made_in_lanes: list[int]
) -> None:
    alone, divided = CASES[name](), with_lanes(name, lanes)
    begun = {path: array.copy() for path, array in arrays_of(alone).items() if "parameters" in path}
    for model in (alone, divided):
        assert not made_in_lanes
        model.learn(model.settings.learning_starts + 4)
    assert set(made_in_lanes) >= {lanes}
    assert_equal(arrays_of(divided), arrays_of(alone), rtol=1e-3, atol=1e-5)
    learned = arrays_of(divided)
    # A search has begun its next trial by now; the networks that it has trained are those of its best one.
    learned |= {path.replace("best/", "trial/"): array for path, array in learned.items() if "best/" in path}
    kept = [path for path, array in begun.items() if path in learned and np.array_equal(array, learned[path])]
    assert kept == []
    assert alone.trainer.updates == divided.trainer.updates > 1


@pytest.mark.parametrize("name", ["adasac", "adatd3", "adadqn", "images"])
def test_a_divided_run_is_reproducible(name: str) -> None:
    models = [with_lanes(name, 2) for _ in range(2)]
    for model in models:
        model.learn(model.settings.learning_starts + 30)
    assert_equal(arrays_of(models[0]), arrays_of(models[1]))


@pytest.mark.parametrize("kind", [AdaDQN, SEARL])
def test_members_with_programs_of_their_own_do_not_depend_on_the_number_of_lanes(
    kind: type[Model], made_in_lanes: list[int]
) -> None:
    settings = {**DISCRETE, "space": SPACE, "population": 3, "target_update_interval": 20, "generation_interval": 60}
    models = [kind(**settings, threads=threads) for threads in (None, 2, 8)]
    for model in models:
        model.learn(160)
        assert_equal(arrays_of(model), arrays_of(models[0]))
    assert set(made_in_lanes) == {2, 3}  # there are three members
    assert models[0].trainer.updates > 20


@pytest.mark.parametrize("others", [THREE[:1], THREE[:2]])
def test_a_target_that_overflows_teaches_no_member_in_any_lane(others: list[Hyperparameters]) -> None:
    wild = Hyperparameters(hidden=(8,), optimizer="sgd", learning_rate=1e30)
    models = [AdaSAC(**CONTINUOUS, members=[wild, *others], threads=threads) for threads in (None, 2)]
    for model in models:
        model.learn(model.settings.learning_starts + 12)
    diverged = [[member.diverged for member in model.members] for model in models]
    assert diverged[0] == diverged[1] == [True, *(False for _ in others)]
    assert all(np.isfinite(array).all() for path, array in arrays_of(models[1]).items() if ".actor" in path)


@pytest.mark.parametrize("row", [None, 0, 47])
def test_a_share_of_the_batch_that_overflows_teaches_no_member_of_dqn(row: int | None) -> None:
    model = with_lanes("adadqn", 2)
    agent = model.trainer.agent
    rng = np.random.default_rng(0)
    observations = rng.standard_normal((2, 48, 4)).astype(np.float32)
    if row is not None:
        observations[1, row] = 1e30  # finite, but the square of its value is not
    batch = Batch(
        observation=observations[0],
        action=rng.integers(2, size=48).astype(np.int32),
        rewards=np.ones((48, 1), np.float32),
        next_observation=observations[1],
        terminated=np.zeros(48, np.float32),
        steps=np.ones(48, np.int32),
    )
    before = {path: array.copy() for path, array in arrays_of(model).items() if path.endswith(".parameters")}
    state, _ = agent.update(model.trainer.state, Operation.UPDATE, batch, Clock(), rng)
    after = agent.to_arrays(state)[0]
    assert {np.array_equal(array, after[path]) for path, array in before.items()} == {row is not None}
    assert [member.diverged for member in agent.report(state, Clock()).members] == [row is not None, False, False]


@pytest.mark.parametrize("name", ["sac", "adasac", "adasac in a space", "adatd3", "adadqn"])
def test_a_divided_run_is_interrupted_and_resumed_exactly(name: str, tmp_path: Path) -> None:
    steps = CASES[name]().settings.learning_starts + 40
    whole = CASES[name](threads=2)
    whole.learn(steps, run_dir=tmp_path / "whole")

    def interrupt(trainer: Any) -> None:
        if trainer.clock.step == steps - 17:
            trainer.interrupt("here")

    with contextlib.suppress(SystemExit):
        CASES[name](threads=2).learn(steps, interrupt, run_dir=tmp_path / "parts")
    resumed = Model.resume(tmp_path / "parts")  # with the threads that it had
    assert resumed.trainer.clock.step == steps
    assert_equal(arrays_of(resumed), arrays_of(whole))
    for file in ("episodes.csv", "selection.csv"):
        assert (tmp_path / "parts" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes()


def test_a_run_goes_on_with_another_number_of_threads_and_says_so(tmp_path: Path) -> None:
    steps = CONTINUOUS["learning_starts"] + 10
    first = CASES["adasac"](threads=3)
    first.learn(steps, run_dir=tmp_path / "run")
    with pytest.warns(RuntimeWarning, match=r": the number of lanes was 3 and is 1$"):
        resumed = Model.resume(tmp_path / "run", steps=steps + 5, threads=1)
    assert resumed.trainer.clock.step == steps + 5
    first.save(tmp_path / "model.zip")
    assert_equal(arrays_of(AdaSAC.load(tmp_path / "model.zip", env="Pendulum-v1")), arrays_of(first))


def test_every_model_keeps_its_own_number(made_in_lanes: list[int]) -> None:
    two, one = CASES["adasac"](threads=2), CASES["adasac"](threads=1)
    assert (two.trainer.threads, one.trainer.threads, lane_count()) == (Threads(1, 2), Threads(1), 1)
    two.learn(CONTINUOUS["learning_starts"] + 3)
    assert made_in_lanes
    made_in_lanes.clear()
    one.learn(CONTINUOUS["learning_starts"] + 3)
    assert not made_in_lanes


def test_runs_of_several_python_threads_record_their_own_numbers(tmp_path: Path) -> None:
    begun, over = threading.Event(), threading.Event()

    def train_with_one() -> None:
        def wait(trainer: Any) -> None:
            del trainer
            begun.set()
            assert over.wait(60.0)

        CASES["adadqn"](threads=1).learn(50, wait, run_dir=tmp_path / "one")

    def look(trainer: Any) -> None:
        if trainer.clock.step == 1:
            other.start()
            assert begun.wait(60.0)

    other = threading.Thread(target=train_with_one)
    try:
        CASES["adadqn"](threads=2).learn(
            50, look, run_dir=tmp_path / "two"
        )  # its last checkpoint is within the other run
    finally:
        over.set()
    other.join()
    recorded = [recorded_threads(CheckpointStore(tmp_path / run / "checkpoint")) for run in ("one", "two")]
    assert recorded == [Threads(1), Threads(1, 2)]


@pytest.fixture
def killed_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """A run that ended before its first checkpoint, with threads=2 in its configuration."""

    def killed(name: str) -> Path:
        def fail(checkpointer: Checkpointer, trainer: Any) -> None:
            raise ZeroDivisionError

        with monkeypatch.context() as patch, pytest.raises(ZeroDivisionError):
            patch.setattr(Checkpointer, "on_start", fail)
            CASES[name](threads=1).learn(CASES[name]().settings.learning_starts + 4, run_dir=tmp_path / "run")
        config = tmp_path / "run" / "config.yaml"
        config.write_text(config.read_text().replace("threads: 1\n", "threads: 2\n"))
        return tmp_path / "run"

    return killed


def test_a_run_without_a_checkpoint_has_the_lanes_of_its_configuration(killed_at_once: Callable[[str], Path]) -> None:
    assert Model.resume(killed_at_once("adadqn")).trainer.threads == Threads(1, 2)


def test_a_run_without_a_checkpoint_says_that_xla_has_other_threads(killed_at_once: Callable[[str], Path]) -> None:
    run = killed_at_once("images")
    with pytest.warns(RuntimeWarning, match=r"^the run cannot have the threads=2 of its configuration, .* with 1$"):
        assert Model.resume(run).trainer.threads == Threads(1)


def test_the_header_says_why_a_number_of_threads_is_not_used(capsys: pytest.CaptureFixture[str]) -> None:
    for threads in (4, 5):
        CASES["adadqn"](threads=threads).learn(42, console=True)
        header = capsys.readouterr().out
        assert "threads       4 on " in header
        note = "Updates use 4 of 5 threads: a batch of 48 is divided into equal shares of at least 8 rows."
        assert (note in " ".join(header.split())) == (threads == 5)


def test_a_number_that_xla_cannot_have_any_more_is_refused() -> None:
    divided = CASES["adadqn"](threads=2).trainer
    assert isinstance(divided.agent.programs(divided.state), DividedPrograms)  # pyright: ignore[reportAttributeAccessIssue]
    divided = CASES["adasac"](threads=2).trainer
    updates = divided.agent.programs(divided.state).update.values()  # pyright: ignore[reportAttributeAccessIssue]
    assert all(isinstance(update.func, DividedUpdate) for update in updates)
    # Convolutions are computed by XLA's threads, of which this process has one.
    with pytest.raises(UserError, match="threads=2 must be given before JAX is first used"):
        CASES["images"](threads=2)
