"""Validation of observations and rewards from environments and users: no value is silently changed by a cast."""

from __future__ import annotations

import numbers

import numpy as np

LARGEST = float(np.finfo(np.float32).max)
_NUMERIC = "biuf"  # kinds of numeric dtypes; excludes text, dates and objects
_BYTE_RANGE = "whole numbers from 0 to 255 are expected in images of bytes"


class Unusable(Exception):
    """A value that cannot be used for learning."""

    def __init__(self, given: str, expected: str) -> None:
        super().__init__(f"{given}, where {expected}")
        self.given = given  # description of the value
        self.expected = expected  # what is expected instead


def reward_of(given: object) -> float:
    """The reward as a finite number within the range of float32."""
    value = given if type(given) is float else _number(given)
    if not -LARGEST <= value <= LARGEST:  # also false for NaN
        raise Unusable(f"the reward {value}", "a finite one is expected")
    return value


def truth_of(name: str, given: object) -> bool:
    """The `terminated` or `truncated` flag as a bool."""
    if type(given) is bool or type(given) is np.bool_:
        return bool(given)
    array = _array(given)
    if array is None or array.size != 1 or array.dtype.kind not in "biu":
        raise Unusable(f"{given!r} for {name}", "True or False is expected")
    return bool(array.item())


def array_of(given: object) -> np.ndarray:
    """One or several observations as an array of any dtype."""
    array = _array(given)
    if array is None:
        raise Unusable(f"an observation of type {type(given).__name__}", "an array is expected")
    return array


def observation_of(given: object, dtype: np.dtype) -> np.ndarray:
    """One or several observations as an array of this dtype; values beyond the range of float32 become infinite."""
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
    """Raise if an observation contains an infinite value or NaN; byte images cannot."""
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
    # Stricter than `float`, which parses text and takes NumPy's timedelta64 for integers.
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
    except (ValueError, TypeError, RuntimeError):  # ragged lists, and objects that do not convert to an array
        return None
