"""``cuebook memory``: what users have said and what is to be known of them; one file a group of commands."""
