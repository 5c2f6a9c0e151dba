"""The public path of :mod:`penstock.loading.torch`, which takes the place of this module."""

from .loading.torch import *  # noqa: F403
