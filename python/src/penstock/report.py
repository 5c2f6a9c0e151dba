"""The public path of :mod:`penstock.stalls.report`, which takes the place of this module."""

from .stalls.report import *  # noqa: F403
