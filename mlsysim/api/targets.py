"""Service-level objectives."""

from dataclasses import dataclass, fields

from mlsysim import units
from mlsysim.equations import POSITIVE, Domain, check_argument
from mlsysim.errors import InputError

_POSITIVE = Domain.of(POSITIVE)
_SLOWEST = 5.0  # s a token: beyond, somebody left the unit out


@dataclass(frozen=True)
class SLO:
    """Targets of a service, and the share of the requests that must meet them.

    Attributes
    ----------
    ttft : float or str, s, (0, inf), optional
        Target for the time to the first token, as in ``"450 ms"``.
    itl : float or str, s, (0, inf), optional
        Target for the mean time between tokens, as in ``"40 ms"``.
    e2e : float or str, s, (0, inf), optional
        Target for the time to the last token, as in ``"8 s"``.
    quantile : float, 1, (0, 1)
        Share of the requests that must meet the targets.

    >>> SLO(ttft=0.5, itl="30 ms").itl
    0.03
    """

    ttft: float | None = None
    itl: float | None = None
    e2e: float | None = None
    quantile: float = 0.99

    def __post_init__(self) -> None:
        for name in ("ttft", "itl", "e2e"):
            value = getattr(self, name)
            if value is not None:
                value = units.parse(value, "s", f"SLO: {name}") if isinstance(value, str) else value
                check_argument("SLO", name, value, "s", _POSITIVE)
                object.__setattr__(self, name, float(value))
        if self.itl is not None and self.itl > _SLOWEST:
            raise InputError(
                f"SLO: itl = {self.itl:g} s a token is no pace of a service; for milliseconds write '{self.itl:g} ms'"
            )
        if isinstance(self.quantile, bool) or not isinstance(self.quantile, (int, float)) or not 0 < self.quantile < 1:
            raise InputError(
                f"SLO: quantile = {self.quantile!r} must lie above 0 and below 1; 0.99 is the 99th percentile"
            )

    @property
    def targets(self) -> dict[str, float]:
        """The targets that were set, s.

        >>> SLO(itl=0.03).targets
        {'itl': 0.03}
        """
        given = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "quantile"}
        return {name: value for name, value in given.items() if value is not None}

    def __str__(self) -> str:
        parts = ", ".join(f"{name.upper()} {units.format(value, 's')}" for name, value in self.targets.items())
        return f"{parts or 'no target'} for {100 * self.quantile:g} % of the requests"


def check_slo(owner: str, slo: object) -> None:
    """Refuse targets that are no :class:`SLO`."""
    if slo is not None and not isinstance(slo, SLO):
        raise InputError(
            f"{owner}: slo = {str(slo)[:40]!r} is no SLO; write for example slo=mlsysim.SLO(ttft=0.5, itl=0.03)"
        )
