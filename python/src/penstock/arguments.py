"""The public path of :mod:`penstock.loading.arguments`, which takes the place of this module."""

from .loading.arguments import *  # noqa: F403
