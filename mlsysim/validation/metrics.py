"""The one definition of error that tables, tests and the command line share."""

from collections.abc import Sequence

from mlsysim._numeric import Num
from mlsysim.equations import NON_NEGATIVE, POSITIVE, Domain, check_argument

_PREDICTED, _MEASURED = Domain.of(NON_NEGATIVE), Domain.of(POSITIVE)


def signed_error(predicted: Num, measured: Num) -> Num:
    """Relative error, predicted/measured - 1: negative when the prediction is too small.

    >>> signed_error(8.0, 10.0)
    -0.19999999999999996
    """
    check_argument("signed_error", "predicted", predicted, "the unit of measured", _PREDICTED)
    check_argument("signed_error", "measured", measured, "the unit of predicted", _MEASURED)
    return predicted / measured - 1


def mean(values: Sequence[float]) -> float:
    """Arithmetic mean of one value or more.

    >>> mean([1.0, 3.0])
    2.0
    """
    return sum(values) / len(values)
