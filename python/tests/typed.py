"""A program as users write it; type checkers read it, nobody runs it."""

from typing import Any

import horovod
import horovod.torch as hvd
import numpy as np
import ronde
import ronde.numpy as rn
import torch
from horovod.common.exceptions import HorovodInternalError
from ronde.torch.elastic import DistributedState

hvd.init(process_sets=[hvd.ProcessSet([0])])
rank: int = hvd.rank() + ronde.local_rank() + rn.size()
model = torch.nn.Linear(2, 1)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
optimizer = hvd.DistributedOptimizer(
    torch.optim.SGD(model.parameters(), lr=0.1),
    named_parameters=model.named_parameters(),
    compression=hvd.Compression.bf16,
    op=hvd.Average,
)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)
optimizer.synchronize()
with optimizer.skip_synchronize():
    optimizer.step()

mean: torch.Tensor = hvd.allreduce(torch.ones(1), name="mean", prescale_factor=0.5)
sums: list[torch.Tensor] = hvd.grouped_allreduce([mean, mean], op=hvd.Sum)
handle: int = hvd.allgather_async(mean)
everything = hvd.synchronize(handle)
rows: torch.Tensor = hvd.alltoall(mean)
rows, splits = hvd.alltoall(mean, splits=[1])
names: list[str] = hvd.allgather_object("name")
array: "np.ndarray[Any, Any]" = rn.broadcast(np.ones(3), 0)

state = hvd.elastic.TorchState(model, optimizer, batch=0)


@hvd.elastic.run
def train(state: hvd.elastic.TorchState) -> int:
    try:
        state.batch += 1
        state.commit()
    except HorovodInternalError:
        pass
    return 1


def build() -> dict[str, Any]:
    return {"model": model, "optimizer": optimizer}


@hvd.elastic.run
def train_distributed(state: DistributedState) -> int:
    state.epoch += 1
    state.commit()
    return 1


train_distributed(DistributedState(build, backend="cpu:ronde", epoch=0))
results: list[int] = horovod.run(train, args=(state,), num_proc=2)
