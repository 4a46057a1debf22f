"""Long-term memory: units from turns and from applications, searches, and background maintenance."""
