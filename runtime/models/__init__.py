"""What a session can talk through: the offline model and the scripted one."""
