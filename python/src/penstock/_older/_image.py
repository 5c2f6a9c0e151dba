"""penstock.data.image, in pickles of versions before 0.1."""

import sys

from penstock.data import image

sys.modules[__name__] = image
