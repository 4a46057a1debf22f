"""Whether the rows of the record agree with each other, as far as that can be told without knowing a script."""
