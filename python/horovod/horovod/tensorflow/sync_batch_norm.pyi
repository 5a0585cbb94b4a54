from ronde.tensorflow.sync_batch_norm import *
