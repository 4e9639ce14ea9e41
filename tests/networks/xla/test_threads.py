"""How many threads XLA computes with, where that is chosen, said and recorded."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Literal

import pytest
import yaml

from adaqn import SAC, AdaDQN, Convolution, Hyperparameters, MetaGradientDQN
from adaqn.agents.execution.shares import lanes_for
from adaqn.agents.execution.work import largest_product, worth_sharing
from adaqn.agents.population import Population
from adaqn.agents.registry import algorithm
from adaqn.base.errors import UserError
from adaqn.cli import main
from adaqn.members.space import SearchSpace
from adaqn.networks.xla.threads import (
    CHOICE,
    VARIABLE,
    Threads,
    available_cores,
    jax_has_started,
    thread_count,
    use_threads,
)
from adaqn.runs.checkpoint import CheckpointStore, platform_facts, recorded_threads
from adaqn.runs.config import RunConfig
from tests.waiting import wait_for

TRAIN = ["train", "--env", "CartPole-v1", "--steps", "60", "--learning-starts", "50", "--grid", "hidden=8"]

# Prints the milliseconds of processor time that threads other than the first spent on a product.
ELSEWHERE = """
import os
from adaqn.networks.xla.threads import use_threads
use_threads({threads})
import jax, jax.numpy as jnp
from adaqn.networks.xla.compilation import prepare_jax, jit_step
prepare_jax()

def elsewhere():
    tasks = [task for task in os.listdir("/proc/self/task") if int(task) != os.getpid()]
    return sum(int(open(f"/proc/self/task/{{task}}/schedstat").read().split()[0]) for task in tasks) / 1e6

step = jit_step(lambda x: x @ x / 700.0)
x = step(jnp.ones((700, 700)))
before = elsewhere()
for _ in range(10):
    x = jax.block_until_ready(step(x))
print(elsewhere() - before)
"""


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process that has not used JAX, on two cores and without a number of threads in the environment."""
    for name in (VARIABLE, CHOICE, "NPROC"):
        monkeypatch.setenv(name, "1")  # so that what is set in a test is removed after it
        monkeypatch.delenv(name)
    for module in ("networks.xla.threads", "model.threads"):
        monkeypatch.setattr(f"adaqn.{module}.jax_has_started", lambda: False)
        monkeypatch.setattr(f"adaqn.{module}.available_cores", lambda: 2)


def large_sac(threads: Literal["auto"] | int = "auto") -> SAC:
    return SAC("Pendulum-v1", buffer_size=500, threads=threads)


@pytest.mark.thorough
@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="needs Linux's accounts of threads")
def test_with_one_thread_a_product_is_not_divided() -> None:
    def milliseconds(threads: int) -> float:
        environ = {name: value for name, value in os.environ.items() if name != "PJRT_NPROC"}
        program = ELSEWHERE.format(threads=threads)
        done = subprocess.run([sys.executable, "-c", program], env=environ, capture_output=True, text=True, check=True)
        return float(done.stdout)

    assert milliseconds(1) < 2.0
    assert milliseconds(2) > 20.0


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"PJRT_NPROC": "3", "NPROC": "5"}, 3),
        ({"NPROC": "5"}, 5),
        ({"PJRT_NPROC": "many", "NPROC": "4"}, 4),
        ({"PJRT_NPROC": "0"}, 1),
    ],
)
def test_the_number_is_read_as_jaxlib_reads_it(
    monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], expected: int
) -> None:
    for name in ("PJRT_NPROC", "NPROC"):
        monkeypatch.delenv(name, raising=False)
    assert thread_count() == available_cores()
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert thread_count() == expected


@pytest.mark.usefixtures("fresh")
def test_a_number_that_was_given_does_not_count_as_one_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    assert large_sac(threads=2).trainer.threads == Threads(1, 2)
    assert large_sac().trainer.threads == Threads(1, 2)
    monkeypatch.setenv(VARIABLE, "2")
    assert large_sac().trainer.threads == Threads(2)
    assert large_sac(threads=2).trainer.threads == Threads(1, 2)


@pytest.mark.usefixtures("fresh")
def test_only_a_number_that_is_given_changes_the_threads_of_an_earlier_agent() -> None:
    MetaGradientDQN("CartPole-v1", threads=2)
    assert os.environ[VARIABLE] == "2"
    AdaDQN("CartPole-v1")  # one thread would be enough
    assert os.environ[VARIABLE] == "2"
    AdaDQN("CartPole-v1", threads=1)
    assert os.environ[VARIABLE] == "1"


