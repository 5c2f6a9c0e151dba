"""penstock.transforms.sound, in pickles of versions before 0.1."""

import sys

from penstock.transforms import sound

sys.modules[__name__] = sound
