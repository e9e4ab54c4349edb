"""Every test runs with shapes and types checked, on drawn examples that are the same in every run."""

import sys
from pathlib import Path
from pkgutil import iter_modules

from hypothesis import settings
from jaxtyping import install_import_hook

# A whole number serves where a float is expected, as type checkers have it.
CHECKER = "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))"
SOURCES = Path(__file__).parents[1] / "src" / "procrustes_kge"

# Before anything imports the package: what is imported earlier stays unchecked. Triton compiles kernels as they stand.
ROOMS = [room.name for room in iter_modules([str(SOURCES)]) if room.name != "kernels"]
install_import_hook([f"procrustes_kge.{room}" for room in ROOMS], CHECKER)
sys.path.insert(0, str(Path(__file__).parent))

# `--hypothesis-profile search` looks at more, and at others each time.
settings.register_profile("laws", deadline=None, max_examples=30, derandomize=True)
settings.register_profile("search", deadline=None, max_examples=300)
settings.load_profile("laws")
