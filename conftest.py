"""What is collected: modules that need what is not installed are left out."""

from importlib.util import find_spec

NEED_TRITON = ("full_batch", "distances")
collect_ignore = [] if find_spec("triton") else [f"src/procrustes_kge/kernels/{name}.py" for name in NEED_TRITON]
