"""A ring buffer for stacked images: every frame is kept once, and stacks are put together when they are sampled."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np
from numpy.typing import DTypeLike

from adaqn.errors import CheckpointError, EnvironmentFault, UserError
from adaqn.replay.protocol import Batch, Transitions
from adaqn.replay.ring import Ring, allocated, check_sizes

Padding = Literal["repeat", "zeros"]  # what fills a stack before its episode has enough frames: its first one, or zeros

STEPS_PER_SPARE_FRAME = 40


class FrameReplay:
    """A ring of frames, each with the step that led to it, in the order in which they came.

    Observations are uint8 [H, W, stack * channels], the newest frame last. An episode of L steps has L + 1 frames:
    the first one belongs to no step, and lies just before the frame that the first step led to. So a row of this
    ring, as a checkpoint counts them, is one frame of one environment, and memory does not depend on how the
    episodes of several environments interleave.

    What is sampled are the newest `capacity` transitions (whole steps of all environments). One whose stack may
    reach back to a frame that was overwritten is not among them. The ring has a frame to spare for every 40 steps,
    so fewer than `capacity` are held only where episodes are shorter than that: by 1 % with 30 steps, 7 % with 10.
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
        self._capacity = max(1, capacity // n_envs)  # in steps of all environments, as all that is named steps here
        frame_shape = (*observation_shape[:2], self._channels)
        # Beside the frames of the capacity and of the stacks before it, those that begin an episode: as many as a
        # ring of this capacity usually needs, and enough for one step to be sampled where all episodes have one.
        spare = self._capacity * n_envs // STEPS_PER_SPARE_FRAME + (stack + 2) * n_envs
        slots = (self._capacity + stack) * n_envs + spare
        arrays = allocated(
            slots,
            {
                "frame": (frame_shape, np.uint8),
                "environment": ((), np.int32),
                "place": ((), np.int16),  # how many frames of the episode came before, at most stack + 1
                # Of the step that led to the frame; zero in the first frame of an episode.
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
        # The frame that each transition led to, by number. A transition is numbered step * n_envs + environment,
        # and lies in the entry of that number modulo the size.
        self._led_to = np.zeros((self._capacity + stack) * n_envs, np.int64)
        self._transitions = 0  # ever added
        self._oldest_step = 0  # of which all frames are held
        _keep_freed_memory()

    @property
    def nbytes(self) -> int:
        """The memory that this buffer takes when it is full."""
        return sum(array.nbytes for array in self._ring.arrays.values()) + self._led_to.nbytes

    @property
    def added(self) -> int:
        """Frames ever added."""
        return self._ring.added

    @property
    def oldest(self) -> int:
        """Number of the oldest frame still held."""
        return self._ring.oldest

    def add(self, transitions: Transitions) -> None:
        """Write the newest frame of each next observation, and of the observation where an episode begins."""
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
        """Say that the newest step of these environments was the last of its episode, which was given up there."""
        if self._transitions:
            self._truncated[self._slots_of(self._newest_step())[list(environments)]] = True

    def clear(self) -> None:
        """Give up all that is held; the next step begins an episode."""
        self.cut(range(self.n_envs))
        self._ring.clear()
        self._oldest_step = self._transitions // self.n_envs

    def sample(self, rng: np.random.Generator, batch_size: int) -> Batch[np.ndarray]:
        """Transitions drawn uniformly with replacement, in new arrays, each over up to `n_steps` steps."""
        first = self._oldest_sampled()
        held = self._transitions // self.n_envs * self.n_envs - first
        if held <= 0:
            raise ValueError("nothing can be sampled from an empty replay buffer")
        # As VectorReplay draws: the same numbers give the same transitions.
        drawn = (rng.random(batch_size) * held).astype(np.int64)
        start = first + drawn
        ahead = np.arange(self.n_steps)
        slots = self._slots_of(start[:, None] + ahead * self.n_envs)  # [B, n] of the following steps
        # A step is the last of its episode if the one behind it is the first of another; so it holds also for an
        # episode that was given up after its rows had been saved.
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
        """Copies of the frames first..last-1 and their steps, by the name of each array, in the order added."""
        return self._ring.rows(first, last)

    def restore(self, first: int, rows: dict[str, np.ndarray]) -> None:
        """Put frames back that `rows` gave, the first of them with this number; calls go in ascending order."""
        self._ring.restore(first, rows)
        stepped = np.flatnonzero(rows["place"])
        if not len(stepped):
            return
        if not self._transitions:  # the numbers before are of steps that were not given
            self._transitions = int(rows["environment"][stepped[0]])
        numbers = self._transitions + np.arange(len(stepped))
        if not np.array_equal(numbers % self.n_envs, rows["environment"][stepped]):
            raise CheckpointError(
                f"rows of the replay buffer must have {self.n_envs} environments in turn, "
                f"but {len(np.unique(rows['environment']))} come in another order"
            )
        self._led_to[numbers % len(self._led_to)] = first + stepped  # of equal entries, the last one stays
        self._transitions += len(stepped)
        self._forget_overwritten()

    def _next_places(self) -> tuple[np.ndarray, np.ndarray]:
        """Which environments begin an episode with the next step, and the place of the frame it leads to. [n_envs]"""
        if not self._transitions:
            return np.ones(self.n_envs, bool), np.ones(self.n_envs, np.int16)
        slots = self._slots_of(self._newest_step())
        begins = self._terminated[slots] | self._truncated[slots]
        return begins, np.where(begins, 1, np.minimum(self._place[slots] + 1, self.stack + 1))

    def _newest_step(self) -> np.ndarray:
        """The numbers of its transitions. [n_envs]"""
        return np.arange(self._transitions - self.n_envs, self._transitions)

    def _slots_of(self, transitions: np.ndarray) -> np.ndarray:
        """Where the frames lie that these transitions led to."""
        return self._led_to.take(transitions % len(self._led_to)) % self._ring.slots

    def _forget_overwritten(self) -> None:
        """Advance to the oldest step of which all frames are held, in both the ring and `_led_to`."""
        steps = self._transitions // self.n_envs
        oldest = max(self._oldest_step, steps - len(self._led_to) // self.n_envs)
        # The frame before the first one of a step begins an episode there, or belongs to the step before.
        while oldest < steps and self._led_to[oldest * self.n_envs % len(self._led_to)] <= self._ring.oldest:
            oldest += 1
        self._oldest_step = oldest

    def _oldest_sampled(self) -> int:
        """The oldest transition from which on every stack is held."""
        steps = self._transitions // self.n_envs
        oldest = self._oldest_step * self.n_envs + np.arange(self.n_envs if steps > self._oldest_step else 0)
        # Where all begin an episode there, as in the beginning and after `clear`, no stack reaches back any further.
        reach = 0 if (self._place[self._slots_of(oldest)] == 1).all() else self.stack
        return max(self._oldest_step + reach, steps - self._capacity) * self.n_envs

    def _stacks(self, transitions: np.ndarray, back: np.ndarray) -> np.ndarray:
        """Stacks of the frames so many steps before the one that a transition led to. [B, H, W, stack * channels]"""
        place = self._place.take(self._slots_of(transitions))[:, None]
        # Not beyond the first step of the episode; from there, the first frame is the one before.
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
        """The newest frame of each observation, as the ring holds it. [N, H * W, channels]"""
        return observations[..., -self._channels :].reshape(len(observations), -1, self._channels)

    def _check_padding(self, transitions: Transitions, begins: np.ndarray) -> None:
        """Refuse an episode whose first stacks could not be put together again as they were."""
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
    """Let the C library keep the memory of batches when they are freed.

    glibc gives blocks back to the system unless it has seen a larger one freed. A batch of Atari's size would be in
    new pages each time, and to have them made takes longer than to fill them.
    """
    np.empty(16 << 20, np.uint8)
