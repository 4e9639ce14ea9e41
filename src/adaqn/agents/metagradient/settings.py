"""Settings of meta-gradient DQN: those of DQN with one member, and the learning rate of the discount."""

from __future__ import annotations

from dataclasses import dataclass

from adaqn.agents.core.settings import setting
from adaqn.agents.core.value_settings import PlainDQNSettings
from adaqn.base.checks import between


@dataclass(frozen=True, kw_only=True)
class MetaGradientSettings(PlainDQNSettings):
    """Settings of meta-gradient DQN. `gamma` is γ̄; the learned discount starts at the member's `discount`."""

    meta_learning_rate: float = setting(0.001, "learning rate of the discount's logit, with Adam", between(0.0))

    @property
    def sample_size(self) -> int:
        """Two batches: the inner update learns from the first one, and is judged on the second one."""
        return 2 * self.batch_size
