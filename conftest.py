"""What is collected: modules that need what is not installed are left out."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("triton") else ["src/procrustes_kge/kernels/full_batch.py"]
