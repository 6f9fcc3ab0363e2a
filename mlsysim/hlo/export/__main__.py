"""The process that lowers: a recipe as JSON on standard input, StableHLO text into the file that is named."""

import json
import sys
from pathlib import Path

from mlsysim.errors import MlsysimError
from mlsysim.hlo.export.recipe import Recipe


def main() -> int:
    given = json.load(sys.stdin)
    given["widths"] = tuple(given["widths"])
    try:
        from mlsysim.hlo.export.lower import lower

        Path(sys.argv[1]).write_text(lower(Recipe(**given)), encoding="utf-8")
    except MlsysimError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
