"""Servers that work on one request at a time: the classic queue, with its tail and what unequal times cost."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlsysim._numeric import Num, all_true, is_array
from mlsysim.capacity.queues import BELOW_ONE, erlang_b, little, utilisation, waiting_share
from mlsysim.capacity.waiting import general_wait, mean_wait, wait_quantile
from mlsysim.equations import POSITIVE, Domain, check_argument
from mlsysim.errors import InputError
from mlsysim.results import Explanation, Input, Result, Term, format_rows, format_value, share

if TYPE_CHECKING:
    from mlsysim.drawing import Drawing

_LOADED = {
    True: "the load: above 80 % every further request lengthens the wait of all",
    False: "nothing: there is room",
}
_QUANTILE, _POSITIVE = Domain.of(BELOW_ONE), Domain.of(POSITIVE)


@dataclass(frozen=True)
class Queue(Result):
    """What :func:`queue` returns; SI units, floats or arrays."""

    NUMBERS = (
        "rate_per_s service_time_s servers variation arrival_variation quantile capacity_per_s utilisation blocking "
        "delayed wait_s exponential_wait_s wait_quantile_s inside"
    )

    rate: Num
    service_time: Num
    servers: Num
    variation: Num
    arrival_variation: Num
    quantile: Num
    blocking: Num
    utilisation: Num
    delayed: Num  # share of the requests that wait
    exponential_wait: Num  # mean wait of M/M/c, s
    wait: Num  # mean wait with the given variations, s
    wait_quantile: Num  # of M/M/c, s

    @property
    def capacity(self) -> Num:
        return self.servers / self.service_time

    @property
    def inside(self) -> Num:
        """Requests waiting or being served, on average."""
        return little(self.rate, self.wait + self.service_time)

    def summary(self) -> list[str]:
        return format_rows(
            f"{format_value(self.servers, '1')} servers at {format_value(self.rate, '1')} requests/s: mean wait {format_value(self.wait, 's')}",
            ("waiting", f"{share(self.delayed)} of the requests; {format_value(self.inside, '1')} inside on average"),
            ("quantile", f"{share(self.quantile)} wait at most {format_value(self.wait_quantile, 's')} (M/M/c)"),
            ("utilisation", f"{share(self.utilisation)} of {format_value(self.capacity, '1')} requests/s"),
            ("binds", "" if is_array(self.utilisation) else _LOADED[self.utilisation > 0.8]),
        )

    def chart(self) -> "Drawing | None":
        """A request's mean time, waiting and being served."""
        from mlsysim.drawing import shapes

        return shapes.terms("mean time of a request", {"wait": self.wait, "service": self.service_time})

    def explain(self) -> Explanation:
        """Each step with its equation and the numbers in it."""
        x = {"delayed": self.delayed, "capacity": self.capacity, "utilisation": self.utilisation}
        varied = {
            "exponential_wait": self.exponential_wait,
            "variation": self.variation,
            "arrival_variation": self.arrival_variation,
        }
        return Explanation(
            title="requests that queue for servers",
            terms=(
                Term("utilisation", self.utilisation, "eq-utilisation", {"rate": self.rate, "capacity": self.capacity}),
                Term(
                    "share that waits",
                    self.delayed,
                    "eq-erlang-c",
                    {"blocking": self.blocking, "utilisation": self.utilisation},
                ),
                Term("mean wait, M/M/c", self.exponential_wait, "eq-mean-wait", x),
                Term("mean wait", self.wait, "eq-general-wait", varied),
                Term("quantile of M/M/c", self.wait_quantile, "eq-wait-quantile", {**x, "quantile": self.quantile}),
            ),
            inputs=(
                Input("rate", self.rate, "1/s"),
                Input("service time", self.service_time, "s"),
                Input("servers", self.servers, "1"),
                Input("variation", self.variation, "1"),
                Input("arrival variation", self.arrival_variation, "1"),
            ),
            notes=("The quantile is exact for Poisson arrivals and exponential service only.",),
        )


def queue(
    rate: Num,
    service_time: Num,
    servers: Num,
    *,
    quantile: Num = 0.99,
    variation: Num = 1.0,
    arrival_variation: Num = 1.0,
) -> Queue:
    """Requests that queue for one of c servers, each of which works on one request at a time.

    Parameters
    ----------
    rate : float or array, 1/s
        Requests per second.
    service_time : float or array, s
        Mean time that a server works on a request.
    servers : float or array, 1
        Whole number of servers.
    quantile : float or array, 1
        Share of the requests that ``wait_quantile`` is for.
    variation, arrival_variation : float or array, 1
        Coefficients of variation of the service times and of the times between arrivals.

    Returns
    -------
    Queue
        Frozen result with ``utilisation``, ``delayed``, ``wait``, ``wait_quantile``, ``inside`` and ``explain()``.

    Raises
    ------
    InputError
        A value out of range; a rate that the servers cannot carry.

    Assumptions: those of eq-erlang-c, eq-wait-tail and eq-general-wait.

    >>> q = queue(rate=9.0, service_time=0.2, servers=2)
    >>> round(q.wait * 9.0, 3)
    7.674

    Source: cooper1981queueing.
    """
    check_argument("queue", "rate", rate, "1/s", _POSITIVE)
    check_argument("queue", "service_time", service_time, "s", _POSITIVE)
    check_argument("queue", "quantile", quantile, "1", _QUANTILE)
    blocking = erlang_b(servers, rate * service_time)
    capacity = servers / service_time
    rho = utilisation(rate, capacity)
    if not all_true(rho < 1):
        raise InputError(f"queue: rate = {rate} must be below servers / service_time = {capacity}")
    delayed = waiting_share(blocking, rho)
    plain = mean_wait(delayed, capacity, rho)
    return Queue(
        rate=rate,
        service_time=service_time,
        servers=servers,
        variation=variation,
        arrival_variation=arrival_variation,
        quantile=quantile,
        blocking=blocking,
        utilisation=rho,
        delayed=delayed,
        exponential_wait=plain,
        wait=general_wait(plain, variation, arrival_variation),
        wait_quantile=wait_quantile(delayed, capacity, rho, quantile),
    )
