"""The script catalog of a tenant: versions, views, differences, compatibility and reload."""
