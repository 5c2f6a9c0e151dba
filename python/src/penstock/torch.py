"""The public path of :mod:`penstock.loading.torch`. Importing this module gives that one."""

from .loading.torch import *  # noqa: F403
