"""penstock.base.counters, in pickles of versions before 0.1."""

import sys

from penstock.base import counters

sys.modules[__name__] = counters
