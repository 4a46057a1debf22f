"""Analytics: read-only SQL queries and reports with limits, over files that are generated from the database."""
