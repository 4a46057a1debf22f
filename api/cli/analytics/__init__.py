"""What analysts ask for on the command line."""
