"""penstock.data.notebook, in pickles of versions before 0.1."""

import sys

from penstock.data import notebook

sys.modules[__name__] = notebook
