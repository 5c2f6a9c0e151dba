"""The former path of penstock.data.schema. Pickles of versions before 0.1 import it."""

import sys

from penstock.data import schema

sys.modules[__name__] = schema
