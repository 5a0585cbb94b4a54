from ronde.mxnet.compression import *
