"""The spellings a script may come in; each reads into the one model in scripts.model."""
