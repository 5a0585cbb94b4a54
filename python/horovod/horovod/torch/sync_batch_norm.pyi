from ronde.torch.sync_batch_norm import *
