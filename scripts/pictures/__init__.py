"""A graph as something to look at: Mermaid text or an SVG picture."""
