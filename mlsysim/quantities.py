"""Optional pint front end (extra ``units``): call any equation with units and get units back.

The package's own definitions file is used, because in stock pint a byte has no dimension (``1 byte + 1`` is 9) and
``Gb/s`` reads as gilbert per second.
"""

from collections.abc import Callable
from functools import cache, wraps
from importlib.resources import as_file, files
from typing import Any

from mlsysim.equations import REGISTRY, Equation
from mlsysim.errors import InputError


@cache
def unit_registry() -> Any:
    """The pint registry over our base units byte, FLOP, second, joule, kilogram, litre, token and USD.

    >>> u = unit_registry()
    >>> (3.35 * u("TB/s")).to("GB/ms").magnitude
    3.35
    """
    import pint

    with as_file(files("mlsysim") / "pint_units.txt") as path:
        return pint.UnitRegistry(str(path), on_redefinition="raise")


def pint_unit(text: str) -> Any:
    """A unit of the equation registry, such as ``FLOP/byte`` or ``1``, as a pint unit."""
    return unit_registry().parse_units("" if text == "1" else text)


def _equation_of(function: Callable[..., Any]) -> Equation:
    for equation in REGISTRY.values():
        if equation.function is function:
            return equation
    raise InputError(f"function: {getattr(function, '__name__', function)!r} is not a registered equation")


def with_units(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap an equation so that it takes quantities (or strings such as ``"3.35 TB/s"``) and returns one.

    Units come from the equation registry, so nothing is stated twice. Plain numbers are refused unless the
    argument is dimensionless.

    >>> from mlsysim import roofline
    >>> print(with_units(roofline.memory_time)("1 GB", "2 TB/s").to("ms"))
    0.5 millisecond
    """
    equation = _equation_of(function)
    u = unit_registry()

    def magnitude(name: str, value: Any) -> Any:
        unit = pint_unit(equation.units[name])
        try:
            return (u.Quantity(value) if not hasattr(value, "to") else value).to(unit).magnitude
        except Exception as error:  # pint's own errors come from several unrelated classes
            need = equation.units[name]
            raise InputError(f"{equation.name}: {name} = {str(value)[:40]!r} is not in {need}: {error}") from error

    @wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        given = dict(zip(equation.units, args, strict=False)) | kwargs
        return u.Quantity(function(**{n: magnitude(n, v) for n, v in given.items()}), pint_unit(equation.result))

    return wrapped
