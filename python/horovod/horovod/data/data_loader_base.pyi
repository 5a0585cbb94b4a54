from ronde.data import *
