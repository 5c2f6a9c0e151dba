"""The former path of penstock.stalls.model. Pickles of versions before 0.1 import it."""

import sys

from penstock.stalls import model

sys.modules[__name__] = model
