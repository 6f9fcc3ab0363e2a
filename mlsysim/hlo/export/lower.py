"""From a recipe to StableHLO text. Runs in a process of its own, which has as many CPU devices as the recipe asks for."""

import re
from typing import Any

import jax
from jax.sharding import NamedSharding, PartitionSpec

from mlsysim.errors import InputError
from mlsysim.hlo.export import training
from mlsysim.hlo.export.layout import AXIS, Layout
from mlsysim.hlo.export.llama import Llama
from mlsysim.hlo.export.mlp import Mlp
from mlsysim.hlo.export.recipe import Recipe
from mlsysim.hlo.export.resnet import ResNet

Model = Llama | Mlp | ResNet
_MODELS: dict[str, Any] = {"llama": Llama, "mlp": Mlp, "resnet": ResNet}


def model(recipe: Recipe) -> Model:
    layout = Layout(recipe.parallelism, recipe.devices, explicit=recipe.stage == "partitioned" and recipe.devices > 1)
    made: Model = _MODELS[recipe.kind](recipe, layout)
    return made


def program(recipe: Recipe) -> tuple[Any, tuple[Any, ...], tuple[Any, ...]]:
    """The jitted step over the recipe's devices, its arguments as shapes, and their partition specs."""
    jax.config.update("jax_use_shardy_partitioner", True)
    made = model(recipe)
    layout, specs, parameters = made.layout, made.specs(), made.parameters()
    samples = recipe.batch * (recipe.devices if layout.splits_batch else 1)
    batch = made.batch(samples)
    state = made.statistics()
    arguments = (parameters, made.optimiser(parameters), state, batch)
    whole = PartitionSpec()
    placed = (
        specs,
        made.optimiser_specs(specs),
        jax.tree.map(lambda _: whole, state),
        jax.tree.map(lambda _: layout.batch_spec(), batch),
    )
    step = training.step(made.loss, made.update, specs, layout)
    step.__name__ = "train_step"
    if recipe.devices == 1:
        return jax.jit(step), arguments, placed
    mesh = jax.make_mesh((recipe.devices,), (AXIS,), axis_types=(jax.sharding.AxisType.Auto,))
    out = (*placed[:3], whole)
    if layout.explicit:
        local = jax.shard_map(step, mesh=mesh, in_specs=placed, out_specs=out, check_vma=False)
        return jax.jit(local), arguments, placed

    def on_mesh(tree: Any) -> Any:
        return jax.tree.map(lambda s: NamedSharding(mesh, s), tree, is_leaf=lambda s: isinstance(s, PartitionSpec))

    return jax.jit(step, in_shardings=on_mesh(placed), out_shardings=on_mesh(out)), arguments, placed


_MANUAL = re.compile(
    r"^(?P<indent> *)(?:%\w+(?::\d+)? = )?sdy\.manual_computation\(.* manual_axes=\{[^}]*\} \((?P<arguments>.*)\) \{$"
)
_RETURN = re.compile(r"^ *sdy\.return (?P<values>.*) : (?P<types>.*)$")


def flat(text: str) -> str:
    """The program of one device: what stands inside the one manual computation becomes the main function."""
    lines = text.splitlines()
    starts = [i for i, line in enumerate(lines) if _MANUAL.match(line)]
    if len(starts) != 1:
        raise InputError(f"export: {len(starts)} manual computations where one was expected; is this JAX 0.6 or newer?")
    begin = starts[0]
    found = _MANUAL.match(lines[begin])
    main = next((i for i in range(begin - 1, -1, -1) if "func.func public @main(" in lines[i]), None)
    indent = found["indent"] if found else ""
    end = next((i for i in range(begin, len(lines)) if lines[i].startswith(f"{indent}}} :")), None)
    last = _RETURN.match(lines[end - 1]) if end else None
    if found is None or main != begin - 1 or end is None or last is None:
        raise InputError("export: the lowered program has not the form that JAX 0.6 to 0.10 print")
    head = f"  func.func public @main({found['arguments']}) -> ({last['types']}) {{"
    tail = f"    return {last['values']} : {last['types']}"
    body = [line.removeprefix("  ") for line in lines[begin + 1 : end - 1]]
    return "\n".join([*lines[:main], head, *body, tail, *lines[end + 2 :], ""])


def lower(recipe: Recipe) -> str:
    """StableHLO text of the recipe's training step; nothing is computed and no array is made."""
    step, arguments, _ = program(recipe)
    text: str = step.lower(*arguments).as_text()
    return flat(text) if recipe.stage == "partitioned" and recipe.devices > 1 else text
