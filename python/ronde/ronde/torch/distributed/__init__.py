"""The engine as a backend of torch.distributed: `init_process_group("ronde")`, or `"cpu:ronde,cuda:nccl"`.

Importing this module registers it. Where PyTorch loads its extensions by itself, even that is not needed.
"""

from ronde._frameworks import require as _require

_require("torch")

from ronde._torch_backend import register as _register

_register()

__all__: list = []
