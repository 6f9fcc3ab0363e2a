"""Two kinds of checkpoints at once, near and far; and a job that goes on with fewer devices while a part is repaired."""

from mlsysim._numeric import Num
from mlsysim.equations import POSITIVE, equation

_SHARE = "[0, 1]"


@equation(
    "eq-goodput-two-tiers",
    formula="1 - near_stall / near_interval - far_stall / far_interval - (restart + near_share * near_interval / 2 + (1 - near_share) * far_interval / 2) / mtbf",
    domain={"near_interval": POSITIVE, "far_interval": POSITIVE, "near_share": _SHARE, "mtbf": POSITIVE},
    relations=(
        "near_stall / near_interval + far_stall / far_interval + (restart + near_share * near_interval / 2 + (1 - near_share) * far_interval / 2) / mtbf <= 1",
    ),
)
def two_tier_goodput(
    near_interval: Num,
    near_stall: Num,
    far_interval: Num,
    far_stall: Num,
    near_share: Num,
    mtbf: Num,
    restart: Num = 0.0,
) -> Num:
    """Share of the time that is work that lasts, with frequent copies in other hosts' memory and rare ones in storage.

    Formula: G = 1 - d_1/t_1 - d_2/t_2 - (R + q t_1/2 + (1 - q) t_2/2) / M.

    Parameters
    ----------
    near_interval : float or array, s
        Work t_1 between two copies into memory.
    near_stall : float or array, s
        Time d_1 for which such a copy keeps the job from working.
    far_interval : float or array, s
        Work t_2 between two checkpoints in storage.
    far_stall : float or array, s
        Time d_2 for which one of these does.
    near_share : float or array, 1
        Share q of the failures after which the copies in memory are still whole.
    mtbf : float or array, s
        Mean time M between failures of the whole job.
    restart : float or array, s
        Time R from a failure until the job works again.

    Returns
    -------
    float or array, 1

    Raises
    ------
    InputError
        Losses that add up to more than the whole time.

    Assumptions: those of eq-goodput-checkpoint; each failure is of one of two kinds, at random.

    >>> round(two_tier_goodput(100.0, 1.0, 10_000.0, 50.0, 0.99, 20_000.0), 4)
    0.98

    Source: wang2023gemini, copies in hosts' memory first, storage as the last resort; the first
    order is derived in the chapter.
    """
    lost = near_share * near_interval / 2 + (1 - near_share) * far_interval / 2
    return 1 - near_stall / near_interval - far_stall / far_interval - (restart + lost) / mtbf


@equation(
    "eq-elastic-loss",
    formula="2 * reconfigure + lost_share * (repair - reconfigure)",
    domain={"lost_share": _SHARE},
    relations=("reconfigure <= repair",),
)
def elastic_loss(repair: Num, reconfigure: Num, lost_share: Num) -> Num:
    """Work, in time of the whole job, that a failure costs a job which goes on without the part that failed.

    Formula: lost = 2 c + l (r - c).

    Parameters
    ----------
    repair : float or array, s
        Time r until the part is back; a job that waits for it loses all of this.
    reconfigure : float or array, s
        Time c in which the job stands still to go on without the part, and once more to take it in again.
    lost_share : float or array, 1
        Share l of the pace that is missing in between.

    Returns
    -------
    float or array, s

    Assumptions: the pace is in proportion to the parts at work; work since the last checkpoint is lost either way.

    >>> elastic_loss(3600.0, 60.0, 0.1)
    474.0

    Source: torchft2025llama, the groups of replicas that go on without one; the balance is derived in the chapter.
    """
    return 2 * reconfigure + lost_share * (repair - reconfigure)
