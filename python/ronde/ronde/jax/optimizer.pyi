from typing import Any, NamedTuple, Optional

import optax

from ronde.jax.compression import Compressor
from ronde.process_sets import ProcessSet

class AggregationState(NamedTuple):
    inner: Any
    sums: Any
    passes: Any

def DistributedOptimizer(
    optimizer: optax.GradientTransformation,
    name: Optional[str] = None,
    compression: type[Compressor] = ...,
    backward_passes_per_step: int = 1,
    op: int = ...,
    gradient_predivide_factor: float = 1.0,
    average_aggregated_gradients: bool = False,
    groups: Optional[int] = None,
    process_set: ProcessSet = ...,
) -> optax.GradientTransformationExtraArgs: ...
