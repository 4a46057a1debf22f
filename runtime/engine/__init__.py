"""The turn loop: cursor, detectors, interrupts, repairs, corrections and interventions."""
