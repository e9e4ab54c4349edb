"""Idle threads shall sleep. Must be imported before PyTorch: its thread library looks once, when it is loaded.

By default a thread of OpenMP that waits for another spins, burning a core. Where cores are busy with anything else, two
threads then keep each other from working: measured six times slower than threads that sleep, and slower than one.
Whoever has set a policy of their own keeps it; where PyTorch has been loaded before, nothing changes.
"""

from __future__ import annotations

import os

POLICY = os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
