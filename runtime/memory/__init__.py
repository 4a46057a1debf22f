"""Memory beyond a conversation: units, their order and tree. Pure functions of data: no I/O, no clock."""
