"""A table as a picture: drawn as SVG, from which a PNG is made."""
