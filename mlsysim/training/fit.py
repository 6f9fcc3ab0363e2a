"""Whether a plan fits: the memory chapter's solver, asked in the terms of a plan."""

from typing import Any

from mlsysim import catalog, memory
from mlsysim._numeric import Num, maximum, widening
from mlsysim.catalog import Device, Model
from mlsysim.errors import InputError
from mlsysim.memory import Recipe, TrainingMemory
from mlsysim.parallelism import Plan

# What is trained: a model from its start, a whole model on answers, or adapters.
TASKS = ("pretrain", "sft", "lora")
FROZEN = Recipe(
    "frozen weights, adapters not counted",
    2,
    0,
    0,
    0,
    0,
    0,
    2,
    "hu2021lora",
    "frozen weights get no gradients and no optimizer state",
)


@widening
def training_memory(
    model: Model | str,
    plan: Plan,
    device: Device | str,
    *,
    seq: Num,
    global_batch: Num | None = None,
    task: str = "pretrain",
    **options: Any,
) -> TrainingMemory:
    """Memory that a plan needs on the device that holds most, and whether the device has it.

    Parameters
    ----------
    model : Model or str
        A catalogue entry, its name, or a shape of your own.
    plan : Plan
        How the job is split; its degrees may be arrays.
    device : Device or str
        A catalogue entry or its name.
    seq : float or array, 1
        Tokens per sequence.
    global_batch : float or array, 1, optional
        Sequences per step: how many micro-batches there are to fill the pipeline with. Enough when not given.
    task : str
        ``lora`` keeps weights without gradients and optimizer state.
    **options
        Of ``memory.training_memory``: ``recipe``, ``precision``, ``fused_attention``, ``fused_mlp``, ``dropout``, ``logit_bytes``,
        ``units_in_flight``, ``capacity``.

    Returns
    -------
    TrainingMemory

    Raises
    ------
    InputError, UnknownNameError
        A value out of range; an unknown name.

    >>> training_memory("Llama-3.1-8B", Plan(dp=8, sharding="fsdp", recompute="full"), "H100", seq=8192).fits
    True
    """
    if task not in TASKS:
        raise InputError(f"training_memory: task = {str(task)[:40]!r} is not one of {', '.join(TASKS)}")
    if task == "lora":
        options.setdefault("recipe", FROZEN)
    micro_batches = None if global_batch is None else maximum(1, plan.micro_batches(global_batch))
    return memory.training_memory(
        catalog.model(model),
        device,
        seq=seq,
        micro_batch=plan.micro_batch,
        tp=plan.tp,
        pp=plan.pp,
        cp=plan.cp,
        dp=plan.dp,
        ep=plan.ep,
        etp=plan.etp,
        replicas=plan.data_parallel // plan.hsdp_group if plan.sharding == "hsdp" else 1,
        sharding=plan.sharding,
        recompute=plan.recompute,
        seq_parallel=plan.sequence_parallel,
        virtual_stages=plan.virtual_stages,
        micro_batches=micro_batches,
        reshard_after_forward=plan.reshard_after_forward,
        schedule=plan.schedule,
        recompute_layers=plan.recompute_layers,
        recompute_modules=plan.recompute_modules,
        optimizer=plan.optimizer,
        offload=plan.offload,
        mtp=plan.modules_trained(model, task) > 0,
        **options,
    )
