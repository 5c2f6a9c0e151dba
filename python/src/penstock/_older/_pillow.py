"""The former path of penstock.pillow. Pickles of versions before 0.1 import it."""

import sys

from penstock import pillow

sys.modules[__name__] = pillow
