"""The static checker of schedule items."""

from mslang.schedule.check.checker import Checked, Mention, check_item

__all__ = ["Checked", "Mention", "check_item"]
