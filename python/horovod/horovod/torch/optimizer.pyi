from ronde.torch.optimizer import *
