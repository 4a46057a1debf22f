"""The server's TCP connections and open files."""
