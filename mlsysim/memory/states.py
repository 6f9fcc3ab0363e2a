"""What training keeps for every parameter, and how sharding divides it.

The bytes per parameter are never one constant: they are a sum of named components, each with its own number format.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from mlsysim._numeric import Num
from mlsysim.equations import COUNT, NON_NEGATIVE, equation
from mlsysim.errors import InputError, unknown_name


@equation(
    "eq-training-state",
    formula="parameters * (weight_bytes + master_bytes + gradient_bytes + gradient_copy_bytes + momentum_bytes + "
    "variance_bytes)",
)
def training_state(
    parameters: Num,
    weight_bytes: Num,
    master_bytes: Num,
    gradient_bytes: Num,
    gradient_copy_bytes: Num,
    momentum_bytes: Num,
    variance_bytes: Num,
) -> Num:
    """Memory of the training state on one device without sharding.

    Formula: M = parameters x (weight + master + gradient + second gradient + momentum + variance).

    Parameters
    ----------
    parameters : float or array, 1
        Parameters of the model, or of the part that the device holds.
    weight_bytes : float or array, byte
        The weight that the forward pass reads (2 for BF16).
    master_bytes : float or array, byte
        The FP32 copy that the optimizer updates (4); 0 when the weight itself is FP32.
    gradient_bytes : float or array, byte
        The gradient that the backward pass writes (2, or 4 when it accumulates in FP32).
    gradient_copy_bytes : float or array, byte
        An FP32 gradient beside a 16-bit one (4); 0 when there is only one.
    momentum_bytes : float or array, byte
        First moment of Adam (4).
    variance_bytes : float or array, byte
        Second moment of Adam (4).

    Returns
    -------
    float or array, byte

    Assumptions: every parameter is trained with the same formats; no activation, workspace or fragmentation.

    >>> training_state(70e9, 2, 4, 4, 0, 4, 4) / 1e12
    1.26

    Source: rajbhandari2020zero, sec. 3.1; master weights are micikevicius2018mixed, sec. 3.1.
    """
    per_parameter = weight_bytes + master_bytes + gradient_bytes + gradient_copy_bytes + momentum_bytes + variance_bytes
    return parameters * per_parameter


@equation(
    "eq-zero-1",
    formula="parameters * (weight_bytes + gradient_bytes + optimizer_bytes / shards)",
    domain={"shards": COUNT},
)
def zero_1(parameters: Num, weight_bytes: Num, gradient_bytes: Num, optimizer_bytes: Num, shards: Num) -> Num:
    """Model state per device when the data-parallel ranks divide the optimizer state among them.

    Formula: M = parameters x (weight + gradient + optimizer / N).

    Parameters
    ----------
    parameters : float or array, 1
        Parameters that one rank's replica holds.
    weight_bytes, gradient_bytes : float or array, byte
        Bytes per parameter of weights and gradients.
    optimizer_bytes : float or array, byte
        Bytes per parameter of the optimizer state: master weight, momentum, variance, and an FP32 gradient copy.
    shards : float or array, 1
        Ranks that share one replica's optimizer state, at least 1.

    Returns
    -------
    float or array, byte

    Assumptions: equal shards, no padding.

    >>> round(zero_1(7.5e9, 2, 2, 12, 64) / 1e9, 1)
    31.4

    Source: rajbhandari2020zero, sec. 5.1 and fig. 1.
    """
    return parameters * (weight_bytes + gradient_bytes + optimizer_bytes / shards)


@equation(
    "eq-zero-2",
    formula="parameters * (weight_bytes + (gradient_bytes + optimizer_bytes) / shards)",
    domain={"shards": COUNT},
)
def zero_2(parameters: Num, weight_bytes: Num, gradient_bytes: Num, optimizer_bytes: Num, shards: Num) -> Num:
    """Model state per device when gradients are divided as well.

    Formula: M = parameters x (weight + (gradient + optimizer) / N).

    Parameters
    ----------
    parameters : float or array, 1
        Parameters that one rank's replica holds.
    weight_bytes, gradient_bytes : float or array, byte
        Bytes per parameter of weights and gradients.
    optimizer_bytes : float or array, byte
        Bytes per parameter of the optimizer state.
    shards : float or array, 1
        Ranks that share one replica's gradients and optimizer state, at least 1.

    Returns
    -------
    float or array, byte

    Assumptions: each gradient is reduced and freed as soon as it exists; no gradient is accumulated unsharded.

    >>> round(zero_2(7.5e9, 2, 2, 12, 64) / 1e9, 1)
    16.6

    Source: rajbhandari2020zero, sec. 5.2 and fig. 1.
    """
    return parameters * (weight_bytes + (gradient_bytes + optimizer_bytes) / shards)


@equation(
    "eq-zero-3",
    formula="parameters * (weight_bytes + gradient_bytes + optimizer_bytes) / shards",
    domain={"shards": COUNT},
)
def zero_3(parameters: Num, weight_bytes: Num, gradient_bytes: Num, optimizer_bytes: Num, shards: Num) -> Num:
    """Model state per device when everything is divided: ZeRO-3, which PyTorch calls FSDP.

    Formula: M = parameters x (weight + gradient + optimizer) / N.

    Parameters
    ----------
    parameters : float or array, 1
        Parameters of the model, or of the part that one model-parallel rank holds.
    weight_bytes, gradient_bytes : float or array, byte
        Bytes per parameter of weights and gradients.
    optimizer_bytes : float or array, byte
        Bytes per parameter of the optimizer state.
    shards : float or array, 1
        Ranks among which everything is divided, at least 1.

    Returns
    -------
    float or array, byte

    Assumptions: what rests on a device; the units gathered to compute with come on top (eq-fsdp-gathered).

    >>> round(zero_3(7.5e9, 2, 2, 12, 64) / 1e9, 1)
    1.9

    Source: rajbhandari2020zero, sec. 5.3 and fig. 1.
    """
    return parameters * (weight_bytes + gradient_bytes + optimizer_bytes) / shards


@equation(
    "eq-hsdp",
    formula="parameters * (weight_bytes + gradient_bytes + optimizer_bytes) * replicas / devices",
    domain={"devices": COUNT, "replicas": COUNT},
)
def hsdp(
    parameters: Num, weight_bytes: Num, gradient_bytes: Num, optimizer_bytes: Num, devices: Num, replicas: Num
) -> Num:
    """Model state per device when groups hold a replica each and divide everything inside the group.

    Formula: M = parameters x (weight + gradient + optimizer) x replicas / devices.

    Parameters
    ----------
    parameters : float or array, 1
        Parameters of the model, or of the part that one model-parallel rank holds.
    weight_bytes, gradient_bytes : float or array, byte
        Bytes per parameter of weights and gradients.
    optimizer_bytes : float or array, byte
        Bytes per parameter of the optimizer state.
    devices : float or array, 1
        All data-parallel ranks.
    replicas : float or array, 1
        Groups among them; each holds one whole copy, so a group has devices / replicas ranks.

    Returns
    -------
    float or array, byte

    Assumptions: replicas divide the devices into equal groups.

    >>> hsdp(7.5e9, 2, 2, 12, devices=64, replicas=8) / 1e9
    15.0

    Source: zhao2023fsdp, sec. 3.2.2.
    """
    return parameters * (weight_bytes + gradient_bytes + optimizer_bytes) * replicas / devices


@equation(
    "eq-fsdp-gathered",
    formula="units_in_flight * unit_parameters * compute_bytes + copied_parameters * copy_bytes",
    domain={"copied_parameters": NON_NEGATIVE, "copy_bytes": NON_NEGATIVE},
)
def gathered_units(
    unit_parameters: Num,
    compute_bytes: Num,
    units_in_flight: Num = 2.0,
    copied_parameters: Num = 0.0,
    copy_bytes: Num = 0.0,
) -> Num:
    """Whole weights that sharded training holds: the unit that computes, the one that is prefetched, and copies that wait.

    Formula: M = units in flight x parameters of the largest unit x bytes of a weight to compute with + copied parameters x bytes
    of a copy.

    Parameters
    ----------
    unit_parameters : float or array, 1
        Parameters of the largest unit that is gathered at once (a layer; the embeddings and the head).
    compute_bytes : float or array, byte
        Bytes of a gathered weight (2 for BF16), whatever the shard is kept in.
    units_in_flight : float or array, 1
        Units gathered at a time; FSDP's rate limiter allows 2.
    copied_parameters : float or array, 1
        Those of which autocast made a copy in the format that computes, which the backward pass still needs: all of the device
        without recomputation, else those of the unit that computes.
    copy_bytes : float or array, byte
        Bytes of such a copy (2); 0 where weights are gathered in the format that computes.

    Returns
    -------
    float or array, byte

    Assumptions: units in flight are as large as the largest one.

    >>> gathered_units(1.05e9, 2) / 1e9, gathered_units(1.05e9, 4, 2, 8.03e9, 2) / 1e9
    (4.2, 24.46)

    Source: zhao2023fsdp, sec. 3.2.1 and 3.4.2; peak of parameters, and two all-gathers in flight.
    """
    return units_in_flight * unit_parameters * compute_bytes + copied_parameters * copy_bytes


@equation("eq-checkpoint", formula="parameters * (weight_bytes + master_bytes + momentum_bytes + variance_bytes)")
def checkpoint_bytes(
    parameters: Num, weight_bytes: Num, master_bytes: Num = 0.0, momentum_bytes: Num = 0.0, variance_bytes: Num = 0.0
) -> Num:
    """Size of a checkpoint: the weights alone to serve from, or all that training needs to go on.

    Formula: bytes = parameters x (weight + master + momentum + variance).

    Parameters
    ----------
    parameters : float or array, 1
        Parameters of the model.
    weight_bytes : float or array, byte
        The 16-bit weight (2); 0 when only the master copy is written.
    master_bytes : float or array, byte
        The FP32 master weight (4).
    momentum_bytes, variance_bytes : float or array, byte
        Adam's two moments (4 each).

    Returns
    -------
    float or array, byte

    Assumptions: gradients are not written (a checkpoint lies between two steps); no compression.

    >>> checkpoint_bytes(70e9, 2) / 1e9, checkpoint_bytes(70e9, 2, 4, 4, 4) / 1e9
    (140.0, 980.0)

    Source: bigscience2022training, README, checkpoint sizes.
    """
    return parameters * (weight_bytes + master_bytes + momentum_bytes + variance_bytes)


@dataclass(frozen=True)
class Recipe:
    """Number formats of one way to train, in bytes per parameter, and who describes it."""

    name: str
    weight: float
    master: float
    gradient: float
    gradient_copy: float
    momentum: float
    variance: float
    compute: float  # bytes of a weight that is gathered to compute with
    source: str
    where: str
    read: str = ""  # "secondary": seen in a transcription
    copy: float = (
        0.0  # bytes of a copy of a gathered weight that is cast for the products and kept for the backward pass
    )

    @property
    def optimizer(self) -> float:
        """What ZeRO-1 divides: Megatron's distributed optimizer keeps an FP32 gradient copy with it too."""
        return self.master + self.gradient_copy + self.momentum + self.variance

    @property
    def bytes_per_parameter(self) -> float:
        return self.weight + self.gradient + self.optimizer

    @property
    def components(self) -> Mapping[str, float]:
        """Bytes by the argument names of :func:`training_state`."""
        names = ("weight", "master", "gradient", "gradient_copy", "momentum", "variance")
        return MappingProxyType({f"{name}_bytes": getattr(self, name) for name in names})

    def __str__(self) -> str:
        return f"recipe {self.name}: {self.source}, {self.where}" + (" [secondary source]" if self.read else "")


