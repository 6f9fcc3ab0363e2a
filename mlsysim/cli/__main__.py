"""``python -m mlsysim.cli``."""

from mlsysim.cli import main

raise SystemExit(main())
