from ronde.process_sets import *
