"""Numbers in prose: one module per chapter, each with ``numbers()``; the module's name is the key in ``_variables.yml``."""

from mlsysim import units


def share(value: float, digits: int = 1) -> str:
    """A fraction as a percentage without a sign."""
    return units.percent(value, digits, signed=False)


def whole_share(value: float, digits: int = 0) -> str:
    """The same in whole per cent, unless more digits are asked for."""
    return share(value, digits)
