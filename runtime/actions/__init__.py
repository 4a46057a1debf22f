"""What each family of actions does, one file a family."""
