"""Language models behind any endpoint that speaks OpenAI's chat completions, bounded, retried and counted."""
