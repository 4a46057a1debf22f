"""People in browsers: links that admit them, tokens that name them, and what they see of their sessions."""
