"""penstock.planning.tune, in pickles of versions before 0.1."""

import sys

from penstock.planning import tune

sys.modules[__name__] = tune
