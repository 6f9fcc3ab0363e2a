"""Work that is no language: an image cut in patches, a picture in many passes, tables of embeddings over devices."""

from collections.abc import Sequence

from mlsysim import other_workloads, units
from mlsysim.catalog.other_models import PatchTransformer, Recommender
from mlsysim.drawing.scenes import Arrow, Box, Frames, Scene, Shape, Words
from mlsysim.errors import InputError


def image_patches(side: int = 64, patch: int = 16) -> Scene:
    """An image cut in squares, and the row of tokens that they become, with one for the class in front."""
    cells = side // patch
    if side % patch or not 2 <= cells <= 5:
        raise InputError(
            f"image_patches: side {side}, patch {patch}; a drawing shows an image of 2 to 5 whole patches a side"
        )
    count = int(other_workloads.patch_tokens(side, side, patch))
    assert count == cells * cells
    square = 132 / cells
    shapes: list[Shape] = [Words(8, 14, f"an image of {side} x {side} pixels", "start", 12)]
    for i in range(count):
        x, y = 8 + (i % cells) * square, 28 + (i // cells) * square
        shapes.append(Box(x, y, square - 4, square - 4, str(i + 1), "compute", size=12))
    shapes.append(Arrow([(146, 92), (196, 92)], width=1.4))
    shapes.append(
        Box(
            202,
            70,
            182,
            44,
            f"one matrix: {3 * patch * patch} numbers\nof a patch become a token",
            "memory",
            rounded=True,
            size=12,
        )
    )
    shapes.append(Arrow([(293, 116), (293, 168)], width=1.4))
    wide = 384 / (count + 1)
    shapes.append(Words(8, 182, f"{count} tokens, and one for the class", "start", 12))
    for i in range(count + 1):
        text = (str(i) if i else "c") if wide > 20 else ""
        shapes.append(Box(8 + i * wide, 194, wide - 3, 26, text, "compute" if i else "extra", full=True, size=12))
    return Scene(
        shapes,
        f"An image of {side} by {side} pixels is cut into {count} patches of {patch} by {patch}. One matrix turns each of them into a "
        f"token, and with a token for the class there are {count + 1} in a row.",
    )


def attention_grows(model: PatchTransformer, sides: Sequence[int] = (224, 448, 896, 1792)) -> Scene:
    """Work of a vision transformer as its image grows: what the matrices do, and what attention does."""
    if not 2 <= len(sides) <= 5:
        raise InputError(f"attention_grows: {len(sides)} sides; a drawing shows 2 to 5")
    shapes: list[Shape] = [Words(8, 14, f"{model.name}: share of the work", "start", 12)]
    found = []
    for n, side in enumerate(sides):
        tokens = float(other_workloads.patch_tokens(side, side, model.patch, extra_tokens=1))
        whole = float(other_workloads.patch_flops(tokens, model.layers, model.hidden, model.ffn))
        share = tokens / (tokens + float(other_workloads.attention_parity(model.hidden, model.ffn)))
        found.append(f"{side} pixels {100 * share:.0f} %")
        y = 36 + 54.0 * n
        shapes.append(
            Words(8, y, f"{side} pixels a side, {tokens:,.0f} tokens, {units.format(whole, 'FLOP', 2)}", "start", 12)
        )
        left = 384 * (1 - share)
        shapes.append(Box(8, y + 10, left, 24, "matrices", "compute", size=12))
        named = "attention" if 384 * share > 64 else ""
        shapes.append(Box(8 + left, y + 10, 384 * share, 24, named, "network", full=True, size=12))
    return Scene(
        shapes,
        f"Bars of the work of {model.name}, matrices and attention, for larger and larger images. Attention does "
        + ", ".join(found)
        + ".",
    )


def denoising(steps: int = 5, guidance: bool = True, pass_flops: float = 1e12) -> Frames:
    """A latent from noise to picture: every step waits for the one before, and with guidance runs two passes."""
    if not 2 <= steps <= 8:
        raise InputError(f"denoising: steps = {steps} must lie in 2 to 8 for a drawing")
    passes, scenes, says = 2.0 if guidance else 1.0, [], []
    for now in range(steps + 1):
        done = float(other_workloads.denoising_flops(now, pass_flops, passes))
        title = "the latent is noise" if not now else f"step {now} of {steps}"
        shapes: list[Shape] = [Words(8, 14, title, "start", 13, bold=True)]
        for i in range(36):
            clear = (7 * i + 5) % 36 < 36 * now / steps  # a fixed shuffle: which cells are clear by now
            row, column = divmod(i, 6)
            figure = 1 <= row <= 4 and 1 <= column <= 4
            kind = ("compute" if figure else "memory") if clear else "waiting"
            shapes.append(Box(8 + 20 * column, 30 + 20 * row, 17, 17, kind=kind, full=clear))
        names = ("with the prompt", "without it") if guidance else ("with the prompt",)
        for n, name in enumerate(names):
            y = 34 + 56 * n
            shapes.append(Arrow([(132, 90), (176, y + 18)], width=1.2))
            shapes.append(Box(180, y, 120, 36, name, "compute", full=bool(now), rounded=True, dashed=not now, size=12))
        if guidance:
            shapes.append(Words(310, 81, "guidance:\ntwo passes", "start", 12))
        shapes.append(Words(8, 170, f"so far {units.format(done, 'FLOP', 2) if done else 'nothing'}", "start", 13))
        last = now == steps
        shapes.append(
            Box(220, 156, 164, 30, "decode, once", "extra", full=last, dashed=not last, rounded=True, size=12)
        )
        scenes.append(
            Scene(shapes, f"{title}: {now} of {steps} steps are done, {round(36 * now / steps)} of 36 cells are clear.")
        )
        if not now:
            says.append("The latent starts as noise; the denoiser has not run yet.")
        elif last:
            says.append(f"After {steps} steps and {int(passes) * steps} passes the latent is decoded to pixels, once.")
        else:
            each = "two passes, with and without the prompt, as one batch" if guidance else "one pass"
            says.append(f"Step {now}: {each}. The next step needs its result, so that steps cannot run together.")
    return Frames(scenes, says, "A picture made by diffusion")


def tables_over_devices(
    model: Recommender, devices: int = 4, batch: int = 8192, row_element_bytes: float = 4.0
) -> Scene:
    """Tables of embeddings dealt out to devices, largest first, and the exchange that brings each sample its rows."""
    if not 2 <= devices <= 4:
        raise InputError(f"tables_over_devices: devices = {devices} must lie in 2 to 4 for a drawing")
    row = model.width * row_element_bytes
    held: list[list[int]] = [[] for _ in range(devices)]
    for rows in sorted(model.tables, reverse=True):  # the next table to the device that holds least
        min(held, key=sum).append(rows)
    wide, top = 384 / devices, max(map(sum, held))
    shapes: list[Shape] = [Words(8, 14, f"{len(model.tables)} tables on {devices} devices", "start", 12)]
    for d, tables in enumerate(held):
        x, foot = 8 + d * wide, 150.0
        shapes.append(Box(x, 26, wide - 10, 172, rounded=True))
        for rows in tables:
            high = 112 * rows / top
            if high >= 2:
                shapes.append(Box(x + 8, foot - high, wide - 26, high - 1, kind="memory", full=True))
                foot -= high
        shapes.append(Words(x + wide / 2 - 5, 162, f"{len(tables)} tables", "middle", 12))
        shapes.append(Words(x + wide / 2 - 5, 180, units.format(sum(tables) * row, "byte", 2), "middle", 12))
        shapes.append(Box(x, 262, wide - 10, 30, "MLPs", "compute", rounded=True, size=12))
        shapes += [
            Arrow(
                [(x + wide / 2 - 5, 200), (8 + e * wide + wide / 2 - 5, 260)],
                kind="network",
                width=1.0 if e != d else 1.8,
            )
            for e in range(devices)
        ]
    sent = float(other_workloads.pooled_exchange(batch, len(model.tables), row, devices))
    shapes.append(Words(8, 308, f"{batch:,} samples each: a device sends {units.format(sent, 'byte', 2)}", "start", 12))
    return Scene(
        shapes,
        f"{devices} devices with the {len(model.tables)} tables of {model.name}, as bars in memory. Arrows lead from each device to the "
        f"MLPs of every device; a device sends {units.format(sent, 'byte', 2)} for {batch:,} samples.",
    )
