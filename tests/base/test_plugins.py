"""Tests of plug-ins, which are found by name: built-in files, and entry points of other packages."""

from __future__ import annotations

import csv
import importlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import gymnasium
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec

from adaqn.agents.dqn import DQNAgent
from adaqn.agents.population import Population
from adaqn.agents.registry import algorithm, algorithm_names, base_names
from adaqn.agents.settings import DQNSettings, EvolutionSettings
from adaqn.base.errors import UserError
from adaqn.base.plugins import PluginFolder, PresetFolder, forget_plugins
from adaqn.cli import main
from adaqn.envs import suites
from adaqn.envs.making import make_environment
from adaqn.members.evolution import DEFAULT_MUTATIONS, exploit_rule, mutate, mutation_names
from adaqn.members.hyperparameters import Hyperparameters
from adaqn.members.selection import behaviour_rules, target_rule, target_rules
from adaqn.members.space import SearchSpace
from adaqn.studies.launchers import LAUNCHERS, Options, open_launcher
from tests.envs.suite_contract import check_environment, check_names

Install = Callable[[str, dict[str, str]], None]

MEDIAN = """
import jax.numpy as jnp
from adaqn.members.selection import Selection

def select(uniforms, losses, alive, size):
    order = jnp.argsort(jnp.where(alive, losses, jnp.inf))
    middle = (alive.sum() - 1) // 2
    return Selection(order[middle][None].astype(jnp.int32), jnp.ones(1))
"""
LEAP = """
def applies(space, member):
    return True

def mutate(rng, space, member):
    return member.replace(learning_rate=0.0078125)
"""
ALGORITHM = """
from adaqn.agents.algorithms import default_member
from adaqn.agents.settings import DQNSettings, PlainDQNSettings
from adaqn.agents.registry import Algorithm, agent_class

AGENT = agent_class("adaqn.agents.dqn:DQNAgent")

def one(shape):
    return (default_member(shape),)

DOUBLE = Algorithm(DQNSettings, AGENT, one, {"double_q": True}, copies=1, base_settings=PlainDQNSettings)
ALGORITHMS = {"cold": Algorithm(DQNSettings, AGENT, one, {"selection": "softmax", "selection_temperature": 0.1})}
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Install a fake third-party package: its entry points, and its modules with their source."""

    def installed(entry_points: str, modules: dict[str, str]) -> None:
        for name, source in modules.items():
            (tmp_path / f"{name}.py").write_text(source)
        about = tmp_path / "somebodys_plugins-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: somebodys-plugins\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text(entry_points)
        monkeypatch.syspath_prepend(tmp_path)
        forget_plugins()

    before = set(sys.modules)
    yield installed
    monkeypatch.undo()
    for name in set(sys.modules) - before:
        if name.startswith(("their_", "plugin_room")):
            del sys.modules[name]
    forget_plugins()


def room_in(folder: Path, monkeypatch: pytest.MonkeyPatch, **sources: str) -> PluginFolder:
    """A folder with these modules, extended by the entry points somebody.things."""
    (folder / "plugin_room").mkdir()
    (folder / "plugin_room" / "__init__.py").write_text("")
    for name, source in sources.items():
        (folder / "plugin_room" / f"{name}.py").write_text(source)
    monkeypatch.syspath_prepend(folder)
    return PluginFolder("thing", "plugin_room", entry_points="somebody.things")


# The mechanism.


