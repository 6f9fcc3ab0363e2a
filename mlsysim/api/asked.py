"""What a question to ``serve`` or ``simulate`` is about: a model, its number formats, and where it runs."""

from dataclasses import dataclass, fields, replace
from typing import Any

from mlsysim import catalog, inference
from mlsysim.api.arguments import Defaults
from mlsysim.api.targets import SLO
from mlsysim.capacity.pace import LENGTH_VARIATION as LENGTH_VARIATION
from mlsysim.catalog import Device, Machines, Model
from mlsysim.efficiencies import DEFAULT
from mlsysim.inference import Deployment, format_bytes
from mlsysim.intervals import ALIKE, APART, MOVED, Recentred
from mlsysim.memory.quantised import WIDE, Formats, default_precision, experts_alone, served_formats
from mlsysim.results import Result

_WORDS = {ALIKE: "", APART: " of another kind or format", MOVED: " of another device"}


@dataclass(frozen=True)
class Own(Result):
    """What runs of one's own say of a question."""

    recentred: Recentred
    kin: str  # ALIKE, APART or MOVED
    points: tuple[str, ...]  # each in words

    @property
    def text(self) -> str:
        """What was measured, how much of it counts, and what that does, in a sentence."""
        r = self.recentred
        return (
            f"yours{_WORDS[self.kin]}: {'; '.join(self.points)}; {r.weight:.0%} of that counts here: times x{r.factor:.3f}, "
            f"range narrower by {1.0 - r.narrower:.0%}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for JSON."""
        r = self.recentred
        return {
            "points": list(self.points), "kin": self.kin, "log_error": r.error, "common": r.common, "weight": r.weight, "factor": r.factor,
            "narrower": r.narrower,
        }  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Asked(Formats):
    """What ``serve`` and ``simulate`` have in common: a model in its formats, on machines, with its software."""

    model: Model
    machines: Machines
    slo: SLO | None = None
    ep: int = 1
    efficiencies: Any = DEFAULT  # one of the words, or rates of one's own
    inter_bandwidth: float | None = None
    server: str = ""
    own: Own | None = None  # what runs of the caller's own say

    @property
    def device(self) -> Device:
        return self.machines.device

    def deployed(self, tp: int, *, model: Model | str | None = None, **more: Any) -> Deployment:
        """The model, or another one, split so on the same machines."""
        asked: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(Formats)}
        asked |= {"ep": self.ep, "inter_bandwidth": self.inter_bandwidth, "server": self.server}
        found = inference.deploy(model or self.model, self.machines, tp=tp, **asked, **more)
        return found if self.own is None else replace(found, own=self.own.recentred)


def networked(machines: Machines, taken: Defaults) -> Machines:
    """The same devices in catalogue nodes, if they do not all share a domain and no network is given."""
    if machines.node is not None or machines.count is None or machines.count <= machines.domain:
        return machines
    for node in catalog.nodes_with(machines.device):
        if machines.count % node.devices == 0:
            taken.add(f"the network of {machines.count // node.devices} x {node.name}")
            return replace(machines, node=node)
    return machines


def formats_of(
    model: Model,
    device: Device,
    precision: str | None,
    weights: str | None,
    taken: Defaults,
    experts: str | None = None,
) -> Formats:
    """The given formats; by default those in which the checkpoint is served on the device, else 16 bits.

    A checkpoint in FP8 runs in FP8 where the device multiplies in it, and is kept so and multiplied in 16 bits elsewhere; one in
    NVFP4, and a mixture in MXFP4, run in FP4 where the device does. Other four-bit checkpoints keep their weights so (mixtures those
    of their experts) and multiply in 16 bits. Experts that have a format of their own keep it. A device that lists no peak in 16 bits multiplies in 32, from 16-bit weights. With
    ``precision`` alone the weights stay as published where they have fewer bits, and are as the products elsewhere; to say what is
    assumed anyway changes nothing. With ``experts`` given all else stays as it would be without.

    >>> from mlsysim import catalog
    >>> h200, b200, a100 = (catalog.device(name) for name in ("H200", "B200", "A100"))
    >>> formats_of(catalog.model("DeepSeek-R1"), h200, None, None, Defaults())
    Formats(precision='fp8', weights=None, experts=None, head=None, kv='bf16')
    >>> formats_of(catalog.model("DeepSeek-R1"), a100, None, None, Defaults()).precision
    'bf16'
    >>> formats_of(catalog.model("gpt-oss-120B"), h200, None, None, Defaults())
    Formats(precision='bf16', weights='bf16', experts='mxfp4', head=None, kv='bf16')
    >>> formats_of(catalog.model("gpt-oss-120B"), b200, None, None, Defaults())
    Formats(precision='fp4', weights='mxfp4', experts=None, head=None, kv='bf16')
    """
    if experts is not None:
        rest = formats_of(model, device, precision, weights, Defaults())
        taken.resolve("precision", precision, rest.precision)
        if not rest.experts and experts_alone(rest.weights or rest.precision, model.is_moe):
            rest = replace(rest, weights=WIDE)
        return replace(rest, experts=experts)
    usual = served_formats(model, device)
    same = None if usual.experts else usual.weights or usual.precision
    if precision in (None, usual.precision) and weights in (None, same):
        said = {
            "precision": (precision, usual.precision),
            "weights": (weights, usual.weights),
            "experts": (None, usual.experts),
        }
        if usual.experts or usual.precision == usual.weights:
            del said["weights"]  # as wide as the products
        missing = [(name, value) for name, (given, value) in said.items() if given is None and value is not None]
        for name, value in missing:
            taken.option(name, value, AS_PUBLISHED if model.stored and name == missing[-1][0] else "")
        return usual
    if weights is not None or precision is None:
        return Formats(taken.resolve("precision", precision, default_precision(device)), weights)
    kept = usual.experts or usual.weights or usual.precision
    if format_bytes(kept) >= format_bytes(precision):
        return Formats(precision)
    taken.option("experts" if usual.experts else "weights", kept, AS_PUBLISHED)
    return replace(usual, precision=precision, weights=usual.weights or usual.precision)


AS_PUBLISHED = "as the checkpoint is published"
