from ronde.tensorflow.functions import *
