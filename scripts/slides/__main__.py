"""``python scripts/slides [OUT]``: write the slides of every chapter; ``make slides`` does."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from slides.decks import main  # noqa: E402

raise SystemExit(main())
