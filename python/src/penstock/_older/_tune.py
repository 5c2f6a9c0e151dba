"""The former path of penstock.planning.tune. Pickles of versions before 0.1 import it."""

import sys

from penstock.planning import tune

sys.modules[__name__] = tune
