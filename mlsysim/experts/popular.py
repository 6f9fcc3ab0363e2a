"""Routing imbalance: how many experts a batch activates when some are chosen more often than others."""

from mlsysim._numeric import Num, expm1, log1p
from mlsysim.equations import AT_LEAST_ONE, POSITIVE, equation


@equation(
    "eq-uneven-experts",
    formula="-experts * expm1(-log1p(-routing_cv2 * tokens * log1p(-top_k / experts)) / routing_cv2)",
    domain={"experts": AT_LEAST_ONE, "top_k": AT_LEAST_ONE, "routing_cv2": POSITIVE},
    relations=("top_k < experts",),
)
def uneven_experts_hit(experts: Num, top_k: Num, tokens: Num, routing_cv2: Num) -> Num:
    """Expected number of distinct experts that a batch activates in one layer, when experts are not equally popular.

    Formula: E_hit = E (1 - (1 - v T ln(1 - k / E))^(-1 / v)).

    Parameters
    ----------
    experts : float or array, 1
        Routed experts E of the layer.
    top_k : float or array, 1
        Experts k per token, fewer than E.
    tokens : float or array, 1
        Tokens T that are routed together.
    routing_cv2 : float or array, 1
        Squared variation v of how popular experts are: variance over squared mean; towards 0 all are alike.

    Returns
    -------
    float or array, 1

    Assumptions: popularities follow a gamma distribution; a token's choice does not depend on those of others.

    >>> round(uneven_experts_hit(256, 8, 64, 0.4), 1), round(uneven_experts_hit(256, 8, 64, 1e-6), 1)
    (198.1, 222.4)

    Source: xekalaki2014overdispersion, sec. 1; for mixtures of unlike rates, the sum over experts is chapter 24's.
    """
    return -experts * expm1(-log1p(-routing_cv2 * tokens * log1p(-top_k / experts)) / routing_cv2)
