"""Language models behind endpoints with OpenAI's chat completions API, with limits, retries and usage counts."""