@pytest.mark.usefixtures("fresh")
def test_loading_an_agent_sets_no_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    AdaDQN("CartPole-v1", [{"hidden": [4]}]).save(tmp_path / "model.zip")
    assert os.environ[VARIABLE] == "1"
    monkeypatch.delenv(VARIABLE)
    for env in (None, "CartPole-v1"):
        assert AdaDQN.load(tmp_path / "model.zip", env=env).trainer.threads == Threads(2)
        assert VARIABLE not in os.environ


def test_lanes_are_those_that_an_agent_has_and_a_gpu_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert large_sac(threads=2).trainer.threads == Threads(1, 2)
    monkeypatch.setattr("adaqn.agents.base.on_cpu", lambda: False)
    assert large_sac(threads=2).trainer.threads == Threads(1)


# Prints XLA's threads, and those of a default agent: of this process and, with an argument, of one that this starts.
DEFAULT = """
import subprocess, sys
from adaqn import SAC
from adaqn.networks.xla import threads
import adaqn.model.threads
threads.available_cores = adaqn.model.threads.available_cores = lambda: 2
print(threads.thread_count(), tuple(SAC("Pendulum-v1", buffer_size=500).trainer.threads), flush=True)
if sys.argv[1:]:
    subprocess.run([sys.executable, "-c", sys.argv[1]], check=True)
"""


@pytest.mark.thorough
def test_a_choice_does_not_count_in_processes_that_are_started_later() -> None:
    environ = {name: value for name, value in os.environ.items() if name not in (VARIABLE, CHOICE)}
    command = [sys.executable, "-c", DEFAULT, DEFAULT]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    assert done.stdout == "2 (1, 2)\n" * 2
    imposed = environ | {VARIABLE: "1"}
    done = subprocess.run(command, env=imposed, capture_output=True, text=True, check=True)
    assert done.stdout == "1 (1, 1)\n" * 2


def test_a_number_cannot_change_once_jax_has_started(monkeypatch: pytest.MonkeyPatch) -> None:
    import jax

    jax.devices()
    assert jax_has_started()
    use_threads(1)  # as the suite has it
    with pytest.raises(UserError, match=r"threads=3 must be given before JAX .* started with 1: .* PJRT_NPROC=3"):
        MetaGradientDQN("CartPole-v1", threads=3)
    for name in (VARIABLE, CHOICE):
        monkeypatch.setenv(name, "1")  # which also puts it back afterwards
    monkeypatch.setattr("adaqn.networks.xla.threads.jax_has_started", lambda: False)
    use_threads(3)
    assert os.environ["PJRT_NPROC"] == "3"


@pytest.mark.parametrize(("given", "words"), [(0, "at least 1"), (1.5, "at least 1"), (5000, "at most 1024")])
def test_an_impossible_number_gets_one_sentence(given: object, words: str) -> None:
    with pytest.raises(UserError, match=rf"^threads must be a whole number of {words}, but got {given}$"):
        AdaDQN("CartPole-v1", threads=given)  # type: ignore[arg-type]


def product_of(algo: str, *members: Hyperparameters, shape: tuple[int, ...] = (8,), **settings: object) -> int:
    return largest_product(Population(members), algorithm(algo).configure(settings), shape)


def test_the_largest_product_is_that_of_the_widest_layer_and_the_batch() -> None:
    member = Hyperparameters(hidden=(10, 30, 5))
    assert product_of("adadqn", member, batch_size=7) == 7 * 10 * 30
    assert product_of("adadqn", member, shape=(4, 20), batch_size=7) == 7 * 80 * 10
    # The actor of SAC has layers of its own.
    assert product_of("adasac", member, batch_size=7, actor_hidden="40x50") == 7 * 40 * 50
    # 84 pixels become 20 with a kernel of 8 and a stride of 4, and 9 with a further one of 4 and 2.
    layers = (Convolution(32, 8, 4), Convolution(64, 4, 2))
    image = Hyperparameters(convolutions=layers, hidden=(16,), padding="valid")
    assert product_of("adadqn", image, shape=(84, 84, 4), batch_size=2) == 2 * max(
        20 * 20 * 8 * 8 * 4 * 32, 9 * 9 * 4 * 4 * 32 * 64, 9 * 9 * 64 * 16
    )


def test_a_search_is_judged_by_the_middle_of_its_space() -> None:
    space = SearchSpace.from_dict({"hidden": {"layers": [2, 2], "neurons": [40, 60]}})
    population = Population((), space)
    assert largest_product(population, algorithm("random-search").configure({"batch_size": 3}), (8,)) == 3 * 50 * 50


