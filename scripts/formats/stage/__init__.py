"""The stage format: sessions, stages and steps, with its conditions and include files."""
