"""Print what XLA's own cost analysis says of programs in StableHLO text, as rows of mlsysim/hlo/work/xla_counts.toml.

    python scripts/maintain/count_xla.py FILE.mlir ...        needs the extra `hlo`

The module is analysed as it stands: nothing is compiled, so nothing is fused or folded that was not before.
"""

import sys
from pathlib import Path


def count(text: str) -> dict[str, int]:
    """FLOPs, transcendentals and bytes accessed of one module."""
    import jax
    from jaxlib import _jax, xla_client
    from jaxlib.mlir import ir

    from mlsysim.hlo.reader import stablehlo

    _, context = stablehlo._bindings()
    with context:
        plain = str(ir.Module.parse(text, context))
    translate = xla_client._xla.mlir.mlir_module_to_xla_computation
    module = translate(plain, use_tuple_args=False, return_tuple=False).get_hlo_module()
    found = _jax.hlo_module_cost_analysis(jax.devices("cpu")[0].client, module)
    return {key: int(found.get(name, 0)) for key, name in _NAMES.items()}


_NAMES = {"flops": "flops", "transcendentals": "transcendentals", "bytes": "bytes accessed"}

if __name__ == "__main__":
    for name in sys.argv[1:]:
        path = Path(name)
        row = ", ".join(f"{key} = {value}" for key, value in count(path.read_text(encoding="utf-8")).items())
        print(f'"{path.stem}" = {{ {row} }}')
