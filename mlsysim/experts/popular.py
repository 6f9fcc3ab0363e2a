"""Routing imbalance: how many experts a batch activates when some are chosen more often than others, and how full the fullest device is."""

from mlsysim._numeric import Num, expm1, log, log1p
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


@equation(
    "eq-fullest-device",
    formula="1 + sqrt(2 * log(devices) * (routing_cv2 * devices / experts + chance))",
    domain={"devices": AT_LEAST_ONE, "experts": AT_LEAST_ONE},
    relations=("devices <= experts",),
)
def fullest_device(devices: Num, experts: Num, routing_cv2: Num = 0.0, chance: Num = 0.0) -> Num:
    """Tokens of the fullest of the devices that share the experts, over the mean: how much longer everybody waits for it.

    Formula: 1 + sqrt(2 ln n (v n / E + 1 / p)).

    Parameters
    ----------
    devices : float or array, 1
        Devices n that the experts are spread over, at most E.
    experts : float or array, 1
        Routed experts E of the layer, or places for them where popular ones have copies.
    routing_cv2 : float or array, 1
        Squared variation v of how popular experts are: variance over squared mean; 0: all alike.
    chance : float or array, 1
        What chance adds to the squared variation of a device's tokens: 1 / p for p pairs of a token and an expert each.

    Returns
    -------
    float or array, 1

    Assumptions: loads of devices are normal and independent of each other; the mean of the largest of n such numbers is at most
    this, and that of a skewed popularity may be a little above. Experts lie on devices at random, none has a copy.

    >>> round(fullest_device(8, 256, chance=1 / 512), 2), round(fullest_device(64, 256, 0.4, 1 / 512), 2)
    (1.09, 1.92)

    Source: boucheron2013concentration, theorem 2.5; for the largest of n normal numbers, the variance of a device is the chapter's.
    """
    return 1.0 + (2.0 * log(devices) * (routing_cv2 * devices / experts + chance)) ** 0.5