@pytest.mark.parametrize(
    ("algo", "hidden", "batch", "shares"),
    [
        ("adadqn", (200, 200), 32, False),
        ("adasac", (256, 256), 256, True),
        ("adatd3", (256, 256), 256, True),
        ("adadqn", (512, 512), 256, True),
    ],
)
def test_small_networks_have_one_thread_and_large_ones_all(
    algo: str, hidden: tuple[int, ...], batch: int, shares: bool
) -> None:
    settings = algorithm(algo).configure({"batch_size": batch})
    assert worth_sharing(Population((Hyperparameters(hidden=hidden),)), settings, (8,)) is shares


@pytest.mark.thorough
@pytest.mark.parametrize(("extra", "threads"), [([], 1), (["--grid", "hidden=512x512", "--batch-size", "256"], 0)])
def test_the_command_line_chooses_by_the_size_of_an_update(extra: list[str], threads: int, tmp_path: Path) -> None:
    environ = {name: value for name, value in os.environ.items() if name != "PJRT_NPROC"}
    command = [sys.executable, "-m", "adaqn.cli", *TRAIN, *extra, "--run-dir", str(tmp_path / "run")]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    expected = threads or lanes_for(256, available_cores(), least=8)
    assert f"threads       {expected} on {available_cores()} core" in done.stdout
    # Products of 256 x 512 x 512 are computed by XLA's threads, of which each lane has one.
    assert recorded_threads(CheckpointStore(tmp_path / "run" / "checkpoint")) == Threads(expected, expected)
    assert "threads" not in yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())


@pytest.mark.thorough
def test_a_run_that_was_killed_before_its_first_checkpoint_starts_again_with_as_many(tmp_path: Path) -> None:
    environ = {name: value for name, value in os.environ.items() if name != "PJRT_NPROC"}
    run = tmp_path / "run"
    program = [sys.executable, "-m", "adaqn.cli"]
    train = [*TRAIN, "--steps", "500000", "--quiet", "--run-dir", str(run)]
    with subprocess.Popen([*program, *train], env=environ) as killed:
        wait_for((run / "config.yaml").exists, process=killed)
        killed.kill()
    assert not list((run / "checkpoint").glob("*.zip"))
    done = subprocess.run([*program, "resume", str(run), "--steps", "60"], env=environ, capture_output=True, text=True)
    assert f"threads       1 on {available_cores()} core" in done.stdout


def test_a_number_that_was_given_is_in_the_configuration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*TRAIN, "--threads", "1", "--run-dir", str(tmp_path / "run")]) == 0
    assert "threads       1 on " in capsys.readouterr().out
    values = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    assert values["threads"] == 1
    assert RunConfig.from_dict(values, observation_shape=(4,)).to_dict()["threads"] == 1
    assert main([*TRAIN, "--algo", "metagradient", "--threads", "2", "--run-dir", str(tmp_path / "other")]) == 1
    assert "threads=2 must be given before JAX" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()


def test_a_run_that_goes_on_with_other_threads_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    facts = platform_facts(Threads(6))
    with monkeypatch.context() as patch:
        patch.setattr("adaqn.runs.checkpoint.platform_facts", lambda threads: facts)
        assert main([*TRAIN, "--run-dir", str(run), "--quiet"]) == 0
    assert recorded_threads(CheckpointStore(run / "checkpoint")) == Threads(6)
    with warnings.catch_warnings():
        warnings.simplefilter("default")  # as outside the suite, where none is an error
        assert main(["resume", str(run), "--steps", "80", "--quiet"]) == 0
    assert (
        "in the last digits from an uninterrupted one: the number of XLA's threads was 6 and is 1\n"
        in capsys.readouterr().err
    )
    # Its newest checkpoint is now one with the suite's number of threads.
    assert main(["resume", str(run), "--steps", "100", "--quiet", "--threads", "1"]) == 0
    assert capsys.readouterr().err == ""


def test_lanes_that_a_run_cannot_have_are_not_taken_from_its_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    facts = platform_facts(Threads(1, 7))  # a batch of 32 has no seven equal shares
    with monkeypatch.context() as patch:
        patch.setattr("adaqn.runs.checkpoint.platform_facts", lambda threads: facts)
        assert main([*TRAIN, "--run-dir", str(run), "--quiet"]) == 0
    assert recorded_threads(CheckpointStore(run / "checkpoint")) == Threads(1, 7)
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        assert main(["resume", str(run), "--steps", "80", "--quiet"]) == 0
    assert "from an uninterrupted one: the number of lanes was 7 and is 1\n" in capsys.readouterr().err
    assert recorded_threads(CheckpointStore(run / "checkpoint")) == Threads(1)
