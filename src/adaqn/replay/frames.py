"""A ring buffer for stacked images: every frame is stored once, and stacks are assembled when sampled."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np
from numpy.typing import DTypeLike

from adaqn.base.errors import CheckpointError, EnvironmentFault, UserError
from adaqn.replay.protocol import Batch, Transitions
from adaqn.replay.ring import Ring, allocated, check_sizes

Padding = Literal["repeat", "zeros"]  # fills a stack before its episode has enough frames: its first frame, or zeros

STEPS_PER_SPARE_FRAME = 40


class FrameReplay:
    """A ring of frames in order of arrival, each stored with the step that led to it.

    Observations are uint8 [H, W, stack * channels], the newest frame last. An episode of L steps has L + 1 frames:
    the first one belongs to no step, and is stored just before the frame that the first step led to. So a row of
    this ring, as counted by a checkpoint, is one frame of one environment, and memory does not depend on how the
    episodes of several environments interleave.

    Samples come from the newest `capacity` transitions (whole steps of all environments), without those whose stack
    may include an overwritten frame. The ring has one spare frame per 40 steps, so fewer than `capacity` transitions
    are held only if episodes are shorter than that: by 1 % with 30 steps, 7 % with 10.
    """

    def __init__(
        self,
        capacity: int,  # transitions in total
        n_envs: int,
        observation_shape: tuple[int, int, int],  # height, width, stack * channels
        action_shape: tuple[int, ...],  # () for discrete actions
        action_dtype: DTypeLike,
        n_steps: int = 1,
        stack: int = 1,
        padding: Padding = "zeros",
    ) -> None:
        check_sizes(capacity, n_envs, n_steps)
        if stack < 1 or observation_shape[2] % stack:
            raise UserError(
                f"frame_stack must divide the channels of an image, but it is {stack} for images {observation_shape}"
            )
        self.n_envs = n_envs
        self.n_steps = n_steps
        self.stack = stack
        self.padding: Padding = padding
        self._observation_shape = observation_shape
        self._channels = observation_shape[2] // stack
        self._capacity = max(1, capacity // n_envs)  # in steps of all environments, like every count named "steps" here
        frame_shape = (*observation_shape[:2], self._channels)
        # Spare slots for the first frames of episodes: as many as a ring of this capacity usually needs, and enough to
        # sample at least one step if every episode has only one.
        spare = self._capacity * n_envs // STEPS_PER_SPARE_FRAME + (stack + 2) * n_envs
        slots = (self._capacity + stack) * n_envs + spare
        arrays = allocated(
            slots,
            {
                "frame": (frame_shape, np.uint8),
                "environment": ((), np.int32),
                "place": ((), np.int16),  # number of earlier frames in the episode, at most stack + 1
                # The step that led to the frame; zero for the first frame of an episode.
                "action": (action_shape, action_dtype),
                "reward": ((), np.float32),
                "terminated": ((), np.bool_),
                "truncated": ((), np.bool_),
            },
        )
        self._ring = Ring(slots, arrays)
        self._frame = arrays["frame"].reshape(self._ring.slots, -1, self._channels)
        self._environment = arrays["environment"]
        self._place = arrays["place"]
        self._action = arrays["action"]
        self._reward = arrays["reward"]
        self._terminated = arrays["terminated"]
        self._truncated = arrays["truncated"]
        # The number of the frame that each transition led to. Transition number step * n_envs + environment is stored
        # at that number modulo the size.
        self._led_to = np.zeros((self._capacity + stack) * n_envs, np.int64)
        self._transitions = 0  # number of transitions ever added
        self._oldest_step = 0  # the oldest step with all frames still held
        _keep_freed_memory()

    @property
    def nbytes(self) -> int:
        """The size of this buffer in memory when it is full."""
        return sum(array.nbytes for array in self._ring.arrays.values()) + self._led_to.nbytes

    @property
    def added(self) -> int:
        """Number of frames ever added."""
        return self._ring.added

    @property
    def oldest(self) -> int:
        """Index of the oldest frame still held."""
        return self._ring.oldest

    def add(self, transitions: Transitions) -> None:
        """Store the newest frame of each next observation, and of the observation where an episode begins."""
        begins, place = self._next_places()
        if begins.any():
            self._check_padding(transitions, begins)
        after = self._ring.added + np.arange(self.n_envs) + begins.cumsum()
        slots = after % self._ring.slots
        self._frame[slots] = self._newest(transitions.next_observation)
        self._environment[slots] = np.arange(self.n_envs)
        self._place[slots] = place
        self._action[slots] = transitions.action
        self._reward[slots] = transitions.reward
        self._terminated[slots] = transitions.terminated
        self._truncated[slots] = transitions.truncated
        if begins.any():
            slots = (after[begins] - 1) % self._ring.slots
            self._frame[slots] = self._newest(transitions.observation[begins])
            self._environment[slots] = np.flatnonzero(begins)
            for column in (self._place, self._action, self._reward, self._terminated, self._truncated):
                column[slots] = 0
        self._led_to[np.arange(self._transitions, self._transitions + self.n_envs) % len(self._led_to)] = after
        self._ring.advance(int(after[-1]) + 1 - self._ring.added)
        self._transitions += self.n_envs
        self._forget_overwritten()

    def cut(self, environments: Iterable[int]) -> None:
        """Mark the newest step of these environments as the end of an abandoned episode."""
        if self._transitions:
            self._truncated[self._slots_of(self._newest_step())[list(environments)]] = True

    def clear(self) -> None:
        """Discard all transitions; the next step begins an episode."""
        self.cut(range(self.n_envs))
        self._ring.clear()
        self._oldest_step = self._transitions // self.n_envs

    def sample(self, rng: np.random.Generator, batch_size: int) -> Batch[np.ndarray]:
        """Transitions drawn uniformly with replacement, in new arrays, each over up to `n_steps` steps."""
        first = self._oldest_sampled()
        held = self._transitions // self.n_envs * self.n_envs - first
        if held <= 0:
            raise ValueError("nothing can be sampled from an empty replay buffer")
        # As in VectorReplay: the same random numbers give the same transitions.
        drawn = (rng.random(batch_size) * held).astype(np.int64)
        start = first + drawn
        ahead = np.arange(self.n_steps)
        slots = self._slots_of(start[:, None] + ahead * self.n_envs)  # [B, n] slots of the following steps
        # A step is the last of its episode if the next one is the first of another episode. This also covers an
        # episode that was abandoned after its rows had been saved.
        ended = np.ones(slots.shape, bool)
        np.less_equal(self._place.take(slots[:, 1:]), 1, out=ended[:, :-1])
        remaining = (held - drawn - 1) // self.n_envs + 1  # steps from the start to the newest
        steps = np.minimum(ended.argmax(axis=1) + 1, remaining)
        last = start + (steps - 1) * self.n_envs
        return Batch(
            self._stacks(start, np.arange(self.stack, 0, -1)),
            self._action.take(slots[:, 0], axis=0),
            np.where(ahead < steps[:, None], self._reward.take(slots), np.float32(0.0)),
            self._stacks(last, np.arange(self.stack - 1, -1, -1)),
            self._terminated.take(self._slots_of(last)).astype(np.float32),
            steps.astype(np.int32),
        )

    def rows(self, first: int, last: int) -> dict[str, np.ndarray]:
        """Copies of the frames first..last-1 and their steps by array name, in the order they were added."""
        return self._ring.rows(first, last)

    def restore(self, first: int, rows: dict[str, np.ndarray]) -> None:
        """Restore frames returned by `rows`, starting at this number; calls must be in ascending order."""
        self._ring.restore(first, rows)
        stepped = np.flatnonzero(rows["place"])
        if not len(stepped):
            return
        if not self._transitions:  # the first row may be in the middle of a step
            self._transitions = int(rows["environment"][stepped[0]])
        numbers = self._transitions + np.arange(len(stepped))
        if not np.array_equal(numbers % self.n_envs, rows["environment"][stepped]):
            raise CheckpointError(
                f"rows of the replay buffer must have {self.n_envs} environments in turn, "
                f"but {len(np.unique(rows['environment']))} are in another order"
            )
        self._led_to[numbers % len(self._led_to)] = first + stepped  # for equal indices, the last value wins
        self._transitions += len(stepped)
        self._forget_overwritten()

    def _next_places(self) -> tuple[np.ndarray, np.ndarray]:
        """Which environments begin an episode with the next step, and the place of the resulting frame. [n_envs]"""
        if not self._transitions:
            return np.ones(self.n_envs, bool), np.ones(self.n_envs, np.int16)
        slots = self._slots_of(self._newest_step())
        begins = self._terminated[slots] | self._truncated[slots]
        return begins, np.where(begins, 1, np.minimum(self._place[slots] + 1, self.stack + 1))

    def _newest_step(self) -> np.ndarray:
        """The numbers of the newest step's transitions. [n_envs]"""
        return np.arange(self._transitions - self.n_envs, self._transitions)

    def _slots_of(self, transitions: np.ndarray) -> np.ndarray:
        """The slots of the frames that these transitions led to."""
        return self._led_to.take(transitions % len(self._led_to)) % self._ring.slots

    def _forget_overwritten(self) -> None:
        """Advance `_oldest_step` to the oldest step that is complete in both the ring and `_led_to`."""
        steps = self._transitions // self.n_envs
        oldest = max(self._oldest_step, steps - len(self._led_to) // self.n_envs)
        # The frame before a step's first one is the first of an episode, or belongs to the previous step.
        while oldest < steps and self._led_to[oldest * self.n_envs % len(self._led_to)] <= self._ring.oldest:
            oldest += 1
        self._oldest_step = oldest

    def _oldest_sampled(self) -> int:
        """The oldest transition from which on every stack is complete."""
        steps = self._transitions // self.n_envs
        oldest = self._oldest_step * self.n_envs + np.arange(self.n_envs if steps > self._oldest_step else 0)
        # If all environments begin an episode there (at the start, and after `clear`), no stack reaches further back.
        reach = 0 if (self._place[self._slots_of(oldest)] == 1).all() else self.stack
        return max(self._oldest_step + reach, steps - self._capacity) * self.n_envs

    def _stacks(self, transitions: np.ndarray, back: np.ndarray) -> np.ndarray:
        """Stacks of the frames `back` steps before the one that a transition led to. [B, H, W, stack * channels]"""
        place = self._place.take(self._slots_of(transitions))[:, None]
        # Not before the first step of the episode; the episode's first frame is stored just before that step's frame.
        stepped = transitions[:, None] - np.minimum(back, place - 1) * self.n_envs
        frames = self._led_to.take(stepped % len(self._led_to)) - (back >= place)
        slots = frames % self._ring.slots
        blank = back > place
        stacks = np.empty((len(transitions), self._frame.shape[1], self.stack, self._channels), np.uint8)
        for position in range(self.stack):
            taken = self._frame.take(slots[:, position], axis=0)
            if self.padding == "zeros":
                taken[blank[:, position]] = 0
            stacks[:, :, position] = taken
        return stacks.reshape(-1, *self._observation_shape)

    def _newest(self, observations: np.ndarray) -> np.ndarray:
        """The newest frame of each observation, in the layout of the ring. [N, H * W, channels]"""
        return observations[..., -self._channels :].reshape(len(observations), -1, self._channels)

    def _check_padding(self, transitions: Transitions, begins: np.ndarray) -> None:
        """Raise if the first stacks of an episode could not be reassembled exactly."""
        shape = (-1, *self._observation_shape[:2], self.stack, self._channels)
        observation = transitions.observation[begins].reshape(shape)
        following = transitions.next_observation[begins].reshape(shape)
        padded = observation[..., -1:, :] if self.padding == "repeat" else np.zeros(1, np.uint8)
        if (observation[..., :-1, :] != padded).any() or (following[..., :-1, :] != observation[..., 1:, :]).any():
            filling = "repeats of its first one" if self.padding == "repeat" else "zeros"
            raise EnvironmentFault(
                f"an episode must begin with {self.stack} stacked frames, the newest last and before it {filling}, "
                f"but the environment began one with another stack"
            )


def _keep_freed_memory() -> None:
    """Let the C library keep the memory of freed batches.

    glibc returns blocks to the system unless it has seen a larger one freed. A batch of Atari frames would need new
    pages every time, and creating them takes longer than filling them.
    """
    np.empty(16 << 20, np.uint8)