def test_files_are_found_by_their_names_and_loaded_when_asked_for(
    tmp_path: Path, install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = room_in(tmp_path, monkeypatch, lamp="watts = 40", chair="raise RuntimeError('nobody sits here')")
    assert room.names() == ["chair", "lamp"]
    assert not {"plugin_room.lamp", "plugin_room.chair"} & set(sys.modules)
    assert room.load("lamp").watts == 40
    assert "plugin_room.chair" not in sys.modules
    with pytest.raises(UserError, match=r"^unknown thing 'lanp'; did you mean 'lamp'\? \(allowed: chair, lamp\)$"):
        room.load("lanp")
    assert room.require("chair") == "chair"
    with pytest.raises(UserError, match=r"^unknown thing None"):
        room.require(None)


def test_entry_points_add_modules_and_objects(
    tmp_path: Path, install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = room_in(tmp_path, monkeypatch, lamp="watts = 40")
    install(
        "[somebody.things]\nsofa = their_sofa\nvase = their_vase:TALL\nlamp = their_sofa\n[somebody.else]\npipe = x\n",
        {"their_sofa": "seats = 3", "their_vase": "TALL = ('tall', 'vase')"},
    )
    assert room.names() == ["lamp", "sofa", "vase"]
    assert not {"their_sofa", "their_vase"} & set(sys.modules)  # names are known without importing anything
    assert room.load("sofa").seats == 3
    assert room.load("vase") == ("tall", "vase")
    # A plug-in cannot replace a built-in name.
    assert room.load("lamp").watts == 40


@pytest.mark.parametrize(
    ("reference", "why"),
    [
        ("their_broken", r"RuntimeError\('no such luck'\)"),
        ("their_broken_too:THING", r"SyntaxError"),
        ("their_missing", r"ModuleNotFoundError\(\"No module named 'their_missing'\"\)"),
        ("their_empty:THING", r"AttributeError\(.*THING"),
    ],
)
def test_a_broken_plugin_gets_one_sentence_and_leaves_the_others_alone(
    reference: str, why: str, tmp_path: Path, install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = room_in(tmp_path, monkeypatch, lamp="watts = 40")
    modules = {"their_broken": "raise RuntimeError('no such luck')", "their_broken_too": "THING =", "their_empty": ""}
    install(f"[somebody.things]\nbroken = {reference}\n", modules)
    assert room.names() == ["broken", "lamp"]
    with pytest.raises(UserError, match=rf"^the thing 'broken' could not be loaded from {reference}: {why}") as error:
        room.load("broken")
    assert "\n" not in str(error.value) and error.value.__cause__ is not None
    assert room.load("lamp").watts == 40


def test_what_was_installed_in_the_meantime_is_found_after_forgetting(
    tmp_path: Path, install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = room_in(tmp_path, monkeypatch, lamp="watts = 40")
    assert room.names() == ["lamp"]
    (tmp_path / "plugin_room" / "desk.py").write_text("legs = 4")
    assert room.names() == ["lamp"]
    forget_plugins()
    assert room.names() == ["desk", "lamp"]
    install("[somebody.things]\nsofa = their_sofa\n", {"their_sofa": "seats = 3"})
    assert room.names() == ["desk", "lamp", "sofa"]


def test_presets_are_read_by_name_and_files_by_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spaces_of_ours = PresetFolder("search space", ("presets", "spaces"))
    assert spaces_of_ours.names() == ["images", "modern", "vectors"]
    assert SearchSpace.from_dict(spaces_of_ours.read("vectors")) == SearchSpace.named("vectors")
    monkeypatch.chdir(tmp_path)
    assert spaces_of_ours.read_given("vectors") == spaces_of_ours.read("vectors")
    Path("vectors").write_text("{loss: l1}")
    assert spaces_of_ours.read_given("vectors") == {"loss": "l1"}, "the user's own directory comes first"
    with pytest.raises(UserError, match=r"^there is no file nowhere.yaml$"):
        spaces_of_ours.read_given("nowhere.yaml")
    with pytest.raises(UserError, match=r"^unknown search space \(and there is no such file\) 'vector'; did you mean"):
        spaces_of_ours.read_given("vector")
    with pytest.raises(UserError, match=r"^unknown search space 'vector'; did you mean 'vectors'\?"):
        spaces_of_ours.read("vector")


# Each kind of plug-in.


def test_a_selection_rule_of_somebody_else(install: Install) -> None:
    install("[adaqn.selection]\nmedian = their_median\n", {"their_median": MEDIAN})
    assert "median" in target_rules()
    rule = target_rule("median")
    chosen = rule.select(jnp.zeros(3), jnp.asarray([3.0, 1.0, 2.0]), jnp.ones(3, bool), 1)
    assert (chosen.members.tolist(), rule.mixture) == ([2], False)
    # It is a valid setting like any other, and has no temperature.
    agent = DQNAgent(
        DQNSettings(selection="median"),
        Population((Hyperparameters(hidden=()),) * 3),
        spaces.Box(-1.0, 1.0, (2,)),
        spaces.Discrete(2),
    )
    run = agent.init(0)
    record = run.learning.record._replace(loss=jnp.asarray([3.0, 1.0, 2.0]))
    run = run._replace(learning=run.learning._replace(record=record))
    uniforms, everyone = np.zeros(3, np.float32), np.ones(3, bool)
    learning, _ = agent.programs(run).update_target(run.learning, uniforms, everyone)
    assert learning.selected.members.tolist() == [2]
    with pytest.raises(UserError, match="selection_temperature is for selection=softmax, but selection is 'median'"):
        DQNSettings(selection="median", selection_temperature=2.0)


def test_a_name_is_gone_with_its_package(install: Install, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install("[adaqn.behaviour]\nshy = their_shy\n", {"their_shy": "draw = None"})
    assert "shy" in behaviour_rules()
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry != str(tmp_path)])
    forget_plugins()
    assert "shy" not in behaviour_rules()


def test_a_mutation_of_somebody_else_happens_where_it_is_named(install: Install) -> None:
    install("[adaqn.mutations]\nleap = their_leap\n", {"their_leap": LEAP})
    assert "leap" in mutation_names()
    # A new mutation changes no existing run: the default is a list of names.
    assert "leap" not in EvolutionSettings().mutations == DEFAULT_MUTATIONS
    settings = DQNSettings(mutations="leap,loss")  # type: ignore[arg-type]
    assert settings.mutations == ("leap", "loss")
    space, rng = SearchSpace.named("vectors"), np.random.default_rng(0)
    member = space.sample(rng)
    outcomes = [mutate(rng, space, member, settings.mutations) for _ in range(50)]
    assert {name for name, _ in outcomes} == {"leap", "loss"}
    assert all((changed.learning_rate == 0.0078125) == (name == "leap") for name, changed in outcomes)


def test_an_exploit_rule_of_somebody_else(install: Install) -> None:
    source = """
from adaqn.members.evolution import Origin

def survivors(rng, fitness):
    return tuple(Origin(0, k > 0) for k in range(len(fitness)))
"""
    install("[adaqn.exploit]\nmonarchy = their_king\n", {"their_king": source})
    assert DQNSettings(exploit="monarchy").exploit == "monarchy"
    origins = exploit_rule("monarchy")(np.random.default_rng(0), np.zeros(3))
    assert [(origin.parent, origin.mutate) for origin in origins] == [(0, False), (0, True), (0, True)]


# Environment suites.

SUITE = """
from gymnasium.envs.registration import EnvSpec

NAMES = ("Hills/Balance", "Hills/Swing")
CLASSES = {"Hills/Balance": "cartpole:CartPoleEnv", "Hills/Swing": "pendulum:PendulumEnv"}


def spec(name):
    return EnvSpec(name, f"gymnasium.envs.classic_control.{CLASSES[name]}", max_episode_steps=20)


def refuse_replaced(identifier):
    from adaqn.base.errors import UserError

    if identifier == "Swing-v9":
        raise UserError("environment 'Swing-v9' hurts; write 'Hills/Swing'")


def replaces(registered):
    return registered.id == "Swing-v9"
"""


def test_a_suite_of_somebody_else_keeps_the_contract_of_ours(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    """A suite with vectors and continuous actions, which no built-in suite has."""
    install("[adaqn.suites]\nhills = their_hills\n", {"their_hills": SUITE})
    assert "hills" in suites.suites() and "their_hills" not in sys.modules
    check_names("hills", importlib.import_module("their_hills"))
    for name in ("Hills/Balance", "Hills/Swing"):
        check_environment(name)
    with pytest.raises(UserError, match=r"unknown environment 'Hills/Swign'; did you mean 'Hills/Swing'\?"):
        make_environment("Hills/Swign", {})
    with pytest.raises(UserError, match="'Swing-v9' hurts"):
        make_environment("Swing-v9", {})
    # Nor is the suite's id suggested if another package registers it.
    monkeypatch.setitem(gymnasium.registry, "Swing-v9", EnvSpec("Swing-v9", "nowhere:Swing"))
    monkeypatch.setitem(gymnasium.registry, "Swung-v9", EnvSpec("Swung-v9", "nowhere:Swing"))
    assert "Swung-v9" in suites.suggested() and "Swing-v9" not in suites.suggested()


def test_a_suite_of_somebody_else_on_the_command_line(install: Install, tmp_path: Path) -> None:
    install("[adaqn.suites]\nhills = their_hills\n", {"their_hills": SUITE})
    run = trained(tmp_path / "run", "--algo", "dqn", "--env", "Hills/Balance", "--steps", "60")
    lengths = [int(line.split(",")[2]) for line in (run / "episodes.csv").read_text().splitlines()[1:]]
    assert lengths and max(lengths) <= 20
    assert main(["evaluate", str(run), "--episodes", "1"]) == 0


def test_a_broken_suite_is_told_when_it_is_asked_for_and_not_before(install: Install) -> None:
    install("[adaqn.suites]\nhills = their_hills\n", {"their_hills": "raise RuntimeError('no such luck')"})
    assert make_environment("CartPole-v1", {}).observation_space.shape == (4,)
    assert not any(name.startswith("Hills") for name in suites.names())
    with pytest.raises(
        UserError, match=r"^the environment suite 'hills' could not be loaded from their_hills: Runtime"
    ):
        make_environment("Hills/Swing", {})


# Real runs with plug-ins.


def test_a_run_with_a_selection_rule_of_somebody_else(install: Install, tmp_path: Path) -> None:
    install("[adaqn.selection]\nmedian = their_median\n", {"their_median": MEDIAN})
    run = trained(
        tmp_path / "run",
        *("--algo", "adadqn", "--env", "CartPole-v1", "--steps", "100", "--selection", "median"),
        *("--grid", "hidden=8", "learning_rate=1e-5,1e-3,1e-1", "--target-update-interval", "20"),
    )
    assert "selection: median" in (run / "config.yaml").read_text()
    rows = list(csv.DictReader((run / "selection.csv").read_text().splitlines()))
    assert len(rows) >= 3
    for row in rows:
        losses = [float(row[f"loss_{k}"]) for k in range(3)]
        assert int(row["target"]) == np.argsort(losses)[1]


def test_a_run_with_a_mutation_of_somebody_else(install: Install, tmp_path: Path) -> None:
    install("[adaqn.mutations]\nleap = their_leap\n", {"their_leap": LEAP})
    space = tmp_path / "space.yaml"
    space.write_text("{activation: relu, optimizer: sgd, loss: l2, hidden: {layers: 0, neurons: 1}}")
    run = trained(
        tmp_path / "run",
        *("--algo", "adadqn", "--env", "CartPole-v1", "--steps", "100", "--mutations", "leap"),
        *("--space", str(space), "--population", "3", "--generation-interval", "30", "--target-update-interval", "10"),
    )
    generations = [json.loads(line) for line in (run / "members.jsonl").read_text().splitlines()]
    changed = [member for line in generations[1:] for member in line["members"] if member["mutation"] is not None]
    assert changed and {(member["mutation"], member["learning_rate"]) for member in changed} == {("leap", 0.0078125)}


def trained(run_dir: Path, *flags: str) -> Path:
    small = ("--learning-starts", "40", "--batch-size", "4", "--quiet")
    assert main(["train", *flags, *small, "--run-dir", str(run_dir)]) == 0
    return run_dir


# Algorithms.


def test_algorithms_of_somebody_else_are_found_by_their_names(install: Install) -> None:
    install(
        "[adaqn.algorithms]\ndouble-dqn = their_algorithms:DOUBLE\ncold = their_algorithms\n",
        {"their_algorithms": ALGORITHM},
    )
    assert {"double-dqn", "cold", "adadqn", "sac", "searl", "dehb"} <= set(algorithm_names())
    assert "their_algorithms" not in sys.modules
    double, cold = algorithm("double-dqn"), algorithm("cold")
    assert double.configure({}) == DQNSettings(double_q=True)
    assert cold.configure({"gamma": 0.5}) == DQNSettings(selection="softmax", selection_temperature=0.1, gamma=0.5)
    with pytest.raises(UserError, match="this algorithm always uses double_q=True, but got double_q=False"):
        double.configure({"double_q": False})
    # A search can tune it.
    assert algorithm("random-search", "double-dqn").base == "double-dqn"
    with pytest.raises(UserError, match="unknown base 'cold'"):
        algorithm("random-search", "cold")
    with pytest.raises(UserError, match=r"unknown algorithm 'double-dqm'; did you mean 'double-dqn'\?"):
        algorithm("double-dqm")


def test_an_algorithm_of_somebody_else_on_the_command_line(install: Install, tmp_path: Path) -> None:
    install("[adaqn.algorithms]\ndouble-dqn = their_algorithms:DOUBLE\n", {"their_algorithms": ALGORITHM})
    run_dir = tmp_path / "run"
    flags = ["--algo", "double-dqn", "--env", "CartPole-v1", "--steps", "60", "--learning-starts", "40"]
    assert main(["train", "--quiet", *flags, "--batch-size", "4", "--run-dir", str(run_dir)]) == 0
    config = (run_dir / "config.yaml").read_text()
    assert "algo: double-dqn" in config and "double_q: true" in config


def test_a_broken_algorithm_is_told_when_it_is_asked_for_and_not_before(
    install: Install, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install(
        "[adaqn.algorithms]\nbroken = their_broken\nnameless = their_empty\n",
        {"their_broken": "raise RuntimeError('no such luck')", "their_empty": "ALGORITHMS = {}"},
    )
    assert {"broken", "nameless"} <= set(algorithm_names())
    assert algorithm("adadqn").configure({}).selection == "lowest"
    # Nor when a search looks for algorithms that it can tune.
    assert algorithm("random-search", "sac").base == "sac"
    assert "dqn" in base_names() and not {"broken", "nameless"} & set(base_names())
    with pytest.raises(UserError, match=r"^unknown base 'sax'; did you mean 'sac'\?"):
        algorithm("random-search", "sax")
    with pytest.raises(UserError, match=r"^the algorithm 'broken' could not be loaded"):
        algorithm("random-search", "broken")
    with pytest.raises(UserError, match=r"^the algorithm 'broken' could not be loaded from their_broken: RuntimeError"):
        algorithm("broken")
    with pytest.raises(UserError, match=r"^the algorithm 'nameless' must be an Algorithm or in the table") as error:
        algorithm("nameless")
    assert "\n" not in str(error.value)
    flags = ["--algo", "broken", "--env", "CartPole-v1", "--steps", "2000"]
    assert main(["train", *flags, "--run-dir", str(tmp_path / "run")]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "the algorithm 'broken' could not be loaded from their_broken" in line
    assert not (tmp_path / "run").exists()


def test_a_launcher_of_another_package_runs_studies(install: Install) -> None:
    source = "def open_launcher(options):\n    return ('theirs', options.jobs)\n"
    install("[adaqn.launchers]\ntheirs = their_launcher\n", {"their_launcher": source})
    assert LAUNCHERS.names() == ["local", "ray", "slurm", "theirs"]
    assert open_launcher("theirs", Options(Path("study"), jobs=3)) == ("theirs", 3)
