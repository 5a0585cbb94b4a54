"""Keeps torch.compile out of our functions: what they do is not to be traced.

`torch.compiler.disable` would do everywhere, but it loads the compiler, which takes seconds, in every program.
"""

import torch

try:
    from torch._C._dynamo.eval_frame import _FrameAction, _FrameExecStrategy, set_code_exec_strategy
except ImportError:
    set_code_exec_strategy = None


def untraced(method):
    """The method, not looked at by the compiler, nor what it calls."""
    if set_code_exec_strategy is None:
        return torch.compiler.disable(method)
    set_code_exec_strategy(method.__code__, _FrameExecStrategy(_FrameAction.SKIP, _FrameAction.SKIP))
    return method
