"""YAML in and out: located trees, the typed reader, the writer, comments and the JSON Schema."""
