"""numpy.cross as a black box:

cleave discover cross --command 'python3 examples/discover/numpy_cross.py'
"""

import numpy
from black_box import serve

serve(lambda a, b, dim: numpy.cross(a, b, axis=dim))
