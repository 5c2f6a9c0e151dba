"""The former path of penstock.planning.plan. Pickles of versions before 0.1 import it."""

import sys

from penstock.planning import plan

sys.modules[__name__] = plan
