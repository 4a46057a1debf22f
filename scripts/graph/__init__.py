"""Render a script as a graph: Mermaid text or an SVG picture."""
