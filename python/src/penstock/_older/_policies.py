"""penstock.transforms.policies, in pickles of versions before 0.1."""

import sys

from penstock.transforms import policies

sys.modules[__name__] = policies
