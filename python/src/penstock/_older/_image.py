"""The former path of penstock.data.image. Pickles of versions before 0.1 import it."""

import sys

from penstock.data import image

sys.modules[__name__] = image
