"""Personal data: masking, redaction, deletion, retention and export."""
