#!python
# The command `cleave` of the installed package. The package itself is not imported: the program starts at once.
import importlib.util
import os
import sys

found = importlib.util.find_spec("cleave")
if found is None:
    sys.exit("cleave: the Python package is not installed for " + sys.executable)
os.execv(os.path.join(found.submodule_search_locations[0], "bin", "cleave"), sys.argv)
