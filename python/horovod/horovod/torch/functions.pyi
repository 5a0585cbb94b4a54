from ronde.torch.functions import *
