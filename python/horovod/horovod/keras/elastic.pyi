from ronde.keras.elastic import *
