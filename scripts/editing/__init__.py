"""What editors need to know of the text of a script: names and their places, completion, renames, outline."""
