from ronde.tensorflow.util import *
