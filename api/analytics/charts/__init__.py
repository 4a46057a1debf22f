"""Charts of tables: a Vega-Lite specification, from which an SVG or a PNG is rendered."""
