"""The names that exist: activations, optimizers, losses, and kinds of layers and heads."""

from __future__ import annotations

from typing import Literal, get_args

ActivationName = Literal[
    "celu",
    "elu",
    "gelu",
    "hard_sigmoid",
    "hard_silu",
    "hard_tanh",
    "leaky_relu",
    "log_sigmoid",
    "log_softmax",
    "relu",
    "selu",
    "sigmoid",
    "silu",
    "soft_sign",
    "softmax",
    "softplus",
    "standardize",
    "tanh",
]
OptimizerName = Literal[
    "adabelief",
    "adadelta",
    "adafactor",
    "adagrad",
    "adam",
    "adamax",
    "adamaxw",
    "adamw",
    "amsgrad",
    "fromage",
    "lamb",
    "lars",
    "lion",
    "nadam",
    "nadamw",
    "noisy_sgd",
    "novograd",
    "optimistic_gradient_descent",
    "radam",
    "rmsprop",
    "rprop",
    "sgd",
    "sm3",
    "yogi",
]
LossName = Literal["huber", "l1", "l2", "log_cosh"]
PaddingName = Literal["same", "valid"]
NormalizationName = Literal["none", "layer"]
BlockName = Literal["plain", "residual"]
HeadName = Literal["scalar", "categorical"]

ACTIVATIONS: tuple[str, ...] = get_args(ActivationName)
OPTIMIZERS: tuple[str, ...] = get_args(OptimizerName)
LOSSES: tuple[str, ...] = get_args(LossName)
PADDINGS: tuple[str, ...] = get_args(PaddingName)
NORMALIZATIONS: tuple[str, ...] = get_args(NormalizationName)
BLOCKS: tuple[str, ...] = get_args(BlockName)
HEADS: tuple[str, ...] = get_args(HeadName)
# The optimizers with the option `weight_decay`.
WITH_WEIGHT_DECAY = ("adadelta", "adamaxw", "adamw", "lamb", "lars", "lion", "nadamw", "novograd")
