"""Personal data on its way out: what is masked, and for whom."""
