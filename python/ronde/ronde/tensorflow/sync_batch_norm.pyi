from typing import Any, Optional

import tensorflow as tf

class SyncBatchNormalization(tf.keras.layers.BatchNormalization):
    def __init__(self, fused: Optional[bool] = False, **kwargs: Any) -> None: ...
