"""What follows from a script as a whole, without running it: paths, reachability, types, and what is never used."""
