"""The analytics commands: ``query``, ``report``, ``snapshot`` and ``export``."""
