"""Extraction of typed values from a free reply, without a language model, in the language of its locale.

Each parser returns None if a reply is ambiguous: another question costs less than a wrong value.
"""
