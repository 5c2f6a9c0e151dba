"""penstock.stalls.model, in pickles of versions before 0.1."""

import sys

from penstock.stalls import model

sys.modules[__name__] = model
