"""The formats of scripts; each is read into the model in scripts.model.script."""
