"""Sessions out of the record and into it: whole, to go on with elsewhere, or as what was said in them."""
