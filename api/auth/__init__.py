"""Authentication, authorisation and limits of requests."""
