"""The former path of penstock.data.notebook. Pickles of versions before 0.1 import it."""

import sys

from penstock.data import notebook

sys.modules[__name__] = notebook
