"""Session operations besides messages: labels, interventions, rewind and forks."""
