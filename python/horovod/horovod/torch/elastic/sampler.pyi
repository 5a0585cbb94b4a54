from ronde.torch.elastic.sampler import *
