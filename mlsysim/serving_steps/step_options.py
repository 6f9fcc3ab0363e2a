"""Options of the step model: each correction of tam2026 is one of them.

The default, :data:`TIER_0`, has all of them; :data:`BASELINE` is the model that tam2026 corrects.
"""

from dataclasses import dataclass, fields

from mlsysim.errors import unknown_name

CHOICES = {
    "bandwidth": ("measured", "flat", "datasheet"),  # H1
    "overhead": ("kernels", "none", "step", "fixed", "layers"),  # H2
    "projections": ("fused", "split"),  # H3
    "granularity": ("kernel", "step"),  # H4
    "mixing": ("additive", "blend", "max", "sum"),  # H5
    "lookup": ("rates", "flat", "nearest", "bilinear"),  # H6
    "experts": ("hit", "all", "dense"),  # H7
}
FLAT_BANDWIDTH = 0.80  # tam2026, H1
STEP_OVERHEAD = 50e-6  # s; tam2026, H2: what the baseline adds to a step
FIXED_DECODE, FIXED_PREFILL = 5e-3, 30e-3  # s; tam2026, H2, after InferSim
LAYER_OVERHEAD = 100e-6  # s; the variant that BLIS tried next, divided by the tensor-parallel degree
BLEND = {"prefill": (0.75, 0.25), "decode": (0.35, 0.65)}  # tam2026, H5: weights of prefill and decode by the larger


@dataclass(frozen=True)
class StepOptions:
    """The form of each part of a step model; every value is one of ``CHOICES``.

    Attributes
    ----------
    bandwidth : str
        Share of the memory bandwidth: ``measured`` (of the device), ``flat`` (0.80), ``datasheet`` (1).
    overhead : str
        ``kernels``: the measured start of every kernel; ``none``; ``step``: 50 us a step; ``fixed``: 5 ms a decode
        step, 30 ms a step with prompts; ``layers``: 100 us per layer over the tensor-parallel degree.
    projections : str
        Queries, keys and values as one product (``fused``) or as three (``split``).
    granularity : str
        The longer of arithmetic and traffic for each ``kernel``, or once for the whole ``step``.
    mixing : str
        A step with prompts and answers: ``additive`` (products over all tokens, attention of each kind), a weighted
        mean of two pure steps (``blend``), the longer of the two (``max``), or both (``sum``).
    lookup : str
        Efficiency of products: ``rates`` (constants of the device), ``flat`` (1), or from the table of measured
        products, ``nearest`` or ``bilinear``.
    experts : str
        Experts whose weights are read: those ``hit``, ``all`` of them, or an MLP as ``dense`` as all of them.
    """

    bandwidth: str = "measured"
    overhead: str = "kernels"
    projections: str = "fused"
    granularity: str = "kernel"
    mixing: str = "additive"
    lookup: str = "rates"
    experts: str = "hit"

    def __post_init__(self) -> None:
        for f in fields(self):
            if getattr(self, f.name) not in CHOICES[f.name]:
                raise unknown_name(f.name, getattr(self, f.name), CHOICES[f.name])


# The ladder's top: every part of the step model as well as it is known.
TIER_0 = StepOptions()
# The ladder's foot: printed rates and the simplest of each part.
BASELINE = StepOptions(
    bandwidth="datasheet",
    overhead="step",
    projections="split",
    granularity="step",
    mixing="blend",
    lookup="nearest",
    experts="dense",
)
