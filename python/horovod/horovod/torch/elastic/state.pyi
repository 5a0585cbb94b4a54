from ronde.torch.elastic.state import *
