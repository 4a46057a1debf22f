"""SQL that every database of the store executes, over the protocol `store.sql.connection.Connection`."""
