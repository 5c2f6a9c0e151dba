"""The former path of penstock.transforms.base. Pickles of versions before 0.1 import it."""

import sys

from penstock.transforms import base

sys.modules[__name__] = base
