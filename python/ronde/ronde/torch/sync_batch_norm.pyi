from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm

class SyncBatchNorm(_BatchNorm):
    def forward(self, tensor: Tensor) -> Tensor: ...
