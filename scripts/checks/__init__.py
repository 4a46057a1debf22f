"""Static checks of a script: paths, reachability, types and unused names."""
