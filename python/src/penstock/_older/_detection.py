"""The former path of penstock.transforms.detection. Pickles of versions before 0.1 import it."""

import sys

from penstock.transforms import detection

sys.modules[__name__] = detection
