"""The row types, errors and file functions that all store packages share."""
