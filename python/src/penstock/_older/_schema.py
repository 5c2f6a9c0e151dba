"""penstock.data.schema, in pickles of versions before 0.1."""

import sys

from penstock.data import schema

sys.modules[__name__] = schema
