"""Without a GPU, kernels run by Triton's interpreter."""

import os

import pytest
import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # before Triton is imported


@pytest.fixture(autouse=True, scope="module")
def _interpreter():
    interpreter = pytest.importorskip("triton.runtime.interpreter")
    patched = interpreter._patch_lang_tensor

    def patch_with_scalars(tensor, scope):
        """Let the interpreter loop to a number that a kernel has loaded: NumPy 2.4 makes no int of an array of one."""
        patched(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.reshape(-1)[0]))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interpreter, "_patch_lang_tensor", patch_with_scalars)
        yield
