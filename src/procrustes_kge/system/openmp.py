"""Idle threads shall soon sleep. Must be imported before PyTorch: its thread library looks once, when it is loaded.

A thread of OpenMP that waits for another spins, burning its core, for milliseconds. Where cores are busy with anything
else, two threads so keep each other from working: several times slower than threads that sleep, and slower than one
alone. Spinning for some microseconds costs nothing on an idle machine and takes that away. Whoever has set a policy of
their own keeps it; where PyTorch has been loaded before, nothing changes.
"""

from __future__ import annotations

import os

if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")
