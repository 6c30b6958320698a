"""The database: connections, transactions, statements, migrations, and the embedded Postgres."""
