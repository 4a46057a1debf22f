"""The models that a session can use: hosted, offline, scripted and recorded ones."""
