from horovod.torch.elastic import sampler as sampler
from horovod.torch.elastic import state as state
from ronde.torch.elastic import *
