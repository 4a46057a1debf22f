"""What is remembered beyond a conversation: units, their order and tree. Data in, decisions out: no I/O, no clock."""
