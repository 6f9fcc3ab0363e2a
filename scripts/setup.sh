#!/usr/bin/env bash
# Make .venv and install everything, pinned. uv does it in seconds; where it cannot be had, pip does the same.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}

"$python" - <<'PY' || exit 1
import sys
if sys.version_info < (3, 11):
    sys.exit(f"Python 3.11 or newer is needed, this is {sys.version.split()[0]}; try: make setup PYTHON=python3.12")
PY

[ -x .venv/bin/python ] || "$python" -m venv .venv
.venv/bin/python -m pip install --quiet --disable-pip-version-check uv || echo "setup: uv cannot be installed, using pip" >&2
if [ -x .venv/bin/uv ] && UV_COMPILE_BYTECODE=1 .venv/bin/uv pip install --quiet --python .venv/bin/python -e '.[dev]' -c constraints.txt; then
  echo "setup: .venv is ready (uv)"
else
  .venv/bin/python -m pip install --quiet --disable-pip-version-check -e '.[dev]' -c constraints.txt
  echo "setup: .venv is ready (pip)"
fi
# What the browser tests audit pages with; without npm they say that it is missing.
axe=4.14.1
if command -v npm >/dev/null && ! grep -qs "\"version\": \"$axe\"" node_modules/axe-core/package.json; then
  npm install --silent --no-save --no-package-lock --no-audit --no-fund "axe-core@$axe" || echo "setup: axe-core cannot be had, the access tests will say so" >&2
fi
