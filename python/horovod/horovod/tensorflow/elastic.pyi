from ronde.tensorflow.elastic import *
