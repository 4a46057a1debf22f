"""Webhooks: signed deliveries of events to the application, with retries."""
