"""Reviews: people rate sessions or turns by the same questions, and their agreement is computed."""
