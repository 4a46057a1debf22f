"""What of a conversation a model gets to see: strategies over a transcript that is never changed by them."""
