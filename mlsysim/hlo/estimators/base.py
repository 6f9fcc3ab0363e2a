"""The Compute API: what every estimator of a compute region's time offers, after hespas2026, sec. III-B."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, runtime_checkable

from mlsysim.errors import InputError
from mlsysim.hlo.fusing.slicing import Region
from mlsysim.results import Result

Arguments: TypeAlias = Mapping[str, str | int | float | bool]


@dataclass(frozen=True)
class RunTime(Result):
    """The time of one compute region in s, and who says so.

    ``low`` and ``high`` are the spread over repeats of a measurement; a closed form has none, and both equal ``seconds``.
    """

    seconds: float
    low: float
    high: float
    source: str  # name of the estimator that priced it
    parts: Mapping[str, float] = field(
        default_factory=dict
    )  # of a composite: seconds by the estimator that priced them

    def __post_init__(self) -> None:
        if not (0 <= self.low <= self.seconds <= self.high and math.isfinite(self.high)):
            raise InputError(
                f"{self.source}: seconds = {self.seconds!r} with low = {self.low!r} and high = {self.high!r};"
                " a run time needs 0 <= low <= seconds <= high, all finite"
            )

    @classmethod
    def exactly(cls, seconds: float, source: str) -> "RunTime":
        """A time without spread."""
        return cls(seconds, seconds, seconds, source)


@runtime_checkable
class Estimator(Protocol):
    """Prices compute regions on one target.

    An estimator may also have ``canonical(region)``, a JSON value that is equal for regions that it prices equally, in this
    program or another; the cache on disk keys regions by it. Without it the cache describes the work of the kernels. One that
    runs the program's own operations has ``runs_operations = True``, and fusion then leaves them as they are written.
    """

    @property
    def name(self) -> str:
        """As ``--estimator`` takes it, and as it stands in :attr:`RunTime.source`."""
        ...

    def get_run_time_estimate(self, region: Region) -> RunTime:
        """Time of a region of kind ``compute``."""
        ...

    def get_compile_args(self) -> Arguments:
        """What decides the price besides the region: figures of the target, flags and version of the toolchain."""
        ...

    def get_exec_args(self) -> Arguments:
        """What decides how it is run, such as the number of repeats; nothing for one that runs nothing."""
        return {}
