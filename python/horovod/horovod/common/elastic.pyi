from ronde.elastic import *
