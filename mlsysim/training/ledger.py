"""What evaluates the equations of a step, and the sizes that all of them share."""

from collections.abc import Callable

from mlsysim._numeric import Num
from mlsysim._numeric.traced import called

ELEMENT_BYTES = 2.0  # activations and working weights are 16-bit, also when the products run in FP8
GRADIENT_BYTES = 4.0  # gradients of whole weights are added up in FP32, those of sharded weights in 16 bits
FLASH_BACKWARD = 2.5  # products of an attention backward over those of its forward: 5 against 2


class Ledger:
    """Evaluates equations by name; where a number is traced, its line has that name."""

    def __init__(self, bare: bool) -> None:
        self.bare = bare

    def __call__(self, name: str, function: Callable[..., Num], **arguments: Num) -> Num:
        # The one place where the registry's checks are passed over: on arrays of plans they cost more than the equations,
        # and each block would repeat them. Plan and catalogue have checked what comes in.
        if self.bare:
            return getattr(function, "__wrapped__", function)(**arguments)
        return called(function(**arguments), name)

    def lacks(self, number: Num) -> bool:
        """Whether a count is zero for a single plan, so that its term is skipped."""
        return not self.bare and bool(number == 0)
