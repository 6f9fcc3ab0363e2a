"""The structures of a training step that were ever weighed against each other, each as a set of words, and their fit.

A structure says which constants are fitted, which terms are counted, and how the fit weighs errors. ``training_step.fit`` is
that of :data:`SHIPPED`; the others are here so that a choice among them can be judged (``scoring.nested``).
"""

import dataclasses
from collections.abc import Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any

from mlsysim import training
from mlsysim.efficiencies import kernel_shares, measured_share
from mlsysim.evidence.predictors.base import Row
from mlsysim.evidence.predictors.training_rows import CHUNK, Step, step_of
from mlsysim.training import Efficiencies, cast_bytes
from mlsysim.training.shares import (
    ARRAY,
    ATTENTION_BACKWARD,
    JOINED,
    LOSS_PASSES,
    STARTED,
    TILE,
    TPU,
    attention_shares,
    counted_software,
    cp_times,
    product_kernel,
)

ANY, FUSED = "any", "fused kernels"
SOFTWARE = "software"
ALONE = "as kernels alone"  # times what a step keeps of it
# Devices that every framework has kernels of attention for; others of NVIDIA's only where its library runs the whole step.
_FUSED_EVERYWHERE = ("Ampere", TPU)
# Physical range of every constant that some structure fits, and where its fit starts.
RANGES: Mapping[str, tuple[float, float, float]] = MappingProxyType(
    {
        "in_step": (0.4, 1.0, 0.85),
        "gemm": (0.2, 0.95, 0.62),
        "attention": (0.1, 0.9, 0.4),
        "layer_overhead": (1e-6, 1e-3, 1e-4),
        "expert_overhead": (1e-5, 4e-4, 2e-4),
        "variation": (0.0, 0.05, 0.01),
        "elementwise": (1.0, 120.0, 34.0),
        "casts": (0.1, 4.0, 1.0),
        "narrow": (0.6, 1.4, 1.0),
        "sharded": (0.6, 1.4, 1.0),
        "tp_overlap": (0.0, 1.0, 0.3),
        "busiest": (1.0, 2.0, 1.1),
    }
)


@dataclasses.dataclass(frozen=True)
class Structure:
    """One way to predict a step; each field is one of its :data:`ALTERNATIVES`, the plainest unless given."""

    products: str = "one share"
    attention: str = "one share"
    layer_start: str = "none"
    expert_start: str = "none"
    variation: str = "none"
    contention: str = "none"
    links: str = "printed"
    traffic: str = "none"
    written: str = "hidden"
    loss: str = "none"
    casts: str = "none"
    narrow: str = "as others"
    tiles: str = "none"
    power: str = "ignored"
    skipped: str = "nothing"
    messages: str = "wait"
    gradients: str = "wait"
    recompute: str = "none"
    chunk: str = "2 layers"
    experts: str = "alike"
    selective: str = "attention alone"
    errors: str = "linear from 10 %"

    def moves(self) -> list["Structure"]:
        """Every structure that differs in one word."""
        return [
            dataclasses.replace(self, **{name: word})
            for name, words in ALTERNATIVES.items()
            for word in words
            if word != getattr(self, name)
        ]

    def words(self, since: "Structure | None" = None) -> list[str]:
        """What it says otherwise than another one, or than the plainest."""
        before = since or Structure()
        return [f"{n}: {w}" for n in ALTERNATIVES if (w := getattr(self, n)) != getattr(before, n)]


# Of each part of a step the ways that were tried, the plainest first.
ALTERNATIVES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "products": ("one share", "TPUs apart", "TPUs and sharded weights apart", ALONE),
        "attention": ("one share", "maker's library apart", ALONE),
        "layer_start": ("none", "fitted", "counted"),
        "expert_start": ("none", "fitted"),
        "variation": ("none", "fitted"),
        "contention": ("none", "whole"),
        "links": ("printed", "planned"),
        "traffic": ("none", "counted", "fitted"),
        "written": ("hidden", "counted"),
        "loss": ("none", "counted"),
        "casts": ("none", "counted", "fitted"),
        "narrow": ("as others", "share of its own"),
        "tiles": ("none", "counted"),
        "power": ("ignored", "sets the clock", "sets the clock, its root"),
        "skipped": ("nothing", "last product", "last product where weights are sharded"),
        "messages": ("wait", "hidden in part"),
        "gradients": ("wait", "hidden"),
        "recompute": ("none", "as memory demands"),
        "chunk": ("2 layers", "1 layer", "4 layers"),
        "experts": ("alike", "the busiest has more"),
        "selective": ("attention alone", "half the products where weights are sharded"),
        "errors": ("linear from 10 %", "linear from 5 %"),
    }
)
_SOFT = {"linear from 10 %": 0.1, "linear from 5 %": 0.05}
SHIPPED = Structure(
    products=ALONE,
    attention=ALONE,
    layer_start="counted",
    expert_start="fitted",
    variation="fitted",
    contention="whole",
    links="planned",
    traffic="counted",
    written="counted",
    loss="counted",
    casts="counted",
    tiles="counted",
    power="sets the clock",
    skipped="last product where weights are sharded",
    gradients="hidden",
    recompute="as memory demands",
    errors="linear from 5 %",
)
# Everything that can be counted, sourced or planned, and as few constants as there can be.
COUNTED = dataclasses.replace(
    SHIPPED,
    products="one share",
    attention="one share",
    layer_start="none",
    expert_start="none",
    variation="none",
    errors="linear from 10 %",
)


