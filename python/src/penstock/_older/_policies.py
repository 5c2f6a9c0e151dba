"""The former path of penstock.transforms.policies. Pickles of versions before 0.1 import it."""

import sys

from penstock.transforms import policies

sys.modules[__name__] = policies