# Formats of the components of the training state, by recipe.
RECIPES: Mapping[str, Recipe] = MappingProxyType(
    {
        r.name: r
        for r in (
            Recipe("zero-fp16", 2, 4, 2, 0, 4, 4, 2, "rajbhandari2020zero", "sec. 3.1", "secondary"),
            Recipe("megatron-bf16", 2, 4, 4, 0, 4, 4, 2, "megatron2024readme", "Distributed Optimizer, row bf16, fp32"),
            Recipe("ultrascale-bf16", 2, 4, 2, 4, 4, 4, 2, "tazi2025ultrascale", "memory for weights, last column"),
            Recipe("fsdp-mixed", 4, 0, 4, 0, 4, 4, 2, "zhao2023fsdp", "sec. 4.4", "secondary"),
            Recipe("fsdp-autocast", 4, 0, 4, 0, 4, 4, 4, "fairscale2021autocast", "description", copy=2),
        )
    }
)


@dataclass(frozen=True)
class Moments:
    """What an optimizer keeps for every parameter beside the master weight, in bytes, and who describes it."""

    name: str
    momentum: float | None  # None: as the recipe of number formats has it
    variance: float | None
    source: str
    where: str

    def of(self, r: Recipe) -> Recipe:
        """The recipe with these states."""
        momentum = r.momentum if self.momentum is None else self.momentum
        variance = r.variance if self.variance is None else self.variance
        return (
            r if (momentum, variance) == (r.momentum, r.variance) else replace(r, momentum=momentum, variance=variance)
        )

    @property
    def saved(self) -> float:
        """Bytes fewer than the eight of Adam's moments in FP32; below zero never."""
        return sum(0.0 if kept is None else 4.0 - kept for kept in (self.momentum, self.variance))


