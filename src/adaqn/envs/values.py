"""What environments and users hand over, as numbers that can be learned from: nothing is cast to another meaning."""

from __future__ import annotations

import numbers

import numpy as np

LARGEST = float(np.finfo(np.float32).max)
_NUMERIC = "biuf"  # kinds of dtype; text, dates and objects are others
_BYTE_RANGE = "whole numbers from 0 to 255 are expected in images of bytes"


class Unusable(Exception):
    """A value that cannot be learned from."""

    def __init__(self, given: str, expected: str) -> None:
        super().__init__(f"{given}, where {expected}")
        self.given = given  # what it is
        self.expected = expected  # what should be in its place


def reward_of(given: object) -> float:
    """The reward as a number that float32 can hold."""
    value = given if type(given) is float else _number(given)
    if not -LARGEST <= value <= LARGEST:  # also false for NaN
        raise Unusable(f"the reward {value}", "a finite one is expected")
    return value


def truth_of(name: str, given: object) -> bool:
    """Whether the episode `terminated` or was `truncated`."""
    if type(given) is bool or type(given) is np.bool_:
        return bool(given)
    array = _array(given)
    if array is None or array.size != 1 or array.dtype.kind not in "biu":
        raise Unusable(f"{given!r} for {name}", "True or False is expected")
    return bool(array.item())


def array_of(given: object) -> np.ndarray:
    """An observation, or several, as an array of any dtype."""
    array = _array(given)
    if array is None:
        raise Unusable(f"an observation of type {type(given).__name__}", "an array is expected")
    return array


def observation_of(given: object, dtype: np.dtype) -> np.ndarray:
    """An observation, or several, as an array of this dtype; numbers that float32 cannot hold become infinite."""
    array = given if type(given) is np.ndarray else array_of(given)
    if array.dtype == dtype:
        return array
    if array.dtype.kind not in _NUMERIC:
        raise Unusable(f"an observation of dtype {array.dtype}", "numbers are expected")
    with np.errstate(over="ignore", invalid="ignore"):
        if dtype == np.uint8:
            _require(array, (array >= 0) & (array <= 255) & (array % 1 == 0), _BYTE_RANGE)
        return array.astype(dtype)


def require_finite(observation: np.ndarray) -> None:
    """Raise if a number in an observation is infinite or NaN; bytes never are."""
    if observation.dtype.kind == "f":
        finite = np.isfinite(observation)
        if np.count_nonzero(finite) != finite.size:  # half the time of finite.all()
            _require(observation, finite, "finite numbers are expected")


def _require(array: np.ndarray, sound: np.ndarray, expected: str) -> None:
    if not np.all(sound):
        place = int(np.argmin(sound))
        raise Unusable(f"an observation with {array.flat[place]} at flat index {place}", expected)


def _number(given: object) -> float:
    expected = "a number is expected"
    # Not all that `float` takes: it reads text, and NumPy's durations are integers to it.
    if isinstance(given, numbers.Real) and not isinstance(given, np.timedelta64):
        try:
            return float(given)
        except OverflowError:
            raise Unusable("a reward too large for a float", expected) from None
    array = _array(given)
    if array is None or array.size != 1 or array.dtype.kind not in _NUMERIC:
        raise Unusable(f"the reward {given!r}", expected)
    return float(array.item())


def _array(given: object) -> np.ndarray | None:
    try:
        return np.asarray(given)
    except (ValueError, TypeError, RuntimeError):  # ragged lists, and objects that refuse to be an array
        return None
