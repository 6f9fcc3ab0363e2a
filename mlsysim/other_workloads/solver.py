"""Time and bound of a batch of images, of a picture by diffusion, of a batch of recommendations."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlsysim import catalog, collectives
from mlsysim.catalog import Convnet, Device
from mlsysim.catalog.other_models import DiffusionUNet, PatchTransformer, Recommender, diffusion_unet, diffusion_unets
from mlsysim.errors import InputError, UnknownNameError, unknown_name
from mlsysim.other_workloads.equations import denoising_flops, denoising_time, gathered_bytes, pooled_exchange
from mlsysim.results import (
    CALLER,
    Explanation,
    Input,
    Result,
    Term,
    fit_note,
    format_rows,
    format_value,
    share,
    top_shares,
)
from mlsysim.roofline import arithmetic_intensity, iron_law, ridge_point

if TYPE_CHECKING:
    from mlsysim.drawing import Drawing


@dataclass(frozen=True)
class Phase(Result):
    """A part of the work: what it does, what it moves, how long it takes by the iron law, and which clock decides."""

    NUMBERS = "name flops bytes time_s bound"

    name: str
    flops: float
    bytes: float  # of memory, or of the link
    time: float
    bound: str  # "compute", "memory", "network", or "given"
    label: str  # of the equation that made the time
    arguments: Mapping[str, float]

    @property
    def intensity(self) -> float:
        """FLOP per byte; none where nothing is moved."""
        return float(arithmetic_intensity(self.flops, self.bytes)) if self.bytes else float("inf")

    def summary(self) -> list[str]:
        worked = f"{format_value(self.flops, 'FLOP')}, {format_value(self.bytes, 'byte')}" if self.bytes else ""
        return format_rows(
            f"{self.name}: {format_value(self.time, 's')}, {self.bound}-bound",
            ("work", worked),
            ("intensity", format_value(self.intensity, "FLOP/byte") if self.bytes else ""),
        )

    def explain(self) -> Explanation:
        """The equation with the numbers in it."""
        return Explanation(self.summary()[0], (Term(self.name, self.time, self.label, self.arguments),), ())


@dataclass(frozen=True)
class PhasedTime(Result):
    """What the three solvers of this room return: phases one after the other, on one device of those that take part."""

    NUMBERS = (
        "what device=device.name devices precision batch time_s rate_per_s bound peak_fraction held_bytes fits phases"
    )

    what: str
    device: Device
    precision: str
    batch: float  # images, pictures or samples of this device
    devices: int
    efficiency: float
    memory_efficiency: float
    phases: tuple[Phase, ...]
    held: float  # bytes on each device: weights and tables
    terms: tuple[Term, ...] = ()  # of equations that stand behind the phases

    @property
    def time(self) -> float:
        """Seconds of the batch: the phases wait for each other."""
        return sum(p.time for p in self.phases)

    @property
    def rate(self) -> float:
        """Images, pictures or samples per second, of all devices together."""
        return self.devices * self.batch / self.time

    @property
    def flops(self) -> float:
        return sum(p.flops for p in self.phases)

    @property
    def peak_fraction(self) -> float:
        """FLOP/s over the whole time, as a share of the dense peak: the utilisation (MFU) of the bound."""
        return self.flops / self.time / self.device.peak_flops[self.precision]

    @property
    def fits(self) -> bool:
        """Whether weights and tables have room on a device; what a batch needs beside them is not counted."""
        return bool(self.held <= self.device.usable_memory)

    @property
    def bound(self) -> str:
        """The clock that runs longest, over all phases."""
        clocks: dict[str, float] = {}
        for p in self.phases:
            clocks[p.bound] = clocks.get(p.bound, 0.0) + p.time
        return max(clocks, key=lambda name: clocks[name])

    def _parts(self) -> dict[str, float]:
        """Seconds by the first word of a phase, so that the convolutions of a stage stand together."""
        parts: dict[str, float] = {}
        for p in self.phases:
            name = p.name.partition(":")[0]
            parts[name] = parts.get(name, 0.0) + p.time
        return parts

    def summary(self) -> list[str]:
        together = f" on {self.devices} devices" if self.devices > 1 else ""
        return format_rows(
            f"{self.what}, {self.batch:,.6g} on {self.device.name}, {self.precision}: {format_value(self.time, 's')}, "
            f"{self.bound}-bound{fit_note(self.fits)}",
            ("phases", top_shares(self._parts(), 8)),
            ("rate", f"{self.rate:,.4g} per second{together}"),
            ("reached", f"{share(self.peak_fraction)} of the dense peak"),
            ("held", f"{format_value(self.held, 'byte')} on each device"),
        )

    def chart(self) -> "Drawing | None":
        """The phases as bars."""
        from mlsysim.drawing import shapes

        return shapes.terms(self.what, self._parts())

    def explain(self) -> Explanation:
        """Every phase with its equation, the numbers in it, and the source of each rate."""
        longest = max(self.phases, key=lambda p: p.time)
        terms = [Term(p.name, p.time, p.label, p.arguments, p is longest) for p in self.phases]
        device = self.device
        return Explanation(
            self.summary()[0],
            (*self.terms, *terms),
            (
                Input(
                    "peak_flops",
                    device.peak_flops[self.precision],
                    "FLOP/s",
                    device.origin(f"peak_flops.{self.precision}"),
                ),
                Input("memory_bandwidth", device.memory_bandwidth, "byte/s", device.origin("memory_bandwidth")),
                Input("efficiency", self.efficiency, "1", _describe(self.efficiency)),
                Input("memory_efficiency", self.memory_efficiency, "1", _describe(self.memory_efficiency)),
            ),
        )


def _describe(efficiency: float) -> str:
    return "default: the bound" if efficiency == 1.0 else CALLER


@dataclass(frozen=True)
class _Machine:
    """A device at the rates that are reached."""

    device: Device
    precision: str
    efficiency: float
    memory_efficiency: float

    @property
    def rates(self) -> dict[str, float]:
        return {
            "peak_flops": self.device.peak_flops[self.precision],
            "memory_bandwidth": self.memory_efficiency * self.device.memory_bandwidth,
            "efficiency": self.efficiency,
        }

    @property
    def ridge(self) -> float:
        rates = self.rates
        return float(ridge_point(rates["peak_flops"] * self.efficiency, rates["memory_bandwidth"]))

    def phase(self, name: str, flops: float, moved: float) -> Phase:
        given = {"flops": float(flops), "bytes": float(moved), **self.rates}
        bound = "compute" if flops > self.ridge * moved else "memory"
        return Phase(name, given["flops"], given["bytes"], float(iron_law(**given)), bound, "eq-iron-law", given)


def _machine(device: Device | str, precision: str, efficiency: float, memory_efficiency: float) -> _Machine:
    for name, value in (("efficiency", efficiency), ("memory_efficiency", memory_efficiency)):
        if not 0 < value <= 1:
            raise InputError(f"{name} = {value} must lie in (0, 1]; 1 gives the bound")
    return _Machine(catalog.device(device), precision, efficiency, memory_efficiency)


def _whole(name: str, value: float) -> float:
    if not (value >= 1 and value == int(value)):
        raise InputError(f"{name} = {value} must be a whole number, at least 1")
    return value


def _transformer(model: PatchTransformer, images: float, element_bytes: float, machine: _Machine) -> Iterator[Phase]:
    """Attention and matrices of one pass; each kernel reads what goes in and writes what comes out."""
    tokens, h = model.tokens * images, model.hidden
    attention = 2.0 * model.layers * 2 * tokens * model.tokens * h
    yield machine.phase("attention", attention, element_bytes * model.layers * 4 * h * tokens)
    beside = element_bytes * model.layers * (8 * h + 2 * model.ffn) * tokens
    yield machine.phase("matrices", 2.0 * images * model.macs - attention, element_bytes * model.parameters + beside)


def _unet(model: DiffusionUNet, images: float, element_bytes: float, machine: _Machine) -> Iterator[Phase]:
    """Attention, and convolutions and matrices, of one pass; each kernel reads what goes in and writes what comes out."""
    attention, moved, beside = 0.0, 0.0, 0.0
    for part in model.parts():
        if part.kind == "attention":
            attention += 2.0 * images * part.macs
            moved += 2 * images * (part.positions + part.came) * part.outputs
        else:
            beside += images * (part.came * part.inputs + part.positions * part.outputs)
    yield machine.phase("attention", attention, element_bytes * moved)
    rest = 2.0 * images * model.macs - attention
    yield machine.phase("convolutions and matrices", rest, element_bytes * (model.parameters + beside))


def _convnet(model: Convnet, images: float, element_bytes: float, machine: _Machine, fused: bool) -> Iterator[Phase]:
    """Every convolution by itself: an early one has large images and few channels, a late one the reverse."""
    before = {"stem": model.image, "project": 0}
    size = model.image
    for c in model.convolutions():
        stage = "stem" if c.name == "stem" else f"stage {int(c.name.partition('.')[0]) + 1}"
        last = c.name.rpartition(".")[2]
        if last == "conv1":
            before["project"] = size  # a projection reads what the first convolution of its block read
        came = before["project"] if last == "project" else size
        arriving, leaving = images * c.inputs * came**2, images * c.outputs * c.size**2
        weights = c.kernel**2 * c.inputs * c.outputs
        flops = 2.0 * weights * images * c.size**2
        yield machine.phase(f"{stage}: {c.name}", flops, element_bytes * (arriving + weights + leaving))
        if not fused:  # a norm, and an activation, that each read and write what the convolution wrote
            yield machine.phase(f"norms: {c.name}", 0.0, element_bytes * 4 * leaving)
        if last != "project":
            size = -(-c.size // 2) if c.name == "stem" else c.size
    weights = model.features * model.classes
    yield machine.phase("classifier", 2.0 * images * weights, element_bytes * (weights + images * model.features))


def vision_batch(
    model: PatchTransformer | Convnet | str,
    device: Device | str,
    batch: float = 1,
    precision: str = "bf16",
    element_bytes: float = 2.0,
    efficiency: float = 1.0,
    memory_efficiency: float = 1.0,
    fused: bool = True,
) -> PhasedTime:
    """Time of a forward pass over a batch of images, and what bounds it.

    Formula: eq-iron-law, for attention and matrices of a transformer, for every convolution of a convnet; the times add up.

    Parameters
    ----------
    model : PatchTransformer, Convnet or str
        A vision transformer or a convnet, or its name.
    device : Device or str
        A catalogue entry or its name.
    batch : float, 1
        Images, a whole number.
    precision : str
        Of the arithmetic; the device must list a dense peak for it.
    element_bytes : float, byte
        Of a weight and of an activation.
    efficiency, memory_efficiency : float, 1
        Shares of the two rates that are reached, in (0, 1]; 1 gives the bound.
    fused : bool
        Whether norms and activations of a convnet run inside the convolutions before them.

    Returns
    -------
    PhasedTime
        With ``time``, ``rate``, ``bound``, ``peak_fraction`` and ``explain()``.

    Raises
    ------
    InputError, UnknownNameError
        A value out of range; an unknown model or device; a precision that the device does not list.

    Assumptions: each kernel reads its input and its weights once and writes its result once; nothing stays in a cache from one
    to the next; images are there already.

    >>> vision_batch("ViT-L/16", "H100", batch=256).bound, vision_batch("resnet50", "H100", batch=256).bound
    ('compute', 'memory')

    Source: williams2009roofline, sec. 3.
    """
    machine = _machine(device, precision, efficiency, memory_efficiency)
    images = _whole("batch", batch)
    entry = _vision_model(model) if isinstance(model, str) else model
    if isinstance(entry, Convnet):
        phases = tuple(_convnet(entry, images, element_bytes, machine, fused))
    else:
        phases = tuple(_transformer(entry, images, element_bytes, machine))
    held = element_bytes * entry.parameters
    rates = (efficiency, memory_efficiency)
    return PhasedTime(entry.name, machine.device, precision, images, 1, *rates, phases, held)


def _vision_model(name: str) -> PatchTransformer | Convnet:
    try:
        return catalog.patch_transformer(name)
    except UnknownNameError:
        return catalog.convnet(name)


def _denoiser(name: str) -> PatchTransformer | DiffusionUNet:
    known = (*catalog.patch_transformers(), *diffusion_unets())
    for find in (catalog.patch_transformer, diffusion_unet):
        try:
            return find(name)
        except UnknownNameError:
            continue
    raise unknown_name("diffusion model", name, known)


def diffusion_image(
    model: PatchTransformer | DiffusionUNet | str,
    device: Device | str,
    steps: float = 50,
    guidance: bool = True,
    batch: float = 1,
    once_time: float = 0.0,
    precision: str = "bf16",
    element_bytes: float = 2.0,
    efficiency: float = 1.0,
    memory_efficiency: float = 1.0,
) -> PhasedTime:
    """Time until a batch of pictures is made by a diffusion transformer or a U-Net, and what bounds it.

    Formula: eq-denoising-time.

    Parameters
    ----------
    model : PatchTransformer, DiffusionUNet or str
        A diffusion transformer, a U-Net, or its name.
    device : Device or str
        A catalogue entry or its name.
    steps : float, 1
        Steps of denoising, a whole number.
    guidance : bool
        Whether every step runs a second pass without the prompt (classifier-free guidance).
    batch : float, 1
        Pictures that are made together, a whole number.
    once_time : float, s
        What is done once for the batch: the prompt is read, the latent is decoded to pixels. It is not part of this model.
    precision : str
        Of the arithmetic; the device must list a dense peak for it.
    element_bytes : float, byte
        Of a weight and of an activation.
    efficiency, memory_efficiency : float, 1
        Shares of the two rates that are reached, in (0, 1]; 1 gives the bound.

    Returns
    -------
    PhasedTime
        With ``time``, ``rate``, ``bound``, ``peak_fraction`` and ``explain()``.

    Raises
    ------
    InputError, UnknownNameError
        A value out of range; a model that is no diffusion transformer; a precision that the device does not list.

    Assumptions: all steps alike, one after the other; attention and matrices overlap with what they move.

    >>> made = diffusion_image("DiT-XL/2-512", "H100", steps=50)
    >>> made.bound, round(made.time, 3)
    ('compute', 0.106)

    Source: peebles2023dit, sample.py.
    """
    machine = _machine(device, precision, efficiency, memory_efficiency)
    entry = _denoiser(model) if isinstance(model, str) else model
    if isinstance(entry, PatchTransformer) and entry.kind != "dit":
        raise InputError(f"model = {entry.name!r} is no diffusion transformer; vision_batch takes it")
    together, passes = _whole("batch", batch), 2.0 if guidance else 1.0
    made = (together * passes, element_bytes, machine)
    one = list(_transformer(entry, *made) if isinstance(entry, PatchTransformer) else _unet(entry, *made))
    pass_flops = 2.0 * entry.macs
    given: dict[str, float] = {
        "steps": _whole("steps", steps),
        "pass_flops": pass_flops,
        "pass_bytes": sum(p.bytes for p in one),
        "passes": passes,
        "batch": together,
        **machine.rates,
    }
    in_steps = float(denoising_time(**given))
    flops = float(steps * together * passes * pass_flops)
    bound = "compute" if sum(p.flops for p in one) > machine.ridge * given["pass_bytes"] else "memory"
    phases = [Phase("denoising", flops, steps * given["pass_bytes"], in_steps, bound, "eq-denoising-time", given)]
    if once_time:
        nothing = {**given, "steps": 0.0, "once_time": once_time}
        phases.append(Phase("once", 0.0, 0.0, once_time, "given", "eq-denoising-time", nothing))
    one_picture = {"steps": steps, "pass_flops": pass_flops, "passes": passes}
    term = Term("FLOPs of a picture", denoising_flops(**one_picture), "eq-denoising-flops", one_picture)
    held = element_bytes * entry.parameters
    rates = (efficiency, memory_efficiency)
    return PhasedTime(entry.name, machine.device, precision, together, 1, *rates, tuple(phases), held, (term,))


def recommendation_batch(
    model: Recommender | str,
    device: Device | str,
    batch: float = 8192,
    devices: int = 1,
    bandwidth: float = 0.0,
    row_element_bytes: float = 4.0,
    precision: str = "bf16",
    element_bytes: float = 2.0,
    efficiency: float = 1.0,
    memory_efficiency: float = 1.0,
) -> PhasedTime:
    """Time of a forward pass over a batch of samples with tables spread over devices, and what bounds it.

    Formula: gathering by eq-gathered-bytes, exchange by eq-all-to-all, MLPs and crossings by eq-iron-law; the times add up.

    Parameters
    ----------
    model : Recommender or str
        A recommendation model or its name.
    device : Device or str
        A catalogue entry or its name.
    batch : float, 1
        Samples of each device, a whole number.
    devices : int, 1
        Devices that share the tables evenly; each works on samples of its own.
    bandwidth : float, byte/s
        What one device can send, one way; needed with several devices.
    row_element_bytes : float, byte
        Of a number in a table, and of what is exchanged.
    precision : str
        Of the arithmetic; the device must list a dense peak for it.
    element_bytes : float, byte
        Of a weight and an activation in the MLPs and crossings.
    efficiency, memory_efficiency : float, 1
        Shares of the two rates that are reached, in (0, 1]; 1 gives the bound.

    Returns
    -------
    PhasedTime
        With ``time``, ``rate``, ``bound``, ``fits``, ``peak_fraction`` and ``explain()``.

    Raises
    ------
    InputError, UnknownNameError
        A value out of range; several devices without a bandwidth; a precision that the device does not list.

    Assumptions: look-ups spread evenly over the devices; every row comes from memory; no phase hides another; samples are
    there already.

    >>> recommendation_batch("DLRM", "H100", batch=8192, devices=8, bandwidth=450e9).fits
    True

    Source: naumov2019dlrm, dlrm_s_pytorch.py, parallel_forward.
    """
    machine = _machine(device, precision, efficiency, memory_efficiency)
    entry = catalog.recommender(model) if isinstance(model, str) else model
    samples, ranks = _whole("batch", batch), int(_whole("devices", devices))
    if ranks > 1 and not bandwidth > 0:
        raise InputError(
            f"bandwidth = {bandwidth} must be greater than zero with devices = {ranks}: what one of them sends"
        )
    row = entry.width * row_element_bytes
    rows = {"batch": samples, "lookups": float(sum(entry.pooled)), "row_bytes": row}
    pooled = {"batch": samples, "tables": float(len(entry.tables)), "row_bytes": row, "ranks": float(ranks)}
    gathered = float(gathered_bytes(**rows))
    added = samples * (sum(entry.pooled) - len(entry.tables)) * entry.width  # the rows of one table are added up
    phases = [machine.phase("gathering", added, gathered)]
    terms = [Term("gathered bytes", gathered, "eq-gathered-bytes", rows)]
    if ranks > 1:
        sent = float(pooled_exchange(**pooled))
        message = {"bytes": samples * len(entry.tables) * row, "ranks": float(ranks), "bandwidth": bandwidth}
        taken = float(collectives.all_to_all(**message))
        phases.append(Phase("exchange", 0.0, sent, taken, "network", "eq-all-to-all", message))
        terms.append(Term("bytes sent", sent, "eq-pooled-exchange", pooled))
    weights = entry.parameters - entry.table_parameters
    beside = samples * sum(a + b for a, b in entry.products)
    phases.append(machine.phase("products", 2.0 * samples * entry.macs, element_bytes * (weights + beside)))
    held = row_element_bytes * entry.table_parameters / ranks + element_bytes * weights
    rates = (efficiency, memory_efficiency)
    return PhasedTime(entry.name, machine.device, precision, samples, ranks, *rates, tuple(phases), held, tuple(terms))
