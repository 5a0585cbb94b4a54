from ronde.tensorflow.compression import *
