"""penstock.transforms.detection, in pickles of versions before 0.1."""

import sys

from penstock.transforms import detection

sys.modules[__name__] = detection
