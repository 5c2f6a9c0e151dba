"""The public path of :mod:`penstock.loading.loader`, which takes the place of this module."""

from .loading.loader import *  # noqa: F403
