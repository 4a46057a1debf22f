"""The language: YAML text becomes a checked, frozen Script. Pure: reads files, nothing else."""
