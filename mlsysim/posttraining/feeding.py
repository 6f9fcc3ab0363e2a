"""Feeding a job: what its devices must be able to read."""

from mlsysim._numeric import Num
from mlsysim.equations import equation


@equation("eq-reader-rate", formula="devices * sample_rate * sample_bytes")
def reader_rate(devices: Num, sample_rate: Num, sample_bytes: Num) -> Num:
    """Bytes per second that a job reads from its storage.

    Formula: R = n f d.

    Parameters
    ----------
    devices : float or array, 1
        Devices n that train.
    sample_rate : float or array, 1/s
        Samples (images, volumes, tokens) that a device works through in a second, f.
    sample_bytes : float or array, byte
        What one of them takes where it is stored, d.

    Returns
    -------
    float or array, byte/s

    Assumptions: each sample is read once, by one device, from the storage and not from a cache.

    >>> reader_rate(devices=1024, sample_rate=10e3, sample_bytes=4) / 1e6  # text: 10,000 tokens a second each
    40.96

    Source: mlperf2025storage, Submission_guidelines.md, sec. 2.1; samples of a batch over its computation time.
    """
    return devices * sample_rate * sample_bytes
