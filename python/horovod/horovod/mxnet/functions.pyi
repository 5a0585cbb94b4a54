from ronde.mxnet.functions import *
