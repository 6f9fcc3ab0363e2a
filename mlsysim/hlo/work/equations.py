"""What an operation, a fused region, a loop and a repeated region cost: the closed forms behind the op costs."""

from mlsysim._numeric import Num, all_true, maximum
from mlsysim.equations import POSITIVE, equation
from mlsysim.errors import InputError

REAL_MAC = 2.0  # FLOPs of one multiplication and one addition
_ANY = "(-inf, inf)"


@equation("eq-dot-flops", formula="result_elements * contracted * flops_per_mac")
def dot_flops(result_elements: Num, contracted: Num, flops_per_mac: Num = REAL_MAC) -> Num:
    """Work of a dot product of two tensors, with any number of batch, free and contracting dimensions.

    Formula: FLOPs = 2 |result| K.

    Parameters
    ----------
    result_elements : float or array, 1
        Elements of the result: batch times free dimensions of both sides.
    contracted : float or array, 1
        Product of the contracting dimensions' sizes.
    flops_per_mac : float or array, FLOP
        Operations of one multiply-accumulate: a multiplication and an addition.

    Returns
    -------
    float or array, FLOP

    Assumptions: dense operands and the schoolbook algorithm; the first addition, to zero, is counted.

    >>> dot_flops(32 * 1024 * 1024, 128)
    8589934592.0

    Source: stablehlo2026spec, dot_general.
    """
    return result_elements * contracted * flops_per_mac


@equation(
    "eq-convolution-flops",
    formula="batch / batch_groups * pairs * input_features / feature_groups * output_features * flops_per_mac",
    domain={"feature_groups": POSITIVE, "batch_groups": POSITIVE},
)
def convolution_flops(
    batch: Num,
    pairs: Num,
    input_features: Num,
    output_features: Num,
    feature_groups: Num = 1.0,
    batch_groups: Num = 1.0,
    flops_per_mac: Num = REAL_MAC,
) -> Num:
    """Work of a convolution, from the products that meet an element of the input.

    Formula: FLOPs = 2 (N / G_b) P (C_in / G_f) C_out.

    Parameters
    ----------
    batch : float or array, 1
        Images.
    pairs : float or array, 1
        Pairs of a kernel tap and an output position that meet an element of the input, over all spatial dimensions.
        Without padding and dilation of the input: output positions times kernel taps.
    input_features, output_features : float or array, 1
        Channels of the input and of the output.
    feature_groups, batch_groups : float or array, 1
        Groups that the input's channels, or its images, are split into.
    flops_per_mac : float or array, FLOP
        Operations of one multiply-accumulate.

    Returns
    -------
    float or array, FLOP

    Assumptions: direct convolution; products with padding, or with holes that dilation made, are not counted.

    >>> convolution_flops(1, pairs=4 * 9, input_features=8, output_features=16)
    9216.0

    Source: xla2017costs, GetConvolutionFlops.
    """
    return batch / batch_groups * pairs * input_features / feature_groups * output_features * flops_per_mac


@equation("eq-reduction-flops", formula="max(0, input_elements - result_elements) * flops_per_application")
def reduction_flops(input_elements: Num, result_elements: Num, flops_per_application: Num = 1.0) -> Num:
    """Work of a reduction: each application of its function takes one element away.

    Formula: FLOPs = max(0, |input| - |result|) x FLOPs of the function.

    Parameters
    ----------
    input_elements, result_elements : float or array, 1
        Elements that go in and that come out.
    flops_per_application : float or array, FLOP
        Work of the reducing function, 1 for a sum or a maximum.

    Returns
    -------
    float or array, FLOP

    Assumptions: a binary tree over the elements; the initial value is not an element.

    >>> reduction_flops(1000 * 64, 64)
    63936.0

    Source: xla2017costs, HandleReduce.
    """
    return maximum(0.0, input_elements - result_elements) * flops_per_application


@equation("eq-op-bytes", formula="operand_bytes + result_bytes")
def op_bytes(operand_bytes: Num, result_bytes: Num) -> Num:
    """Traffic of an operation that runs by itself: read every operand once, write every result once.

    Formula: bytes = sum of operands + sum of results.

    Parameters
    ----------
    operand_bytes, result_bytes : float or array, byte
        Sizes of all operands and of all results.

    Returns
    -------
    float or array, byte

    Assumptions: nothing is in a cache before, and nothing is read twice.

    >>> op_bytes(2 * 4e6, 4e6)
    12000000.0

    Source: xla2017costs, Preprocess.
    """
    return operand_bytes + result_bytes


