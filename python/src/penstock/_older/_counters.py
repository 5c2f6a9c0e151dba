"""The former path of penstock.base.counters. Pickles of versions before 0.1 import it."""

import sys

from penstock.base import counters

sys.modules[__name__] = counters
