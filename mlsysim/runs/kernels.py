"""A trace of PyTorch's profiler (Kineto, schema 1; PyTorch 1.8 to 2.9): the time on the device by class of kernel, and what no kernel fills."""

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from mlsysim.runs.document import Document
from mlsysim.runs.run import Figure, Measured

# Classes by what stands in a kernel's name, the first that matches: libraries name products by tiles and by their makers.
CLASSES = (
    (
        "messages",
        r"nccl|rccl|all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|cross_device_reduce|one_shot|two_shot|deep_?ep|nvshmem",
    ),
    ("attention", r"flash|fmha|attention|paged|mla_|softmax_warp|sdpa|scaled_dot"),
    ("experts", r"moe|grouped|expert|topk_?gating"),
    ("products", r"gemm|gemv|cutlass|cublas|nvjet|wgmma|xmma|cijk|matmul|_mm_|s\d{3,5}gemm|splitk|conv|hgemm|mma"),
)
_COMPILED = tuple((name, re.compile(pattern, re.IGNORECASE)) for name, pattern in CLASSES)
_ON_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
_STEP = re.compile(r"^ProfilerStep#\d+$")
_MOST_EVENTS = 5_000_000


def class_of(name: str) -> str:
    """The class of a kernel by its name.

    >>> class_of("ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_nn"), class_of("ncclDevKernel_AllReduce_Sum_bf16_RING_LL"), class_of("vectorized_elementwise_kernel")
    ('products', 'messages', 'others')
    """
    return next((kind for kind, pattern in _COMPILED if pattern.search(name)), "others")


def is_trace(doc: Document) -> bool:
    """Whether it is a trace of the profiler."""
    return '"traceEvents"' in doc.raw[:2_000_000] and bool(doc.objects)


def _spans(doc: Document, events: Sequence[Any]) -> tuple[dict[str, list[tuple[float, float, str]]], set[str]]:
    """Beginning, end and class of what ran on each device, and the names of marked steps."""
    spans: dict[str, list[tuple[float, float, str]]] = defaultdict(list)
    steps: set[str] = set()
    for i, e in enumerate(events):
        if not isinstance(e, dict) or e.get("ph") != "X":
            continue
        name, kind = str(e.get("name")), str(e.get("cat")).lower()
        if _STEP.match(name):
            steps.add(name)
        if kind not in _ON_DEVICE:
            continue
        try:
            start, length = float(e["ts"]), float(e["dur"])
        except (KeyError, TypeError, ValueError):
            start = length = -1.0
        if not (0 <= start < 1e18 and 0 <= length < 1e12):
            doc.fail(1, f"event {i} ({name[:60]!r}): ts and dur must be microseconds from 0 on")
        arguments = e.get("args")
        device = arguments.get("device") if isinstance(arguments, dict) else None
        spans[str(device if device is not None else e.get("pid"))].append(
            (start, start + length, "copies" if kind != "kernel" else class_of(name))
        )
    return spans, steps


def read_trace(doc: Document) -> Measured:
    """Seconds by class of kernel of the busiest device, in a step where the trace marks steps, and the gaps between kernels."""
    whole = doc.objects[0][1]
    events = whole.get("traceEvents")
    if not isinstance(events, list) or len(events) > _MOST_EVENTS:
        doc.fail(1, f"traceEvents must be a list of at most {_MOST_EVENTS:,} events")
    spans, steps = _spans(doc, events)
    if not spans:
        doc.fail(1, "a trace without a kernel on a device; profile with ProfilerActivity.CUDA")
    own = max(spans.values(), key=lambda each: sum(end - start for start, end, _ in each))
    times: dict[str, float] = defaultdict(float)
    for start, end, kind in own:
        times[kind] += 1e-6 * (end - start)
    begin, finish, busy, until = min(s for s, _, _ in own), max(e for _, e, _ in own), 0.0, 0.0
    for start, end, _ in sorted(own):
        busy += max(0.0, end - max(start, until))
        until = max(until, end)
    times["gaps"] = 1e-6 * max(0.0, finish - begin - busy)
    count = len(steps) or 1
    figures = tuple(
        Figure(
            "kernels_s",
            t / count,
            f"{sum(k == kind for _, _, k in own):,} events" if kind != "gaps" else "between kernels",
            at={"class": kind},
        )
        for kind, t in sorted(times.items(), key=lambda item: -item[1])
        if t > 0
    )
    properties = whole.get("deviceProperties")
    device = (
        properties[0].get("name")
        if isinstance(properties, list) and properties and isinstance(properties[0], dict)
        else None
    )
    notes = [
        f"{count} steps are marked: times are of one"
        if steps
        else "no steps are marked: times are of the whole trace; say with --passes how many it holds"
    ]
    together = sum(t for kind, t in times.items() if kind != "gaps") - 1e-6 * busy
    if together > 1e-6 * busy * 0.01:
        notes.append(
            f"kernels run beside others for {together / (1e-6 * busy):.0%} of the busy time, so that classes sum to more than it"
        )
    if len(spans) > 1:
        notes.append(f"{len(spans)} devices: the busiest is read")
    asked = {"device": device} if device else {}
    return Measured(doc.file, "Kineto trace", "kernels", asked, figures, tuple(notes))
