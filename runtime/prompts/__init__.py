"""Prompts for language models: templates by purpose and language, users' texts as data beside them, and the schema
of the reply.
"""
