"""Every test runs with shapes and types checked, and with `toys` at hand."""

import os
import sys
from pathlib import Path

from hypothesis import settings
from jaxtyping import install_import_hook

# A whole number serves where a float is expected, as type checkers have it.
CHECKER = "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))"

# Before anything imports the package: what is imported earlier stays unchecked. Triton compiles kernels as they stand.
SOURCES = Path(__file__).parents[1] / "src" / "procrustes_kge"
ROOMS = [path.stem for path in SOURCES.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()]
install_import_hook([f"procrustes_kge.{room}" for room in ROOMS if room not in ("kernels", "__init__")], CHECKER)
sys.path.insert(0, str(Path(__file__).parent))

# Drawn examples differ from run to run at a desk, to find more, and not on CI, where a failure must be the change's.
settings.register_profile("laws", deadline=None, max_examples=30, derandomize="CI" in os.environ)
settings.load_profile("laws")
