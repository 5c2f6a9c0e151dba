"""The former path of penstock.transforms.sound. Pickles of versions before 0.1 import it."""

import sys

from penstock.transforms import sound

sys.modules[__name__] = sound
