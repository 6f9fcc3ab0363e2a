"""Old names: they work for one version and say the new one. Modules, attributes, arguments and fields; options are in ``cli``.

To rename: change the name everywhere, and put the old one into :data:`MODULES`, into ``@renamed`` of the function or class that
had it, or into ``Parser.was`` of the command. What stands here goes with the next version.
"""

import sys
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, TypeVar

Named = TypeVar("Named", bound=Callable[..., Any])


def _below(old: str, new: str, names: str) -> dict[str, str]:
    return {f"{old}.{name}": f"{new}.{name}" for name in names.split()}


_HLO, _STEPS, _VALIDATION = "mlsysim.hlo", "mlsysim.serving_steps", "mlsysim.validation"
# Modules that stand elsewhere now.
MODULES: Mapping[str, str] = {
    "mlsysim.fidelity": _STEPS,
    **_below("mlsysim.fidelity", _STEPS, "batches equations expert_layer experts patterns products rates rungs step tables terms"),
    **_below("mlsysim.fidelity", f"{_STEPS}.measuring", "documents microbench microbench_gpu profiles tiny"),
    **_below("mlsysim.fidelity", f"{_STEPS}.calibrating", "calibration residuals"),
    **_below("mlsysim.fidelity", f"{_STEPS}.claims", "comparisons expert_claims hypotheses infersim measured sweeps"),
    **_below(_HLO, f"{_HLO}.reader", "calls form groups limits opset program stablehlo trips"),
    **_below(_HLO, f"{_HLO}.work", "convolution costs counts equations products"),
    **_below(_HLO, f"{_HLO}.fusing", "fusion graph items joining slicing"),
    **_below(_HLO, f"{_HLO}.profiler", "clone extract indices"),
    **_below(f"{_HLO}.estimators", f"{_HLO}.profiler", "profiled profiling xla_worker"),
    **_below(_HLO, f"{_HLO}.estimators", "systolic"),
    **_below(_VALIDATION, f"{_VALIDATION}.predictors", "fitting"),
    **_below(_VALIDATION, f"{_VALIDATION}.scoring", "baselines comparing conformal scores"),
    **_below(
        _VALIDATION,
        f"{_VALIDATION}.measured",
        "checks collective_checks measurements memory_checks network_checks plans serving_checks serving_runs",
    ),
    **_below(
        _VALIDATION,
        f"{_VALIDATION}.studies",
        "brackets case_runs case_studies costs experiments footprints ladder peers searched shipped tiers",
    ),
}  # fmt: skip


def warn(old: str, new: str, level: int = 3) -> None:
    """Say that an old name was used, at the line that used it (``level`` as warnings.warn counts it)."""
    warnings.warn(f"{old} is now {new}; the old name goes with the next version", DeprecationWarning, level)


class _Moved:
    """Finds an old module under its new name: both are one module, so that nothing is defined twice."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        return ModuleSpec(name, self) if name in MODULES else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> None:
        """As usual: it is thrown away."""

    def exec_module(self, module: Any) -> None:
        old = module.__name__
        warn(old, MODULES[old])
        sys.modules[old] = import_module(MODULES[old])
        parent, _, child = old.rpartition(".")
        if child in vars(sys.modules[parent]):
            _keep(sys.modules[parent], child)


def _keep(parent: ModuleType, child: str) -> None:
    """What a package has of that name stays: ``import`` is about to put the module there, once."""
    before = type(parent)

    class Keeping(before):  # type: ignore[misc, valid-type]
        def __setattr__(self, name: str, value: object) -> None:
            object.__setattr__(self, "__class__", before)
            if name != child:
                setattr(self, name, value)

    parent.__class__ = Keeping


def install() -> None:
    """Let ``import`` find what moved. First in line: an old package is its new one, in whose folder others would look."""
    sys.meta_path.insert(0, _Moved())


def moved(module: str, home: str, *names: str) -> Callable[[str], Any]:
    """The ``__getattr__`` of a module whose names stand in another now."""

    def __getattr__(name: str) -> Any:
        if name in names:
            warn(f"{module}.{name}", f"{home}.{name}")
            return getattr(import_module(home), name)
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return __getattr__


def passed_on(owner: str, names: Mapping[str, str], given: Mapping[str, Any], level: int = 3) -> dict[str, Any]:
    """Arguments under their new names, with a warning for each old one."""
    from mlsysim.errors import InputError

    found = dict(given)
    for old in names.keys() & given.keys():
        new = names[old]
        if new in given:
            raise InputError(f"{owner}: {old} is the old name of {new}; give {new} alone")
        warn(f"{owner}({old}=...)", f"{new}=...", level + 1)
        found[new] = found.pop(old)
    return found


def renamed(**names: str) -> Callable[[Named], Named]:
    """Let a function, or a class and its attributes, be used with old names: ``@renamed(old="new")``.

    What new names do costs a frame of the interpreter and no look at the arguments: only the ``TypeError`` of an unknown one is
    looked into. So it is not for a function that takes any keyword. Equations have it for nothing, as ``renamed`` of ``@equation``.

    >>> @renamed(prompt="input_len")
    ... def tokens(input_len, output_len):
    ...     return input_len + output_len
    >>> tokens(input_len=3, output_len=4)
    7
    """

    def decorate(named: Any) -> Any:
        from functools import wraps

        function, owner = (vars(named)["__init__"] if isinstance(named, type) else named), named.__name__

        @wraps(function)
        def call(*args: Any, **given: Any) -> Any:
            try:
                return function(*args, **given)
            except TypeError:
                if names.keys().isdisjoint(given):
                    raise
            return function(*args, **passed_on(owner, names, given))

        if not isinstance(named, type):
            return call
        named.__init__ = call  # type: ignore[misc]
        return attributes(**names)(named)

    return decorate


def attributes(**names: str) -> Callable[[type[Any]], type[Any]]:
    """Let attributes of a class be read under old names; where the new ones are read it costs nothing."""

    def decorate(cls: type[Any]) -> type[Any]:
        def __getattr__(self: Any, name: str) -> Any:
            if name in names:
                warn(f"{cls.__name__}.{name}", names[name])
                return getattr(self, names[name])
            raise AttributeError(f"{cls.__name__!r} object has no attribute {name!r}")

        cls.__getattr__ = __getattr__
        return cls

    return decorate
