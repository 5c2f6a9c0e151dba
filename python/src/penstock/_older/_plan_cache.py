"""The former path of penstock.caching.planned. Pickles of versions before 0.1 import it."""

import sys

from penstock.caching import planned

sys.modules[__name__] = planned
