"""penstock.pillow, in pickles of versions before 0.1."""

import sys

from penstock import pillow

sys.modules[__name__] = pillow
