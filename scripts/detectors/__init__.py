"""Detectors without a model: words, measures, judgement of messages, and examples."""
