"""Settings of AdaDQN and of plain DQN."""

from __future__ import annotations

from dataclasses import dataclass

from adaqn.agents.core.settings import SelectionSettings
from adaqn.agents.core.value_settings import PlainDQNSettings


@dataclass(frozen=True, kw_only=True)
class DQNSettings(PlainDQNSettings, SelectionSettings):
    """Settings that all members share, and how members are chosen."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_used_temperature()
