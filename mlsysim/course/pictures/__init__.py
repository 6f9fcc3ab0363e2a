"""Drawings of things, made from the objects that the library computes with: what is drawn cannot contradict what is timed.

A picture is a public function of a module below that returns a ``Scene`` or ``Frames``; it needs no other registration.
"""

import re
from pathlib import Path

from mlsysim._lazy import lazily

_PICTURE = re.compile(r"^def ([a-z]\w*)\((?:(?!^def ).)*?\) -> (?:Scene|Frames):$", re.M | re.S)
_FOLDER = Path(__file__).parent
_HOMES = {
    name: ".".join(path.relative_to(_FOLDER).with_suffix("").parts)
    for path in sorted(_FOLDER.rglob("*.py"))
    for name in _PICTURE.findall(path.read_text(encoding="utf-8"))
}
__all__ = sorted(_HOMES)
__getattr__, __dir__ = lazily(__name__, _HOMES)
