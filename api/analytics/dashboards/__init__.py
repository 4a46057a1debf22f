"""Dashboards: reports and saved queries on one page, on request or written to files by a schedule."""
