"""Storage of sessions, scripts, memory and analytics. This package does not depend on scripts or on the runtime."""
