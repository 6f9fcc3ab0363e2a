"""What a service promises."""

from dataclasses import dataclass, fields

from mlsysim import units
from mlsysim.equations import POSITIVE, Domain, check_argument
from mlsysim.errors import InputError

_POSITIVE = Domain.of(POSITIVE)


@dataclass(frozen=True)
class SLO:
    """Targets of a service, and the share of the requests that must meet them.

    Attributes
    ----------
    ttft, itl, e2e : float or str, s, optional
        Time to the first token, mean time between tokens, time to the last token; a text has its unit, as in ``"450 ms"``.
    percentile : float, 1
        Share of the requests, 0.99 unless given.

    >>> SLO(ttft=0.5, itl="30 ms").itl
    0.03
    """

    ttft: float | None = None
    itl: float | None = None
    e2e: float | None = None
    percentile: float = 0.99

    def __post_init__(self) -> None:
        for name in ("ttft", "itl", "e2e"):
            value = getattr(self, name)
            if value is not None:
                value = units.parse(value, "s", f"SLO: {name}") if isinstance(value, str) else value
                check_argument("SLO", name, value, "s", _POSITIVE)
                object.__setattr__(self, name, float(value))
        if (
            isinstance(self.percentile, bool)
            or not isinstance(self.percentile, (int, float))
            or not 0 < self.percentile < 1
        ):
            raise InputError(
                f"SLO: percentile = {self.percentile!r} must lie above 0 and below 1; 0.99 is the 99th percentile"
            )

    @property
    def targets(self) -> dict[str, float]:
        """The targets that were set, s.

        >>> SLO(itl=0.03).targets
        {'itl': 0.03}
        """
        given = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "percentile"}
        return {name: value for name, value in given.items() if value is not None}

    def __str__(self) -> str:
        parts = ", ".join(f"{name.upper()} {units.format(value, 's')}" for name, value in self.targets.items())
        return f"{parts or 'no target'} for {100 * self.percentile:g} % of the requests"


def check_slo(owner: str, slo: object) -> None:
    """Refuse targets that are no :class:`SLO`."""
    if slo is not None and not isinstance(slo, SLO):
        raise InputError(
            f"{owner}: slo = {str(slo)[:40]!r} is no SLO; write for example slo=mlsysim.SLO(ttft=0.5, itl=0.03)"
        )
