"""A module whose import takes long."""

import time

from shop_tools import lookup_order

time.sleep(0.5)
__all__ = ["lookup_order"]
