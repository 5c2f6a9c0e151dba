"""penstock.transforms.base, in pickles of versions before 0.1."""

import sys

from penstock.transforms import base

sys.modules[__name__] = base
