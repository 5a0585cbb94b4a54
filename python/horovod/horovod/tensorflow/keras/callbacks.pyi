from ronde.tensorflow.keras.callbacks import *
