"""What to export, as data that is checked before JAX is asked for anything."""

from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from mlsysim import catalog
from mlsysim.catalog import Convnet, Model
from mlsysim.catalog.operations import Norm, Product, each
from mlsysim.errors import InputError, unknown_name
from mlsysim.hlo.reader.limits import MAX_OPS

PARALLELISMS = ("dp", "fsdp", "tp")
STAGES = ("partitioned", "annotated")
DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
MAX_DEVICES = 4096
OPS_OF_A_LAYER = (
    1000  # a transformer's layer with its gradient and its optimizer is six hundred operations, split over devices more
)
MAX_LAYERS = MAX_OPS // OPS_OF_A_LAYER  # written out; in a loop they do not make the program longer


@dataclass(frozen=True)
class Recipe:
    """A training step to lower: the model, how it is split, and the sizes of its batch.

    ``batch`` counts samples per device; with tensor parallelism all devices work on the same batch.
    """

    model: str  # "mlp", "resnet50", or a transformer of the catalogue
    parallelism: str = "dp"
    devices: int = 1
    batch: int = 1
    seq: int = 4096
    layers: int = 0  # of a transformer; 0: the catalogue's
    widths: tuple[int, ...] = (784, 1024, 1024, 10)  # of the MLP
    dtype: str = ""  # empty: fp32 for the MLP, bf16 otherwise
    stage: str = "partitioned"
    scan: bool = False  # a transformer's layers as one loop
    embedding: str = "gather"  # or "onehot": a product with one-hot rows, as MaxText may have it
    recompute: str = "none"  # or "attention": its scores again in the backward pass
    image: int = 224
    image_layout: str = "NHWC"

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if one.type in ("int", int) and (type(value) is not int or not 0 <= value <= 10**9):
                raise InputError(f"export: {one.name} = {str(value)[:40]!r} must be a whole number, not negative")
        for name, allowed in (
            ("parallelism", PARALLELISMS),
            ("stage", STAGES),
            ("dtype", ("", *DTYPES)),
            ("embedding", ("gather", "onehot")),
            ("recompute", ("none", "attention")),
            ("image_layout", ("NHWC", "NCHW")),
        ):
            if getattr(self, name) not in allowed:
                raise unknown_name(name, getattr(self, name), allowed)
        for name in ("devices", "batch", "seq", "image"):
            if getattr(self, name) < 1:
                raise InputError(f"export: {name} = {getattr(self, name)} must be at least 1")
        if self.devices > MAX_DEVICES:
            raise InputError(f"export: devices = {self.devices} must be at most {MAX_DEVICES}")
        {"mlp": self._check_mlp, "resnet": self._check_resnet, "llama": self._check_llama}[self.kind]()

    @property
    def kind(self) -> str:
        """``mlp``, ``resnet`` or ``llama``."""
        name = self.model.casefold()
        return "mlp" if name == "mlp" else "resnet" if name.startswith("resnet") else "llama"

    @property
    def element(self) -> str:
        """The type of the arrays, in NumPy's words."""
        return DTYPES[self.dtype or ("fp32" if self.kind == "mlp" else "bf16")]

    def transformer(self) -> Model:
        """The shape of the transformer, with the layers asked for."""
        m = catalog.model(self.model)
        return replace(m, layers=(replace(m.layers[0], count=self.layers),)) if self.layers else m

    def network(self) -> Convnet:
        """The residual network."""
        return replace(catalog.convnet(self.model), image=self.image)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def _check_mlp(self) -> None:
        if not 2 <= len(self.widths) <= 1000 or any(type(w) is not int or not 1 <= w <= 10**7 for w in self.widths):
            raise InputError(f"export: widths = {str(self.widths)[:60]} must be two or more positive whole numbers")
        pairs = (len(self.widths) - 1) // 2
        if self.parallelism == "tp":
            for width in self.widths[1 : 2 * pairs : 2]:
                self._divides("width", width)

    def _check_resnet(self) -> None:
        self.network()
        if self.parallelism == "tp":
            raise InputError("export: a residual network is exported with dp or fsdp, not with tp")

    def _check_llama(self) -> None:
        if self.layers > MAX_LAYERS and not self.scan:
            raise InputError(
                f"export: layers = {self.layers} must be at most {MAX_LAYERS} written out: a layer is up to {OPS_OF_A_LAYER:,} "
                f"operations, and a program of more than {MAX_OPS:,} is not read; keep them as one loop (--scan, scan=True)"
            )
        m = self.transformer()
        sizes = (m.n_layers, m.hidden, m.heads, m.kv_heads, m.head_dim, m.ffn, m.vocab)
        products = [o for _, o in each(m.layers) if isinstance(o, Product)]
        norms = [o for o in (*m.before, *(o for _, o in each(m.layers))) if isinstance(o, Norm)]
        other = {
            "a mixture of experts": m.is_moe,
            "latent attention": m.is_mla,
            "windows": m.reach > 0,
            "biases": any(o.bias for o in (*products, m.head)),
            "norms on queries and keys": any(o.inner for o in norms),
            "layer norms": any(o.bias for o in norms),
            "an MLP without gate": not m.gated_mlp,
            "learned positions": m.learned_positions > 0,
        }
        if not any(other.values()):
            plain = catalog.decoder(m.name, *sizes, tied_embeddings=m.tied_embeddings)
            same = (m.layers, m.before, m.after) == (plain.layers, plain.before, plain.after)
            other["operations that Llama has not"] = not same
        found = [what for what, has in other.items() if has]
        if found:
            raise InputError(
                f"export: {m.name} has {', '.join(found)}; the export knows transformers as Llama has them"
            )
        if self.parallelism == "tp":
            for name in ("heads", "kv_heads", "ffn", "vocab"):
                self._divides(name, getattr(m, name))

    def _divides(self, name: str, size: int) -> None:
        if size % self.devices:
            raise InputError(f"export: devices = {self.devices} must divide {name} = {size} with tensor parallelism")
