from typing import Any, Optional, Union

import tensorflow as tf

from ronde.process_sets import ProcessSet
from ronde.tensorflow.compression import Compressor

class _Tape(tf.GradientTape):
    def register_local_source(self, source: Any) -> None: ...
    def gradient(
        self,
        target: Any,
        sources: Any,
        output_gradients: Any = None,
        use_generic_names: bool = False,
        **kwargs: Any,
    ) -> Any: ...
    def get_local_and_global_gradients(
        self, target: Any, sources: Any, output_gradients: Any = None, use_generic_names: bool = False
    ) -> tuple[list[tuple[Any, Any]], list[tuple[Any, Any]]]: ...

def DistributedGradientTape(
    gradtape: tf.GradientTape,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[Compressor] = ...,
    sparse_as_dense: bool = False,
    op: int = ...,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Union[None, int, list[list[Any]]] = None,
    process_set: ProcessSet = ...,
    scale_local_gradients: bool = True,
) -> _Tape: ...
def PartialDistributedGradientTape(
    gradtape: tf.GradientTape,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[Compressor] = ...,
    sparse_as_dense: bool = False,
    op: int = ...,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Union[None, int, list[list[Any]]] = None,
    process_set: ProcessSet = ...,
    local_layers: Any = None,
    scale_local_gradients: bool = True,
) -> _Tape: ...
def local_variables(layers: Any) -> list[Any]: ...
