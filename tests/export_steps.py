"""Runs exported training steps on two forced CPU devices, for tests/hlo/test_export.py; prints what it measures as JSON.

With ``--lower`` it reads a list of recipes instead and prints their texts: one process imports JAX for all of them.

XLA compiles for half a minute, so variants (of the transformer annotated, one-hot, in a loop with recomputation, data parallel;
of the network with images in the other layout) are run with ``--all`` only, at night.
"""

import functools
import json
import sys
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from mlsysim import catalog
from mlsysim.catalog import Convnet, decoder
from mlsysim.hlo.export import lower
from mlsysim.hlo.export.recipe import Recipe

MODEL = decoder("tiny", layers=2, hidden=16, heads=4, kv_heads=2, head_dim=8, ffn=32, vocab=64)
NETWORK = Convnet("resnet-tiny", (1, 1), True, "", "", width=8, classes=8)
STEPS = 3


def filled(shapes, seed=1):
    """Arrays of those shapes: random numbers, ones for scales, few different token ids."""

    def fill(path, leaf):
        name = jax.tree_util.keystr(path)
        random = np.random.default_rng([seed, *name.encode()])
        if leaf.dtype == jnp.int32:
            return random.integers(0, 8, leaf.shape).astype(np.int32)
        if any(word in name for word in ("scale", "norm", "variance")):
            return np.ones(leaf.shape, leaf.dtype)
        size = 1.0 if "'x'" in name else leaf.shape[-2] ** -0.5 if leaf.ndim > 1 else 0.01
        return (random.normal(size=leaf.shape) * size).astype(leaf.dtype)

    return jax.tree_util.tree_map_with_path(fill, shapes)


def zeros(shapes):
    return jax.tree.map(lambda s: np.zeros(s.shape, s.dtype), shapes)


program = functools.cache(lower.program)  # compiled once


def run(recipe, steps=STEPS, batches=None):
    """Parameters, optimiser and statistics after the steps, and the losses before each."""
    step, (parameters, optimiser, statistics, shapes), _ = program(recipe)
    batches = batches or [filled(shapes)]
    ends = []
    for batch in batches:
        state, losses = [filled(parameters), zeros(optimiser), filled(statistics)], []
        for _ in range(steps):
            *state, loss = step(*state, batch)
            losses.append(float(loss))
        ends.append((jax.device_get(state), losses))
    return ends[0] if len(ends) == 1 else ends


def apart(one, other):
    """The largest difference between two trees."""
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return max(float(np.max(np.abs(np.asarray(a, np.float64) - np.asarray(b, np.float64)))) for a, b in pairs)


def shared(alone, recipe):
    """How far steps on two devices are from those on one: parameters and moments, and the losses on the way."""
    state, losses = run(recipe)
    return [apart(alone[0][:2], state[:2]), apart(alone[1], losses)]


def main():
    if "--lower" in sys.argv:
        recipes = [Recipe(**given | {"widths": tuple(given["widths"])}) for given in json.load(sys.stdin)]
        json.dump([lower.lower(recipe) for recipe in recipes], sys.stdout)
        return
    found = {}
    mlp = Recipe("mlp", batch=8, widths=(16, 32, 32, 8))
    alone = run(mlp)
    found["mlp falls"] = alone[1]
    llama = Recipe("tiny", batch=2, seq=16, dtype="fp32", layers=1)
    whole = run(llama)
    found["llama falls"] = whole[1]
    for kind in ("dp", "fsdp", "tp"):
        for name, base, reference in (("mlp", mlp, alone), ("llama", llama, whole)):
            batch = base.batch if kind == "tp" else base.batch // 2  # the same samples in every run
            two = replace(base, parallelism=kind, devices=2, batch=batch)
            if (name, kind) != (
                "llama",
                "dp",
            ) or "--all" in sys.argv:  # by day the MLP is, and gathers and scatters are
                found[f"{name} {kind}"] = shared(reference, two)
    if "--all" in sys.argv:
        found |= variants(llama, whole)
    found |= images()
    json.dump(found, sys.stdout)


def variants(llama, whole):
    found = {}
    found["llama annotated"] = shared(whole, replace(llama, parallelism="fsdp", devices=2, batch=1, stage="annotated"))
    found["llama onehot"] = shared(whole, replace(llama, parallelism="tp", devices=2, embedding="onehot"))
    scanned = replace(llama, scan=True, layers=2)
    again = replace(scanned, parallelism="fsdp", devices=2, batch=1, recompute="attention")
    found["llama scanned"] = shared(run(scanned), again)
    return found


def images():
    found = {}
    resnet = Recipe("resnet-tiny", batch=2, image=32, dtype="fp32", devices=2)
    dp = run(resnet, 1)
    found["resnet fsdp"] = apart(dp[0], run(replace(resnet, parallelism="fsdp"), 1)[0])
    one = replace(resnet, devices=1)
    whole = filled(program(resnet)[1][3])
    parts = [jax.tree.map(lambda a, i=i: a[2 * i : 2 * i + 2], whole) for i in range(2)]
    ends = run(one, 1, parts)
    mean = jax.tree.map(lambda a, b: (a + b) / 2, ends[0][0][1], ends[1][0][1])
    found["resnet dp"] = [apart(dp[0][1], mean), abs(dp[1][0] - (ends[0][1][0] + ends[1][1][0]) / 2)]
    if "--all" in sys.argv:  # by day its work and its messages are compared
        turned = {"x": np.moveaxis(parts[0]["x"], 3, 1), "labels": parts[0]["labels"]}
        found["resnet nchw"] = apart(ends[0][0], run(replace(one, image_layout="NCHW"), 1, [turned])[0])
    found["resnet falls"] = run(one, 4, parts[:1])[1]
    return found


if __name__ == "__main__":
    models, networks = catalog.model, catalog.convnet
    catalog.model = lambda name: MODEL if name == "tiny" else models(name)
    catalog.convnet = lambda name: NETWORK if name == "resnet-tiny" else networks(name)
    main()
