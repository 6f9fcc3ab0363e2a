"""Training steps of our own models as StableHLO: written in plain JAX, split over devices, lowered on a CPU.

JAX (extra ``hlo``) is imported in a process of its own, which alone has the forced devices.
"""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from mlsysim.errors import InputError
from mlsysim.hlo.export.recipe import Recipe

__all__ = ["Recipe", "export"]

_SECONDS = 600.0


def export(recipe: Recipe) -> str:
    """StableHLO text of one training step.

    Parameters
    ----------
    recipe : Recipe
        Model, parallelism, devices, sizes and stage.

    Returns
    -------
    str
        Of stage ``partitioned``, one device's program with its collectives; of stage ``annotated``, the program of the
        whole mesh with shardings, which a compiler partitions.

    Raises
    ------
    InputError
        Without JAX, or when JAX refuses the program.
    """
    if importlib.util.find_spec("jax") is None:
        raise InputError("exporting needs JAX: install the extra 'hlo' (mlsysim-book[hlo])")
    kept = [flag for flag in os.environ.get("XLA_FLAGS", "").split() if "host_platform_device_count" not in flag]
    flags = " ".join([*kept, f"--xla_force_host_platform_device_count={recipe.devices}"])
    package = str(Path(__file__).parents[3])  # the process finds the same mlsysim
    path = os.pathsep.join(p for p in (package, os.environ.get("PYTHONPATH", "")) if p)
    environment = os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu", "PYTHONPATH": path}
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "program.mlir"
        try:
            done = subprocess.run(
                [sys.executable, "-m", "mlsysim.hlo.export", str(made)],
                input=json.dumps(recipe.to_dict()),
                capture_output=True,
                text=True,
                env=environment,
                timeout=_SECONDS,
            )
        except subprocess.TimeoutExpired:
            raise InputError(
                f"export: not lowered within {_SECONDS:.0f} s; export fewer layers, or scan them"
            ) from None
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            raise InputError(f"{reason}" if done.returncode == 2 else f"export: JAX says: {reason[:300]}")
        return made.read_text(encoding="utf-8")
