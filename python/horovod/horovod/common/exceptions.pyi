from ronde.exceptions import *
