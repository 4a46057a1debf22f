"""What requests and answers look like: the documented shape of the API, in camelCase."""
