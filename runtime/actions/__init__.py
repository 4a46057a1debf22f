"""The implementation of each action type, one module for each family of actions."""
