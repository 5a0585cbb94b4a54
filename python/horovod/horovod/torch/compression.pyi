from ronde.torch.compression import *