def _stack(parts: Sequence[Any]) -> Any:
    import numpy as np

    numbers = [f.name for f in dataclasses.fields(parts[0]) if f.name not in training.SHARED_FIELDS]
    return dataclasses.replace(parts[0], **{n: np.array([getattr(p, n) for p in parts]) for n in numbers})


class Rows:
    """Many rows in the terms of the solver, as arrays; needs NumPy."""

    def __init__(self, inputs: Sequence[Mapping[str, Any]], steps: Sequence[Step] | None = None) -> None:
        import numpy as np

        self.inputs = inputs
        self.steps = [step_of(Row(i)) for i in inputs] if steps is None else list(steps)
        self.work, self.layout, self.machine = (
            _stack([getattr(s, n) for s in self.steps]) for n in ("work", "layout", "machine")
        )
        self.tpu = np.array([TPU in s.line for s in self.steps])
        written = [any(name in s.line for name in _FUSED_EVERYWHERE) for s in self.steps]
        self.fused = np.array(
            [(all_ or "NVIDIA gpu" in s.line, all_) for s, all_ in zip(self.steps, written, strict=True)]
        )
        kernels = [kernel_shares(s.line).values for s in self.steps]
        self.kernels = {
            "gemm": np.array([k[product_kernel(s.precision)] for k, s in zip(kernels, self.steps, strict=True)]),
            "head": np.array([k["products_16"] for k in kernels]),
            "attention": np.array(
                [attention_shares(s.line, k["attention"]) for k, s in zip(kernels, self.steps, strict=True)]
            ),
            "start": np.array([k["start"] for k in kernels]),
            "exponential": np.array([k.get("exponential", 0.0) for k in kernels]),
            "array": np.array([ARRAY.get(s.line[0], 1.0) for s in self.steps]),
        }
        self.narrow = np.array([s.narrow for s in self.steps])
        self.clock = np.array([s.clock for s in self.steps])
        self.memory = np.array([measured_share("memory", s.generation) for s in self.steps])
        self.casts = np.array([cast_bytes(s.precision) for s in self.steps])
        self.sharded = self.layout.weight_shards > 1
        self.most, self.most_half = np.array([s.most for s in self.steps]).T
        self.updated = np.array([float(s.updated) for s in self.steps])
        counted = [counted_software(s.line) for s in self.steps]
        self.software = {name: np.array([c[name] for c in counted]) for name in counted[0]}

    @cached_property
    def no_recompute(self) -> Any:
        """What is recomputed when a row that does not say recomputes nothing."""
        import numpy as np

        said = np.array([i.get("recompute") is not None for i in self.inputs])
        return np.where(said, self.layout.recompute_full, 0.0)

    def chunks(self, layers: int) -> Any:
        """Virtual stages when chunks of a row that names no schedule have so many layers."""
        import numpy as np

        empty = np.array([i.get("virtual_stages") is None for i in self.inputs]) & (self.layout.pp > 1)
        stages = np.maximum(1.0, np.ceil(self.work.layers / self.layout.pp) // layers)
        return np.where(empty, stages, self.layout.virtual_stages)


class Variant:
    """A structure on given rows: names and ranges of its constants, and the time of each row."""

    def __init__(self, rows: Rows, structure: Structure) -> None:
        import numpy as np

        s, r = structure, rows
        self.structure, self.soft = s, _SOFT[s.errors]
        self.work, self.layout, self.machine = r.work, r.layout, r.machine
        self.memory, self.casts = r.memory, r.casts
        alone = s.products == ALONE
        zero: Any = np.zeros(len(r.steps), dtype=int)
        self.names = [(SOFTWARE, "in_step") if alone else (ANY, "gemm")]
        self._products: Any = zero if s.products == "one share" else self._apart((TPU, "gemm"), r.tpu, zero)
        self._whole = self._sharded = zero
        if s.attention != ALONE:
            self._whole = self._sharded = self._apart((ANY, "attention"), zero == 0, zero)
        if s.attention == "maker's library apart":
            self._whole = self._apart((FUSED, "attention"), r.fused[:, 0], self._whole)
            self._sharded = self._apart((FUSED, "attention"), r.fused[:, 1], self._sharded)
        for name, word in (("layer_overhead", s.layer_start), ("expert_overhead", s.expert_start)):
            self.names += [(SOFTWARE, name)] * (word == "fitted")
        self.names += [(SOFTWARE, "variation")] * (s.variation == "fitted")
        self.names += [(SOFTWARE, "elementwise")] * (s.traffic == "fitted")
        self.names += [(SOFTWARE, "casts")] * (s.casts == "fitted")
        self.names += [(SOFTWARE, "narrow")] * (s.narrow != "as others")
        self.names += [(SOFTWARE, "sharded")] * ("sharded" in s.products)
        self.names += [(SOFTWARE, "tp_overlap")] * (s.messages != "wait")
        self.names += [(SOFTWARE, "busiest")] * (s.experts != "alike")
        self.ranges = [RANGES[name] for _, name in self.names]
        # ``clock_of`` is the cube root of the power; to the power 1.5 it is the square root
        self._clock = 1.0 if s.power == "ignored" else r.clock if s.power == "sets the clock" else r.clock**1.5
        self._narrow, self._shards = r.narrow, r.sharded
        self._most, self._most_half = r.most, r.most_half
        # What products and attention of each row reach alone
        best = (("gemm", r.most), ("head", r.most_half))
        self._alone = (
            {n: np.where(np.isfinite(most), most, r.kernels[n] * self._clock) for n, most in best} if alone else {}
        )
        self._attention = self._clock * r.kernels["attention"].T if s.attention == ALONE else None
        self._exponential, self._tpu = r.kernels["exponential"] / self._clock, r.tpu
        software = {name: r.software[name] for name in ("network", "tp_overlap")}
        software["link"] = r.software["link"] if s.links == "planned" else 1.0
        software["elementwise"] = r.software["elementwise"] if s.traffic == "counted" else 0.0
        software["dp_overlap"] = r.software["dp_overlap"] if s.gradients == "hidden" else 0.0
        software["contention"] = r.software["contention"] if s.contention == "whole" else 0.0
        self._fixed: dict[str, Any] = {
            "memory": r.memory,
            "written": float(s.written == "counted"),
            "cast_bytes": r.casts if s.casts != "none" else np.zeros(len(r.steps)),
            "loss_passes": LOSS_PASSES if s.loss == "counted" else 0.0,
            "joined": JOINED,
            "tile": TILE if s.tiles == "counted" else 0.0,
            "selective_recompute": 0.0 if s.selective == "attention alone" else 0.5,
            "optimizer_bytes": Efficiencies().optimizer_bytes * r.updated,
            **({"attention_backward": ATTENTION_BACKWARD, "array": r.kernels["array"]} if s.attention == ALONE else {}),
            **({n: k * r.kernels["start"] for n, k in STARTED.items()} if s.layer_start == "counted" else {}),
            **cp_times(),
            **software,
        }
        self._reshape(s, r)

    def _reshape(self, s: Structure, r: Rows) -> None:
        """Layouts and work as the structure has them: what is computed again, how the pipeline is cut, what is skipped."""
        import numpy as np

        if s.recompute == "none":
            self.layout = dataclasses.replace(self.layout, recompute_full=r.no_recompute)
        if (layers := int(s.chunk.split()[0])) != CHUNK:
            self.layout = dataclasses.replace(self.layout, virtual_stages=r.chunks(layers))
        if s.skipped == "nothing":
            self.work = dataclasses.replace(self.work, last_params=0.0 * self.work.last_params)
        elif s.skipped == "last product":
            part = self.work.last_params / (self.work.dense_params + self.work.active_expert_params)
            less = np.where(r.sharded, 0.0, self.layout.recompute_full * part)
            self.layout = dataclasses.replace(self.layout, repeated_products=-less)

    def _apart(self, name: tuple[str, str], which: Any, otherwise: Any) -> Any:
        """Where the constant of each row stands; one that no row has is not there."""
        import numpy as np

        if name not in self.names:
            if not which.any():
                return otherwise
            self.names.append(name)
        return np.where(which, self.names.index(name), otherwise)

    def times(self, constants: Any) -> Any:
        """Seconds of every row."""
        import numpy as np

        c, first = constants, dict(zip(self.names, range(len(self.names)), strict=True))
        own = {name: c[i] for (group, name), i in first.items() if group == SOFTWARE}
        kept = own.pop("in_step", 1.0)
        gemm = c[self._products] * self._clock
        for name, which in (("narrow", self._narrow), ("sharded", self._shards)):
            if name in own:
                gemm = gemm * (1.0 + which * (own.pop(name) - 1.0))
        fixed = self._fixed
        if "casts" in own:
            fixed = fixed | {"cast_bytes": fixed["cast_bytes"] * own.pop("casts")}
        work = self.work
        if "busiest" in own:  # a step waits for the device whose experts most tokens were sent to
            more = own.pop("busiest")
            tokens = {name: getattr(work, name) * more for name in ("top_k", "active_expert_params")}
            work = dataclasses.replace(work, **tokens)
        shares = {"gemm": np.minimum(gemm, self._most), "head": np.minimum(gemm, self._most_half)}
        if self._alone:
            shares = {n: np.where(self._tpu, gemm, kept * reached) for n, reached in self._alone.items()}
        whole, sharded = c[self._whole] * self._clock, c[self._sharded] * self._clock
        if self._attention is not None:
            stays = np.where(self._tpu, 1.0, kept)
            whole, sharded = self._attention * stays
            shares["exponential"] = self._exponential / stays
        eff = Efficiencies(attention=whole, attention_sharded=sharded, **shares, **{**fixed, **own})
        return training.step_terms(work, self.layout, self.machine, eff).time
