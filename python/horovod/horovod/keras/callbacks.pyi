from ronde.keras.callbacks import *
