"""penstock.planning.plan, in pickles of versions before 0.1."""

import sys

from penstock.planning import plan

sys.modules[__name__] = plan
