"""A model on devices: formats, parallel degrees, links, and whether it fits."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from mlsysim import catalog, memory, units
from mlsysim._numeric import Num, minimum
from mlsysim.catalog import Cluster, Device, Machines, Model
from mlsysim.efficiencies import DEFAULT, describe, lineage, server_of
from mlsysim.efficiencies.domains import serving_domain
from mlsysim.equations import POSITIVE, Domain, check_argument, is_tracing
from mlsysim.errors import InputError, unknown_name
from mlsysim.inference.counting import work_of
from mlsysim.inference.equations import quantised_bits
from mlsysim.inference.shares import efficiencies_of, half_peak
from mlsysim.inference.wiring import CAPTURED, CARDS, Plans, tensor_plans
from mlsysim.inference.work import Efficiencies, Machine, Split, Work
from mlsysim.intervals import Recentred
from mlsysim.memory import ServerMemory
from mlsysim.memory.quantised import default_precision, served_formats, stored_parts
from mlsysim.parallelism import Plan, placement
from mlsysim.results import CALLER, Explanation, Input, Result, format_rows
from mlsysim.transformer import parameter_count

if TYPE_CHECKING:
    from mlsysim.drawing import Drawing

# Bits of a stored number, the scales of its group included (bits, bits of what a group shares, size of the group).
_FORMATS: Mapping[str, tuple[float, float, float]] = {
    "fp32": (32, 0, 1),
    "bf16": (16, 0, 1),
    "fp16": (16, 0, 1),
    "fp8": (8, 0, 1),
    "int8": (8, 0, 1),
    "int4": (4, 0, 1),
    "fp4": (4, 0, 1),
    "mxfp8": (8, 8, 32),
    "mxfp4": (4, 8, 32),
    "nvfp4": (4, 8, 16),
    "int4-g128": (4, 32, 128),  # a 16-bit scale and a 16-bit zero point per group, as gpt-fast stores them
    "int4-g32": (4, 32, 32),
    "int4-sym-g32": (4, 16, 32),  # a 16-bit scale alone, as Kimi's experts are stored
}
# Number formats that weights, products and caches may have.
FORMATS = tuple(_FORMATS)
BLOCK_TOKENS = 16  # vLLM's default size of a block of cache
LEFT_OUT = "Left out: activations, workspaces, the CUDA context, and what the allocator reserves but cannot use."
_BANDWIDTH = Domain.of(POSITIVE)


def format_bytes(name: str) -> float:
    """Bytes of one stored number of a format, its share of the scales included.

    >>> format_bytes("mxfp4") * 8
    4.25
    """
    if name not in _FORMATS:
        raise unknown_name("number format", name, FORMATS)
    return float(quantised_bits(*_FORMATS[name])) / 8.0


@dataclass(frozen=True)
class Deployment(Result):
    """One replica of a model: where it runs, how it is split, and in which formats. Made by :func:`deploy`."""

    NUMBERS = (
        "model=model.name device=device.name devices tp=split.tp pp=split.pp dp=split.dp ep=split.ep precision weights experts "
        "head kv block_tokens weights_bytes=weight_memory kv_bytes_per_token=token_bytes kv_room_bytes "
        "capacity_bytes=device.usable_memory efficiencies=efficiencies.name"
    )

    model: Model
    device: Device
    work: Work
    split: Split
    machine: Machine
    efficiencies: Efficiencies
    precision: str  # of the matrix products
    weights: str  # of the layers, without their routed experts
    experts: str
    kv: str
    block_tokens: int
    head: str = "bf16"  # embedding too
    server: str = ""  # inference server and version; a current server by default
    origins: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    own: Recentred | None = None  # runs of one's own, which move every time

    @property
    def pace(self) -> float:
        """Time of a pass over what the constants alone say: 1, unless runs of one's own moved it."""
        return 1.0 if self.own is None else self.own.factor

    @cached_property
    def kept(self) -> dict[Any, Any]:
        """Cache of derived objects, such as step models, by their arguments."""
        return {}

    @property
    def _split(self) -> str:
        return ", ".join(f"{n} {v:g}" for n, v in vars(self.split).items() if n in ("tp", "pp", "dp", "ep") and v != 1)

    def summary(self) -> list[str]:
        room, d = self.kv_room, self.device
        weights, have = units.format(self.weight_memory, "byte"), units.format(d.usable_memory, "byte")
        cache = f"{units.format(self.token_bytes, 'byte')} a token over all devices that share it"
        if room > 0:
            fit = f"weights fit: {weights} of {have} on the fullest device, {units.format(room, 'byte')} left for cache"
        else:
            fit = f"THE WEIGHTS DO NOT FIT: {weights} of {have} on the fullest device"
        formats = f"products {self.precision}, weights {self.weights}, experts {self.experts}, "
        called = self.weights if not self.model.is_moe or self.experts == self.weights else f"{self.experts} expert"
        return format_rows(
            f"{self.model.name} on {self.devices} x {d.name}, {called} weights: {fit}",
            ("cache", f"{cache}, in blocks of {self.block_tokens} tokens"),
            ("formats", f"{formats}embedding and head {self.head}, cache {self.kv}"),
            ("split", self._split or "one device"),
            ("efficiencies", f"{self.efficiencies.name}: {self.efficiencies.source}"),
            ("ask it", "inference.prefill, decode_step, generate; serving_steps.step_model; capacity.replica_of"),
        )

    def chart(self) -> "Drawing | None":
        """Memory of the fullest device: weights, and what is left for cache."""
        from mlsysim.drawing import shapes

        row = {"weights": self.weight_memory, "room for cache": max(0.0, self.kv_room)}
        title = f"{self.model.name} on {self.device.name}"
        return shapes.stack(title, {"fullest device": row}, "memory", "byte", (self.device.usable_memory, "capacity"))

    def explain(self) -> Explanation:
        """Memory and rates of a device, with the source of each figure."""
        d, m, s = self.device, self.machine, self.split
        inputs = [
            Input("capacity", d.usable_memory, "byte", d.origin("usable_memory")),
            Input("bytes per weight", s.weight_bytes, "byte", f"{self.weights}, {CALLER}"),
            Input("cache of a token", self.token_bytes, "byte", f"{self.kv}, over all devices that hold a part of it"),
            Input("peak", m.peak_flops, "FLOP/s", d.origin(f"peak_flops.{self.precision}")),
            Input("memory bandwidth", m.memory_bandwidth, "byte/s", d.origin("memory_bandwidth")),
        ]
        if self.devices > 1:
            inputs.append(Input("link", m.intra_bandwidth, "byte/s", self.origins.get("intra_bandwidth", CALLER)))
        return Explanation(self.summary()[0], (), inputs, (self.rates, LEFT_OUT))

    def place(self, phase: str) -> Mapping[str, str]:
        """Where an answer lies, for its range: generation, kind of model, precision and phase.

        >>> deploy("Llama-3.1-8B", "H100").place("decoding")["precision"]
        '16-bit weights, 16-bit products'
        """
        mixture, s = bool(self.model.n_experts), self.split
        bits = 8.0 * (s.expert_bytes if mixture else s.weight_bytes)
        return serving_domain(self.device, mixture, bits, self.precision, phase)

    @property
    def devices(self) -> int:
        return int(self.split.tp * self.split.pp * self.split.dp)

    @property
    def token_bytes(self) -> float:
        """Cache of one token over all layers, on all devices that hold a part of it together (no copies counted).

        For a model with sliding windows this is a token inside the window; with compressed keys, one beyond it.
        """
        return memory.token_cache(self.model, self.split.kv_bytes)

    @property
    def total_weight_bytes(self) -> float:
        """All weights of the model in their formats, each counted once."""
        count, s = parameter_count(self.model), self.split
        rest = count.total - count.experts - count.embedding - count.lm_head
        tables = (count.embedding + count.lm_head) * s.head_bytes
        return float(rest * s.weight_bytes + count.experts * s.expert_bytes + tables)

    @property
    def weight_memory(self) -> float:
        """Weights on the fullest device, bytes."""
        count, s, m = parameter_count(self.model), self.split, self.model
        fullest = -(-m.n_layers // int(s.pp)) / m.n_layers
        rest = count.total - count.experts - count.embedding - count.lm_head
        shards = s.ep * minimum(s.tp, s.tp * s.dp / s.ep)
        # Embedding and head lie at the two ends of a pipeline, together without one or when they are the same table.
        ends = count.embedding + count.lm_head if s.pp == 1 else max(count.embedding, count.lm_head)
        layers = rest * s.weight_bytes / s.tp + count.experts * s.expert_bytes / shards
        return float(fullest * layers + ends * s.head_bytes / s.tp)

    @property
    def rates(self) -> str:
        """The efficiencies behind the times and their source, in a sentence."""
        return describe(self.efficiencies.name, self.efficiencies.source)

    def kv_memory(self, batch: Num, tokens: Num) -> Num:
        """Cache, and the states of recurrences, on the fullest device for a batch over all replicas, in whole blocks of tokens, bytes."""
        s, m = self.split, self.model
        whole = -(-tokens // self.block_tokens) * self.block_tokens
        cache = memory.kv_cache_of(m, batch / s.dp, whole, s.kv_bytes)
        states = memory.state_of(m, batch / s.dp) / s.tp
        return -(-m.n_layers // int(s.pp)) / m.n_layers * (cache / min(s.tp, self.work.kv_shards) + states)

    def memory(self, batch: Num, tokens: Num) -> Num:
        """Weights and cache on the fullest device, bytes."""
        return self.weight_memory + self.kv_memory(batch, tokens)

    def server_memory(self, **options: Any) -> ServerMemory:
        """What a server of this deployment holds on each device: :func:`mlsysim.memory.server_memory` with its split and formats.

        Parameters
        ----------
        **options
            Of the server, as ``max_num_seqs=64`` or ``engine_version="0.11.0"``.

        >>> held = deploy("Qwen3-Next-80B-A3B", "H100", tp=4).server_memory()
        >>> held.block_tokens, held.kv_tokens == held.blocks * held.block_tokens
        (272, True)
        """
        s, key = self.split, ("server memory", *sorted(options.items()))
        if key not in self.kept:
            degrees = {n: int(getattr(s, n)) for n in ("tp", "pp", "dp", "ep")}
            formats = {
                "weights": _as_stored(self.model, self.weights),
                "head": None if self.head == "bf16" else self.head,
            }
            if self.experts != self.weights:
                formats["experts"] = _as_stored(self.model, self.experts)
            self.kept[key] = memory.server_memory(
                self.model,
                self.device,
                kv=self.kv,
                **{**degrees, **formats, "block_tokens": self.block_tokens, **options},
            )
        held: ServerMemory = self.kept[key]
        return held

    def fits(self, batch: Num, tokens: Num) -> Any:
        """Whether weights and cache go into the memory of the fullest device; an array of truths for an array."""
        return self.memory(batch, tokens) <= self.device.usable_memory

    @property
    def kv_room(self) -> float:
        """Bytes that a device has left for cache once its weights are loaded; negative when they do not fit."""
        return self.device.usable_memory - self.weight_memory

    def max_batch(self, tokens: Num) -> Num:
        """Sequences of so many tokens that fit beside the weights, over all replicas; whole, 0 when none does."""
        per_sequence = self.kv_memory(self.split.dp, tokens)
        room = max(0.0, self.kv_room)
        return (room / per_sequence) // 1 * self.split.dp

    def reason(self, batch: float, tokens: float) -> str:
        """Why it fits, or what is in the way, in a sentence."""
        need, have = float(self.memory(batch, tokens)), self.device.usable_memory
        parts = f"weights {units.format(self.weight_memory, 'byte')}, cache {units.format(need - self.weight_memory, 'byte')}"
        verdict = "fits" if need <= have else "does not fit"
        return f"{verdict}: {units.format(need, 'byte')} of {units.format(have, 'byte')} ({parts})"


def _as_stored(model: Model, weights: str) -> str:
    """A format as the checkpoint has it, with its scales: 8 bits in blocks, 4 bits in groups."""
    names = {"fp8": ("fp8", "fp8-block"), "int4-g128": ("int4", "int4-g128")}
    return model.stored if model.stored in names.get(weights, ()) else weights


def _whole(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InputError(f"deploy: {name} = {value!r} must be a whole number of at least 1")


def deploy(
    model: Model | str,
    device: Device | Cluster | Machines | str,
    *,
    tp: int = 1,
    pp: int = 1,
    dp: int = 1,
    ep: int = 1,
    precision: str | None = None,
    weights: str | None = None,
    experts: str | None = None,
    head: str | None = None,
    kv: str = "bf16",
    efficiencies: Efficiencies | str = DEFAULT,
    intra_bandwidth: float | None = None,
    inter_bandwidth: float | None = None,
    domain: int | None = None,
    interleaved: int = 1,
    block_tokens: int = BLOCK_TOKENS,
    server: str = "",
    dispatcher: str = "auto",
) -> Deployment:
    """Put a model on devices of one kind.

    Parameters
    ----------
    model : Model or str
    device : Device, Cluster, Machines or str
        What ``catalog.where`` reads: ``"H100"``; ``"DGX-H100"`` or ``"2 x DGX-H100"``, whose network joins the domains.
    tp, pp, dp : int
        Tensor-, pipeline- and data-parallel degree of one replica; dp splits the batch (and shares the experts).
    ep : int
        Devices that share the experts, made of tensor- and data-parallel ranks: it must divide tp x dp.
    precision : str, optional
        Of the matrix products; the device must list a dense peak for it. Attention and messages stay 16-bit. Without it, and without
        ``weights`` and ``experts``, both are as the checkpoint is served on the device, as :func:`mlsysim.serve` has them.
    weights, experts, head, kv : str
        Number formats as stored, from ``FORMATS``. Weights are in ``precision`` unless given; weight-only
        quantisation has for example ``precision="bf16", weights="int4-g128"``. One name means what published checkpoints
        store in it (``memory.quantised``): embedding and head keep 16 bits, and of a mixture in 4 bits (``nvfp4``, ``mxfp4``,
        ``fp4``, ``int4-sym-g32``) everything but the routed experts. ``experts`` and ``head`` say otherwise: with ``experts``
        given, ``weights`` is that of all else in the layers.
    efficiencies : Efficiencies or str
        What software reaches: ``calibrated`` (default), ``datasheet``, ``bound`` (see ``mlsysim.efficiencies``), or your own.
    intra_bandwidth, inter_bandwidth : float, byte/s, (0, inf), optional
        Link inside a scale-up domain, and between domains, per device and one way.
    domain : int, optional
        Devices of a scale-up domain. It and the links are from the catalogue unless given; the second is needed as soon as the replica leaves one domain. Cards without a
        scale-up link, or joined in pairs, have their link to the host, where the catalogue knows it. All-reduces over
        such links and between domains take the protocols of the library that runs there (:func:`communication.library_time`).
    interleaved : int
        2 when the server runs two micro-batches so that the messages of one hide behind the products of the other.
    block_tokens : int
        Tokens in a block of paged cache.
    server : str
        Whose software runs it, as in ``"vLLM 0.11"`` or ``"FasterTransformer"``: how kernels reach the device. A current server
        unless given; a name that ``mlsysim.efficiencies.servers()`` does not have says itself whether it is eager or captured.

    dispatcher : str
        Copies of a token that leave a domain for its experts: ``per-node``, one to each domain (DeepEP's normal kernels),
        ``per-expert``, one to each expert (its low-latency kernels, an all-to-all of copies), or ``auto``, the first for prompts and
        the second for decode, as SGLang's ``--deepep-mode auto``.

    Raises
    ------
    InputError, UnknownNameError
        A degree that does not divide the model, a missing link, an unknown name.

    >>> deploy("Llama-3.1-70B", "H100", tp=8).devices
    8
    """
    m, machines = catalog.model(model), catalog.where(device)
    if precision is None:
        if weights is None and experts is None:
            usual = served_formats(m, machines.device)
            precision, weights, experts = usual.precision, usual.weights, usual.experts
        else:
            precision = default_precision(machines.device)
    given = (tp, pp, dp, ep, precision, weights, experts, head, kv, efficiencies)
    more = (intra_bandwidth, inter_bandwidth, domain, interleaved, block_tokens, dispatcher)
    if machines.cluster is not None or server or is_tracing() or any(type(x) not in _PLAIN for x in (*given, *more)):
        return _deploy(m, machines, *given, *more, server)
    key = (id(m), id(machines.device), machines.count, *given, *more)
    if key not in _known:
        made = _deploy(m, machines, *given, *more, server)
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        _known[key] = m, machines.device, made  # with what its key names, so that no other object takes that place
    return _known[key][2]


_DISPATCHERS = {"auto": -1.0, "per-node": 0.0, "per-expert": 1.0}
_PLAIN = (str, int, float, type(None))
_MOST_KNOWN = 64
_known: dict[tuple[Any, ...], tuple[Model, Device, Deployment]] = {}  # a slider asks for the same one again and again


def _check(m: Model, machines: Machines, counts: Mapping[str, int], experts: str | None, dispatcher: str) -> None:
    """Raise an InputError for what cannot split the model, or needs more devices than there are."""
    for name, value in counts.items():
        _whole(name, value)
    tp, pp, dp, ep = (counts[name] for name in ("tp", "pp", "dp", "ep"))
    if dispatcher not in _DISPATCHERS:
        raise unknown_name("dispatcher", dispatcher, _DISPATCHERS)
    if (tp * dp) % ep:
        raise InputError(f"deploy: ep = {ep} must divide tp x dp = {tp * dp}, whose ranks share the experts")
    if ep > 1 and (not m.is_moe or m.n_experts % ep):
        raise InputError(f"deploy: ep = {ep} must divide the {m.n_experts} experts of {m.name}; use 1 without experts")
    Plan(tp=tp, pp=pp).check(m)
    if experts is not None and not m.is_moe:
        raise InputError(
            f"deploy: experts = {experts[:40]!r} is a format of routed experts, and {m.name} has none; leave it out, or give weights"
        )
    replica = tp * pp * dp
    if machines.count is not None and replica > machines.count:
        raise InputError(
            f"deploy: tp x pp x dp = {replica} devices, and {machines} have {machines.count}; take fewer, or more of them"
        )


def _links(
    machines: Machines, replica: int, intra: float | None, inter: float | None, domain: int | None
) -> tuple[int, float | None, float | None, bool, dict[str, str]]:
    """Devices of a domain, the links inside and between them, whether those are the host's slots, and whence they are known."""
    d, nodes = machines.device, machines.cluster
    size = domain
    if size is None:
        size = nodes.domain if nodes is not None else d.scale_up_domain if d.has("scale_up_domain") else 1
    for name, given in (("intra_bandwidth", intra), ("inter_bandwidth", inter)):
        if given is not None:
            check_argument("deploy", name, given, "byte/s", _BANDWIDTH)
    origins, slots = {"inter_bandwidth": "given by the caller"}, False
    if replica > size and inter is None:
        if nodes is not None:
            inter = nodes.node.scale_out_bandwidth
            origins["inter_bandwidth"] = f"{nodes.node.nics} x {nodes.node.scale_out.name} of {nodes.node.name}"
        elif size < CARDS and d.has("host_bandwidth"):
            inter, slots = d.host_bandwidth, True
            origins["inter_bandwidth"] = f"the link to the host: {d.origin('host_bandwidth')}"
        else:
            raise InputError(catalog.no_link("deploy", d, f"{replica} devices", size))
    if intra is None and replica > 1 and size > 1:
        intra = d.scale_up_bandwidth
        origins["intra_bandwidth"] = d.origin("scale_up_bandwidth")
    return size, intra, inter if inter is not None else intra, slots, origins


def _deploy(
    m: Model,
    machines: Machines,
    tp: int,
    pp: int,
    dp: int,
    ep: int,
    precision: str,
    weights: str | None,
    experts: str | None,
    head: str | None,
    kv: str,
    efficiencies: Efficiencies | str,
    intra_bandwidth: float | None,
    inter_bandwidth: float | None,
    domain: int | None,
    interleaved: int,
    block_tokens: int,
    dispatcher: str,
    server: str,
) -> Deployment:
    d, nodes = machines.device, machines.cluster
    degrees = {"tp": tp, "pp": pp, "dp": dp, "ep": ep}
    _check(m, machines, degrees | {"interleaved": interleaved, "block_tokens": block_tokens}, experts, dispatcher)
    stored = stored_parts(precision if weights is None else weights, m.is_moe, experts=experts, head=head)
    size, intra, inter, slots, origins = _links(machines, tp * pp * dp, intra_bandwidth, inter_bandwidth, domain)
    lies = placement(Plan(tp=tp, pp=pp, dp=dp), size)
    tp_inside = int(lies.inside["tp"])
    ep_room = int(lies.inside["tp"] * lies.inside["dp"])
    unused = d.memory_bandwidth  # of links that a single device has none of; they carry nothing
    reached = efficiencies_of(d, precision, efficiencies, server)
    own = server_of(server)
    plans: Plans = ()
    if tp > 1 and (inter or intra):
        near, inside = (inter, min(tp, CARDS)) if slots else (intra or inter, tp_inside)
        plans = tensor_plans(
            lineage(d), tp, inside, near or unused, inter or unused, reached.name, captured=own.decode in CAPTURED,
            link=nodes.node.scale_up if nodes is not None else None,
            network=nodes.node.scale_out if nodes is not None else None,
            device=d.name,
        )  # fmt: skip
    return Deployment(
        model=m,
        device=d,
        work=work_of(m),
        split=Split(
            tp=float(tp),
            pp=float(pp),
            dp=float(dp),
            ep=float(ep),
            weight_bytes=format_bytes(stored.layers),
            expert_bytes=format_bytes(stored.experts),
            head_bytes=format_bytes(stored.head),
            kv_bytes=format_bytes(kv),
            dispatch_bytes=min(2.0, format_bytes(precision)),
            interleaved=float(interleaved),
            micro_tokens=own.micro_tokens,
            every_copy=_DISPATCHERS[dispatcher],
        ),
        machine=Machine(
            peak_flops=d.peak_flops[precision],
            half_peak_flops=half_peak(d, precision),
            memory_bandwidth=d.memory_bandwidth,
            intra_bandwidth=intra or unused,
            inter_bandwidth=inter or unused,
            tp_inside=float(tp_inside),
            ep_inside=float(min(ep, ep_room)),
            pp_bandwidth=(inter if lies.leaves["pp"] else intra) or unused,
            plans=plans,
        ),
        efficiencies=reached,
        precision=precision,
        weights=stored.layers,
        experts=stored.experts,
        kv=kv,
        block_tokens=block_tokens,
        head=stored.head,
        server=server,
        origins=MappingProxyType(origins),
    )
