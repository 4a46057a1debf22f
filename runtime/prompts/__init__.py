"""What a language model is told: templates by purpose and language, what people said as data beside them, and the
shape of the reply.
"""
