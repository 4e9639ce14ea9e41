"""Arguments of Stable-Baselines3's classes: accepted if they apply here, else refused with what to write instead."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from adaqn.agents.population import Population
from adaqn.agents.registry import Algorithm
from adaqn.base.errors import UserError, unknown_name
from adaqn.members.hyperparameters import ACTIVATIONS, Hyperparameters

_POLICIES = ("MlpPolicy", "CnnPolicy", "MultiInputPolicy")

# The alternative to each argument; `{given}` is the value that was passed.
_INSTEAD = {
    "verbose": "pass progress_bar=True to learn, or console=True, which shows more",
    "tensorboard_log": "pass run_dir={given} to learn, which writes its tensorboard/ there",
    "device": "JAX chooses the device; set the environment variable JAX_PLATFORMS to cpu or cuda to override it",
    "exploration_fraction": "ε decays over a number of steps; for {given} of 100_000 steps, write "
    "exploration_steps=int({given} * 100_000)",
    "optimize_memory_usage": "leave it out, because images are stored once per frame anyway",
    "stats_window_size": "leave it out; means of the returns are over the last 100 episodes",
    "max_grad_norm": "clipping is a hyperparameter of each member, such as "
    "members=[Hyperparameters(max_grad_norm={given})]",
    "replay_buffer_class": "leave it out; the replay buffer follows from the observations",
    "replay_buffer_kwargs": "leave it out; the replay buffer has buffer_size= and n_steps= as its only settings",
    "use_sde": "leave it out; there is no state-dependent exploration",
    "use_sde_at_warmup": "leave it out; there is no state-dependent exploration",
    "sde_sample_freq": "leave it out; there is no state-dependent exploration",
    "monitor_wrapper": "leave it out; returns are always recorded",
    "supported_action_spaces": "leave it out; the algorithm checks the action space",
    "_init_setup_model": "leave it out; a model is always ready to learn",
}
# The same for arguments that only some algorithms have.
_INSTEAD_UNLESS_SETTING = {
    "action_noise": "leave it out; DQN explores with exploration_initial_eps=, SAC by its entropy, see ent_coef=",
    "tau": "leave it out; the target network is replaced as a whole every target_update_interval steps",
    "target_update_interval": "leave it out; target critics follow at the rate tau=",
    "ent_coef": "leave it out; only the SAC family has an entropy coefficient",
    "target_entropy": "leave it out; only the SAC family has an entropy coefficient",
}
_ACTIVATION_ALIASES = {"hardswish": "hard_silu", "swish": "silu"}  # PyTorch's names that differ in more than case


def refuse_policy_name(name: str, arguments: Sequence[object], keywords: Mapping[str, object]) -> None:
    """Raise if a policy is given, as in `DQN("MlpPolicy", "CartPole-v1")`."""
    positional = bool(arguments) and isinstance(arguments[0], str) and arguments[0] in _POLICIES
    if not positional and "policy" not in keywords:
        return
    rest = arguments[1:] if positional else arguments
    env = keywords.get("env", rest[0] if rest else None)
    shown = repr(env) if isinstance(env, str) else "env"
    raise UserError(
        f"{name} has no policy argument: write {name}({shown}); the kind of network follows from the observations, "
        "and members= sets its layers"
    )


def refuse_foreign(name: str, algorithm: Algorithm, settings: Mapping[str, object]) -> None:
    """Raise for an argument of Stable-Baselines3 that this algorithm lacks or interprets differently."""
    known = algorithm.settings.__dataclass_fields__
    for argument, given in settings.items():
        instead = _INSTEAD.get(argument)
        if argument == "exploration_fraction" and "exploration_steps" not in known:
            instead = "leave it out; this algorithm does not explore with ε"
        if instead is None and argument not in known:
            instead = _INSTEAD_UNLESS_SETTING.get(argument)
        if instead is not None:
            raise UserError(f"{name} has no argument {argument}: {instead.format(given=_shown(given))}")
    noise = settings.get("action_noise", 0.0)
    if not isinstance(noise, int | float):
        raise UserError(
            "action_noise must be the standard deviation of normal noise on actions in [-1, 1], but got "
            f"{'None' if noise is None else type(noise).__name__}: write action_noise={0.0 if noise is None else 0.1}"
        )
    frequency = settings.get("train_freq")
    if isinstance(frequency, tuple):
        number = frequency[0] if frequency and frequency[-1] == "step" else 1
        raise UserError(f"train_freq counts environment steps, but got {frequency!r}: write train_freq={number}")
    if settings.get("gradient_steps") == -1:
        raise UserError(
            "gradient_steps must be a number of updates, but got -1: for as many updates as steps, "
            "write the value of train_freq"
        )


def hyperparameters_from(name: str, algorithm: Algorithm, settings: dict[str, Any]) -> dict[str, object]:
    """Remove `learning_rate` and `policy_kwargs` from the settings and return them as hyperparameters of the members.

    As in Stable-Baselines3 they also apply to the actor of SAC and TD3, unless its own settings are given.
    """
    if algorithm.copies is None:
        if "policy_kwargs" in settings:
            raise UserError(
                f"{name} has no argument policy_kwargs: layers and activations are hyperparameters of each member, "
                "for example members=grid(hidden=[(64, 64), (256, 256)], activation=['relu', 'tanh'])"
            )
        return {}
    critic: dict[str, object] = {}
    actor: dict[str, object] = {}
    if (rate := settings.pop("learning_rate", None)) is not None:
        if callable(rate):
            changing = "learning rate schedules are not supported"
            if algorithm.scheduled:
                changing = (
                    "for a learning rate schedule pass schedule=, a list such as "
                    "[{'step': 0, 'hyperparameters': {'learning_rate': 1e-3}}]"
                )
            raise UserError(f"learning_rate must be a number, but got a function: {changing}")
        critic["learning_rate"] = actor["learning_rate"] = rate
    if (policy := settings.pop("policy_kwargs", None)) is not None:
        _add_policy(policy, critic, actor)
        if (
            isinstance(policy.get("net_arch"), Mapping)
            and "actor_hidden" not in algorithm.settings.__dataclass_fields__
        ):
            raise UserError(f"{name} has no actor: write net_arch={policy['net_arch']['qf']!r}")
    for field, value in actor.items():
        if (setting := f"actor_{field}") in algorithm.settings.__dataclass_fields__:
            settings.setdefault(setting, value)
    return critic


def with_hyperparameters(
    given: Population, changes: Mapping[str, object], default: Callable[[], Hyperparameters]
) -> Population:
    """The population with the default member changed by these hyperparameters, if there are any."""
    if not changes:
        return given
    if given.members or given.schedule:
        other = "members" if given.members else "schedule"
        raise UserError(f"{' and '.join(changes)} cannot be given together with {other}=: set it there instead")
    return given._replace(members=(default().replace(**changes),))


def _add_policy(policy: object, critic: dict[str, object], actor: dict[str, object]) -> None:
    if not isinstance(policy, Mapping):
        raise UserError(f"policy_kwargs must be a mapping such as dict(net_arch=[64, 64]), but got {policy!r}")
    for name, value in policy.items():
        if name == "net_arch":
            critic["hidden"], actor["hidden"] = _layers(value)
        elif name == "activation_fn":
            critic["activation"] = actor["activation"] = _activation(value)
        else:
            raise UserError(
                f"policy_kwargs may have net_arch and activation_fn, but got {name}: give other hyperparameters with "
                "members=, for example members=[Hyperparameters(optimizer='rmsprop')]"
            )


def _layers(net_arch: object) -> tuple[object, object]:
    """The hidden layers of critic and actor."""
    if isinstance(net_arch, Mapping):
        if set(net_arch) != {"pi", "qf"}:
            raise UserError(f"net_arch must be a list of widths, or have them for pi and qf, but got {dict(net_arch)}")
        return net_arch["qf"], net_arch["pi"]
    return net_arch, net_arch


def _activation(given: object) -> str:
    """The name of an activation, given as a string, a function or a PyTorch class."""
    name = given if isinstance(given, str) else getattr(given, "__name__", str(given))
    plain = name.lower().replace("_", "")
    found = {activation.replace("_", ""): activation for activation in ACTIVATIONS} | _ACTIVATION_ALIASES
    if plain not in found:
        raise unknown_name("activation", name, ACTIVATIONS)
    return found[plain]


def _shown(given: object) -> str:
    return repr(given) if isinstance(given, str | int | float) else "..."
