"""Check the consistency of the rows of the database, as far as that is possible without reading scripts."""
