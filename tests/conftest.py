"""Settings that all tests share."""

from __future__ import annotations

import os
from pathlib import Path

# Simulations that a test compiles are kept with the checkout, so the second run is quick.
os.environ.setdefault("INR_CACHE", str(Path(__file__).resolve().parents[1] / ".cache"))
