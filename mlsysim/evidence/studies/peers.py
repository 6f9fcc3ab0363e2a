"""What scripts/maintain/peers/compare_peers.py found: a package of the same name beside this one, on the same questions and the same machine."""

from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

from mlsysim.catalog.sourced import shipped_toml
from mlsysim.evidence.metrics import signed_error
from mlsysim.results import Result


@dataclass(frozen=True)
class PeerCase(Result):
    """One question, what was measured or follows by arithmetic, and both answers, in one unit."""

    what: str
    kind: str
    unit: str
    truth: float
    basis: str  # "measured" or "closed form"
    source: str
    where: str
    function: str  # of the peer, as installed
    ours: float
    peer: float

    @property
    def errors(self) -> tuple[float, float]:
        """Signed errors, ours and the peer's."""
        return signed_error(self.ours, self.truth), signed_error(self.peer, self.truth)


@dataclass(frozen=True)
class PeerSpeed(Result):
    """A time or a rate of both; the peer has no answer where it has no such call."""

    what: str
    unit: str
    ours: float
    peer: float | None


@dataclass(frozen=True)
class PeerComparison(Result):
    """Everything that one run of the script printed, with its date and conditions."""

    conditions: MappingProxyType[str, str]
    speeds: tuple[PeerSpeed, ...]
    cases: tuple[PeerCase, ...]


@cache
def comparison() -> PeerComparison:
    """The shipped comparison.

    >>> comparison().conditions["peer"]
    'mlsysim==0.3.0'
    """
    raw: dict[str, Any] = shipped_toml(__package__, "peers.toml")
    return PeerComparison(
        MappingProxyType(raw["conditions"]),
        tuple(PeerSpeed(**{"peer": None, **s}) for s in raw["speed"]),
        tuple(PeerCase(**{"where": "", **c}) for c in raw["case"]),
    )
