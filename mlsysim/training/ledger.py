"""What evaluates the equations of a step and writes them down, and the sizes that all of them share."""

from collections.abc import Callable
from functools import cache

from mlsysim._numeric import Num, is_array
from mlsysim._numeric.traced import called
from mlsysim.equations import REGISTRY, signature_of
from mlsysim.results import Term

ELEMENT_BYTES = 2.0  # activations and working weights are 16-bit, also when the products run in FP8
GRADIENT_BYTES = 4.0  # gradients of whole weights are added up in FP32, those of sharded weights in 16 bits
FLASH_BACKWARD = 2.5  # products of an attention backward over those of its forward: 5 against 2


class Ledger:
    """Evaluates equations; when asked to, writes down each with its numbers, for ``explain()``."""

    def __init__(self, bare: bool, terms: list[Term] | None = None) -> None:
        self.bare = bare
        self.terms = terms

    def __call__(self, name: str, function: Callable[..., Num], **arguments: Num) -> Num:
        # The one place where the registry's checks are passed over: on arrays of plans they cost more than the equations,
        # and each block would repeat them. Plan and catalogue have checked what comes in.
        value = getattr(function, "__wrapped__", function)(**arguments) if self.bare else function(**arguments)
        if self.terms is not None and not _absent(value, arguments):
            given = signature_of(function).bind(**arguments)
            given.apply_defaults()
            self.terms.append(Term(name, value, _label(function), given.arguments))
        return called(value, name)

    def lacks(self, number: Num) -> bool:
        """Whether a single plan lacks what there are so many of: that takes no time, and nobody need work it out."""
        return not self.bare and bool(number == 0)


def _absent(value: Num, arguments: dict[str, Num]) -> bool:
    """Whether a term says nothing: a message that nobody sends and its hiding, a part that the model does not have."""
    return not is_array(value) and value == 0 and not arguments.get("communication", 0)


@cache
def _label(function: Callable[..., Num]) -> str:
    """The label under which an equation is registered."""
    return next(label for label, one in REGISTRY.items() if one.function is function)
