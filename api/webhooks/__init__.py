"""Webhooks: what the application is told of without asking, signed, and sent again until it was heard."""
