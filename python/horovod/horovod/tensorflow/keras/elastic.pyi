from ronde.tensorflow.keras.elastic import *
