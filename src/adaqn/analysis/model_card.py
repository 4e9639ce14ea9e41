"""The model card of an agent on the Hugging Face Hub: YAML metadata, and a page in Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import adaqn
from adaqn.agents.protocol import MemberReport
from adaqn.files import Json, yaml_text
from adaqn.hyperparameters import Hyperparameters
from adaqn.runs.labels import member_labels
from adaqn.training.evaluation import EvaluationResult

MOST_ROWS = 32  # of the table of members


class Card(NamedTuple):
    """What a model card says."""

    repo_id: str
    name: str  # of the public class: AdaDQN
    algo: str
    environment: str | None
    steps: int
    seed: int
    policy: Hyperparameters  # of the network that acts
    members: Sequence[MemberReport]
    evaluation: EvaluationResult | None
    evaluation_seed: int
    versions: Json
    files: Sequence[str]  # beside the card


def card_text(card: Card) -> str:
    """The README.md of the repository."""
    return f"---\n{yaml_text(_metadata(card))}---\n\n" + "\n\n".join(filter(None, _sections(card))) + "\n"


def _metadata(card: Card) -> Json:
    """The metadata that the Hub reads; `model-index` holds the evaluation, in the form that RL libraries share."""
    tags = ["reinforcement-learning", "deep-reinforcement-learning", "adaqn", card.algo]
    values: Json = {
        "library_name": "adaqn",
        "pipeline_tag": "reinforcement-learning",
        "tags": tags if card.environment is None else [card.environment, *tags],
    }
    if card.evaluation is not None:
        environment = card.environment or "unnamed environment"
        metric = {
            "type": "mean_reward",
            "name": "mean_reward",
            "value": f"{card.evaluation.mean:.2f} +/- {card.evaluation.std:.2f}",
            "verified": False,
        }
        result = {
            "task": {"type": "reinforcement-learning", "name": "reinforcement-learning"},
            "dataset": {"name": environment, "type": environment},
            "metrics": [metric],
        }
        values["model-index"] = [{"name": card.name, "results": [result]}]
    return values


def _sections(card: Card) -> list[str]:
    where = "an environment without a name" if card.environment is None else _code(card.environment)
    # An algorithm of another package has no class in adaqn.
    home, name = ("adaqn", card.name) if card.name in adaqn.__all__ else ("adaqn.api", "Model")
    usage = (
        f"```python\nfrom {home} import {name}\n\n"
        f'agent = {name}.from_hub("{card.repo_id}")\n'
        "action, _ = agent.predict(observation, deterministic=True)\n```"
    )
    return [
        f"# {card.name} on {where}",
        f"{card.name} trained on {where} for {card.steps:,} environment steps (seed {card.seed}) with adaqn "
        f"{adaqn.__version__}, reinforcement learning that tunes its own hyperparameters within one run.",
        _evaluation(card),
        "## Use",
        'Install with `pip install "adaqn[hub]"`. The file is read without executing any code in it.',
        usage,
        "`policy.npz` runs with NumPy alone (`adaqn.exported_policy`)"
        + (", and `policy.onnx` wherever ONNX models do." if "policy.onnx" in card.files else "."),
        "## Hyperparameters",
        f"The network that acts: {_code(_described(card.policy))}.",
        _members(card),
        "`config.yaml` has the complete configuration: `adaqn train --config config.yaml` repeats the run.",
        "![The run over time](picture.png)" if "picture.png" in card.files else "",
        "Trained with " + ", ".join(f"{name} {version}" for name, version in card.versions.items()) + "."
        if card.versions
        else "",
    ]


def _evaluation(card: Card) -> str:
    result = card.evaluation
    if result is None:
        return "It was not evaluated when this page was written."
    return (
        f"Mean return **{result.mean:.2f} ± {result.std:.2f}** (mean and standard deviation over "
        f"{len(result.returns)} episodes of the deterministic policy, evaluation seed {card.evaluation_seed}). This is "
        "one trained agent: another seed can give another result."
    )


def _members(card: Card) -> str:
    """The table of an ensemble; a single member is the network that acts."""
    if len(card.members) < 2:
        return ""
    labels = member_labels([member.hyperparameters for member in card.members])
    rows = [
        f"| {index} | {_code(label)} | {'diverged' if member.diverged else f'{member.selected:.0%}'} |"
        for index, (label, member) in enumerate(zip(labels, card.members, strict=True))
    ]
    left_out = len(rows) - MOST_ROWS
    table = ["| member | differs in | target updates |", "|---|---|---|", *rows[:MOST_ROWS]]
    return "\n".join(table) + (f"\n\n{left_out} more members are in `config.yaml`." if left_out > 0 else "")


def _described(member: Hyperparameters) -> str:
    return ", ".join(f"{name} {value}" for name, value in member.to_dict().items())


def _code(text: str) -> str:
    """Text from a configuration, shown literally: no backtick or line break ends the code, no bar ends a table cell."""
    return "`" + " ".join(text.split()).replace("`", "'").replace("|", "\\|") + "`"
