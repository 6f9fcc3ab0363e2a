"""Sizing a job from a form of texts: what fits, how fast it is, what it costs. It calls mlsysim.api and computes nothing of its own.

>>> from mlsysim.course.sizing import size
>>> size({"task": "fits", "model": "Llama-3.1-8B", "device": "H100"})["answer"]["fits"]
True
"""

from mlsysim.course.sizing.commands import read_command as read_command
from mlsysim.course.sizing.exports import export as export
from mlsysim.course.sizing.exports import size as size
from mlsysim.course.sizing.fields import FIELDS as FIELDS
from mlsysim.course.sizing.fields import TASKS as TASKS
from mlsysim.course.sizing.fields import Field as Field
from mlsysim.course.sizing.fields import Job as Job
from mlsysim.course.sizing.fields import job as job

__all__ = ["FIELDS", "TASKS", "Field", "Job", "export", "job", "read_command", "size"]


def __dir__() -> list[str]:
    return __all__
