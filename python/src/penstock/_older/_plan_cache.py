"""penstock.caching.planned, in pickles of versions before 0.1."""

import sys

from penstock.caching import planned

sys.modules[__name__] = planned
