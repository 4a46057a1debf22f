"""The texts of a script in other languages: lines and string tables."""