@equation("eq-gather-bytes", formula="2 * result_bytes + index_bytes")
def gather_bytes(result_bytes: Num, index_bytes: Num) -> Num:
    """Traffic of a gather or a slice: the rows that are touched, not the table that they come from.

    Formula: bytes = 2 x result + indices.

    Parameters
    ----------
    result_bytes : float or array, byte
        The rows that are returned: read once from the table and written once.
    index_bytes : float or array, byte
        The indices of the rows.

    Returns
    -------
    float or array, byte

    Assumptions: a row that is asked for twice is read twice, and rows are as long as what the memory fetches at once.

    >>> gather_bytes(8 * 4096 * 2, 8 * 4)
    131104

    Source: xla2017costs, HandleGather.
    """
    return 2 * result_bytes + index_bytes


@equation(
    "eq-fused-bytes",
    formula="separate_bytes - (1 + readers) * intermediate_bytes",
    relations=("(1 + readers) * intermediate_bytes <= separate_bytes",),
)
def fused_bytes(separate_bytes: Num, intermediate_bytes: Num, readers: Num = 1.0) -> Num:
    """Traffic of a fused region: what its operations would move apart, less what no longer leaves the chip.

    Formula: bytes = bytes apart - (1 + readers) x intermediate.

    Parameters
    ----------
    separate_bytes : float or array, byte
        Traffic of the same operations, each by itself.
    intermediate_bytes : float or array, byte
        The value that is made and read inside the region only.
    readers : float or array, 1
        Operations of the region that read it; 0 for a value that is written for others and read by nobody inside.

    Returns
    -------
    float or array, byte

    Assumptions: the value is not needed outside the region and fits on the chip piece by piece. An input that two of the
    operations read is a saving of its own.

    >>> fused_bytes(24e6, 4e6)
    16000000.0

    Source: xla2017costs, HandleFusion.
    """
    return separate_bytes - (1 + readers) * intermediate_bytes


@equation(
    "eq-trip-count", formula="max(0, -((start - limit) // step))", domain={"start": _ANY, "limit": _ANY, "step": _ANY}
)
def trip_count(start: Num, limit: Num, step: Num) -> Num:
    """Times that a loop's body runs whose counter starts, grows by a constant, and is compared with a constant.

    Formula: n = max(0, ceil((limit - start) / step)).

    Parameters
    ----------
    start, limit : float or array, 1
        First value of the counter, and the first one at which the body no longer runs.
    step : float or array, 1
        What the body adds to the counter; negative for a loop that counts down.

    Returns
    -------
    float or array, 1

    Raises
    ------
    InputError
        A value that is not finite, or a step of 0.

    Assumptions: the body changes the counter in no other way.

    >>> trip_count(0, 20, 3)
    7

    Source: stablehlo2026spec, while.
    """
    if not all_true(step != 0):
        raise InputError("trip_count: step = 0, so the loop never ends; give what the body adds to the counter")
    return maximum(0, -((start - limit) // step))


@equation("eq-loop-flops", formula="outside_flops + trips * body_flops")
def loop_flops(outside_flops: Num, trips: Num, body_flops: Num) -> Num:
    """Work of a program with a loop, such as a model whose equal layers are scanned.

    Formula: FLOPs = outside + trips x body.

    Parameters
    ----------
    outside_flops : float or array, FLOP
        Work before and after the loop.
    trips : float or array, 1
        Times that the body runs, from eq-trip-count.
    body_flops : float or array, FLOP
        Work of one turn, that of the condition included.

    Returns
    -------
    float or array, FLOP

    Assumptions: every turn does the same work.

    >>> loop_flops(1e9, 32, 2e9)
    65000000000.0

    Source: stablehlo2026spec, while.
    """
    return outside_flops + trips * body_flops


@equation(
    "eq-reuse-share", formula="1 - unique / regions", domain={"regions": POSITIVE}, relations=("unique <= regions",)
)
def reuse_share(regions: Num, unique: Num) -> Num:
    """Share of evaluations that a cache by region saves.

    Formula: saved = 1 - unique / regions.

    Parameters
    ----------
    regions : float or array, 1
        Regions that run.
    unique : float or array, 1
        Regions that differ in their operations or shapes; each is evaluated once.

    Returns
    -------
    float or array, 1

    Assumptions: the unique regions are counted among the regions; one device and one toolchain. It is a share of
    evaluations, and of time only where all take equally long.

    >>> reuse_share(100, 25)
    0.75

    Source: michie1968memo, results kept by their arguments; hespas2026, sec. III-B, does so for regions.
    """
    return 1 - unique / regions