# Optimizers by name. Factors of 8-bit moments are left out. Muon keeps one moment; embedding and head stay with AdamW, whose
# second moment there is left out.
OPTIMIZERS: Mapping[str, Moments] = MappingProxyType(
    {
        m.name: m
        for m in (
            Moments("adamw", None, None, "rajbhandari2020zero", "sec. 3.1"),
            Moments("adamw-bf16", 2.0, 2.0, "deepseek2024v3report", "sec. 3.3.3"),
            Moments("adamw-8bit", 1.0, 1.0, "dettmers20228bit", "abstract"),
            Moments("muon", 4.0, 0.0, "jordan2024muon", "Runtime analysis"),
        )
    }
)


def recipe(name: "str | Recipe") -> Recipe:
    """The recipe of that name; a recipe of your own is passed through.

    >>> recipe("megatron-bf16").bytes_per_parameter
    18
    """
    if isinstance(name, Recipe):
        for part, size in name.components.items():
            if isinstance(size, bool) or not isinstance(size, (int, float)) or not 0 <= size <= 64:
                raise InputError(f"recipe {name.name[:40]!r}: {part} = {size!r} must be a number of bytes in [0, 64]")
        return name
    if not isinstance(name, str) or name not in RECIPES:
        raise unknown_name("recipe", name, RECIPES, "or build a Recipe of your own")
    return RECIPES[name]
